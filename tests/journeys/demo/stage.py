"""Where the demo plays: a folder of its own, free ports, the shipped policies with those ports, keys, and the processes.

| process    | stands for                                         | listens as                       |
|------------|----------------------------------------------------|----------------------------------|
| idp        | the company's identity provider                    | issuer of the callers' tokens    |
| broker     | `broker serve`, with its embedded store            | issuer of the credentials        |
| database   | the API that accepts credentials for db.query      | audience `https://db.internal`   |
| files      | the API that accepts credentials for files.read    | audience `https://files.internal` |
| mcp        | the MCP server that gates its tools                | `reporting-mcp`                  |
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from .processes import ROOT, ProcessError, Processes, RunningProcess, free_ports

DATABASE_AUDIENCE: Final = "https://db.internal"
FILES_AUDIENCE: Final = "https://files.internal"
REPORTS: Final = "/srv/reports"
"""The folder that policy names. Here it lies under the stage's own folder."""

REVENUE: Final = "select * from revenue order by region"
READINGS: Final = "select * from readings"

_PACKAGE: Final = "tests.journeys.demo"
_SHIPPED_ISSUER: Final = "http://127.0.0.1:8421"
_SHIPPED_RESOURCE: Final = "http://127.0.0.1:8430/mcp"
_KEYS: Final = (
    "reporting-mcp",
    "agents-mcp",
    "db-api",
    "files-api",
    "repositories-api",
    "payments-api",
    "cluster-api",
    "operator",
    "rollout-bot",
)


@dataclass(frozen=True, slots=True)
class Stage:
    """Addresses and paths, as every process of the demo gets them in `stage.json`."""

    folder: str
    broker: str
    idp: str
    mcp: str
    database: str
    files: str

    def path(self, *parts: str) -> Path:
        return Path(self.folder, *parts)

    def key(self, name: str) -> Path:
        """The private key of a client or an administrator."""
        return self.path("policies", "keys", f"{name}.pem")

    def contract(self, tool: str, version: str) -> dict[str, object]:
        """A contract of the policy folder, as it is published."""
        found: dict[str, object] = json.loads(self.path("policies", "contracts", tool, f"{version}.json").read_text())
        return found


def read_stage(argv: list[str]) -> Stage:
    """The stage of a process that was started with the path of its `stage.json`."""
    return Stage(**json.loads(Path(argv[1]).read_text()))


def port_of(url: str) -> int:
    return int(url.rsplit(":", 1)[1].split("/")[0])


def set_stage(folder: Path) -> Stage:
    """Make the folder: policies with this stage's addresses, keys, reports to read."""
    urls = [f"http://127.0.0.1:{port}" for port in free_ports(5)]
    stage = Stage(
        folder=str(folder), broker=urls[0], idp=urls[1], mcp=urls[2] + "/mcp", database=urls[3], files=urls[4]
    )
    folder.mkdir(parents=True)
    policies = folder / "policies"
    shutil.copytree(ROOT / "policies", policies, ignore=shutil.ignore_patterns("keys"))
    for file in policies.rglob("*.yaml"):
        text = file.read_text().replace(_SHIPPED_ISSUER, stage.idp).replace(_SHIPPED_RESOURCE, stage.mcp)
        file.write_text(text)
    made = subprocess.run(
        [sys.executable, "-m", "broker.cli.main", "keygen", *_KEYS, "--out", str(policies / "keys")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        raise ProcessError(f"broker keygen ended with code {made.returncode}: {made.stderr}")
    report = stage.path(REPORTS.lstrip("/"), "2026", "q3.csv")
    report.parent.mkdir(parents=True)
    report.write_text("region,revenue\nnorth,120\nsouth,80\n")
    stage.path("stage.json").write_text(json.dumps(asdict(stage), indent=2))
    return stage


def start_all(stage: Stage, processes: Processes) -> list[tuple[RunningProcess, str]]:
    """Start everything side by side: each process with the URL that it is going to answer."""
    serve = ["-m", "broker.cli.main", "serve", "--policies", str(stage.path("policies"))]
    serve += ["--data", str(stage.path("data")), "--port", str(port_of(stage.broker))]
    settings = str(stage.path("stage.json"))
    commands = [
        ("mcp", ["-m", f"{_PACKAGE}.mcp_server", settings], stage.mcp),
        ("broker", serve, f"{stage.broker}/readyz"),
        ("database", ["-m", f"{_PACKAGE}.database_api", settings], stage.database),
        ("files", ["-m", f"{_PACKAGE}.files_api", settings], stage.files),
        ("idp", ["-m", f"{_PACKAGE}.identity_provider", settings], f"{stage.idp}/jwks.json"),
    ]
    return [(processes.start(name, [sys.executable, *command]), url) for name, command, url in commands]


def wait_all(started: Sequence[tuple[RunningProcess, str]]) -> None:
    """Return when everything answers."""
    for process, url in started:
        process.wait_ready(url)
