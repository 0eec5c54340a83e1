"""What a bench run stands on: a policy folder with its keys, pre-signed requests, a real broker on one core.

Method: the broker alone on core 0; store and load generator on core 1; rounds of all loads interleaved, each beside a
calibration of the same crypto on core 0, so that a noisy machine hurts all alike. The figure is CPU microseconds of the
broker process per request, read from /proc, and its ratio to the request's own ES256 verify and sign.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from broker.cli.admin_client import AdminClient
from broker.engines.jwk import generate_private_key, private_pem, public_jwk
from broker.engines.jws import sign

ROOT = Path(__file__).resolve().parents[2]
SERVER_CORE, OTHER_CORE = (0, 1) if (os.cpu_count() or 1) > 1 else (0, 0)
ISSUER = "https://idp.example"
RESOURCE = "https://reports.example/mcp"
SECRET = "bench-secret-with-enough-entropy-0123456789"
DEADLINE_SECONDS = 30
CLOCK_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Keys:
    """Private keys by name, made for this run."""

    idp: object
    client: object
    admin: object


@dataclass(frozen=True, slots=True)
class BenchBroker:
    """A running broker. watch: the file in which it leaves the totals of its own crypto."""

    process: subprocess.Popen[bytes]
    port: int
    url: str
    keys: Keys
    watch: Path

    def crypto_seconds(self) -> float:
        """CPU time inside its ES256 verify and sign so far."""
        self.watch.unlink(missing_ok=True)
        self.process.send_signal(signal.SIGUSR1)
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not self.watch.exists():
            if time.monotonic() > deadline:
                raise SystemExit("the broker does not tell its totals")
            os.sched_yield()
        totals = json.loads(self.watch.read_text())
        return sum(nanoseconds for _, nanoseconds in totals.values()) / 1e9

    def cpu_seconds(self) -> float:
        """CPU time of the broker process so far, all its threads."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICK

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(DEADLINE_SECONDS)


def start_broker(folder: Path) -> BenchBroker:
    """A broker with db.query@3 stable, pinned; its store on the other core."""
    keys = Keys(*(generate_private_key("ES256") for _ in range(3)))
    policies = write_policies(folder / "policies", keys)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    watch = folder / "crypto.json"
    command = [sys.executable, "-m", "tests.bench.server", str(watch), "serve", "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--policies", str(policies), "--data", str(folder / "data")],
        stderr=(folder / "broker.log").open("wb"),
        cwd=ROOT,
    )
    url = f"http://127.0.0.1:{port}"
    wait_for_port(port, process)
    os.sched_setaffinity(process.pid, {SERVER_CORE})
    for thread in Path(f"/proc/{process.pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {SERVER_CORE})
    for child in children_of(process.pid):
        for thread in Path(f"/proc/{child}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {OTHER_CORE})
    admin = AdminClient(url, "bench", folder / "policies" / "bench.pem")
    admin.call("POST", "/admin/versions/db.query/3/publish", body={})
    admin.call("POST", "/admin/versions/db.query/3/promote", body={})
    return BenchBroker(process=process, port=port, url=url, keys=keys, watch=watch)


def write_policies(folder: Path, keys: Keys) -> Path:
    """The project's own policies, with a trust file of this run's keys."""
    shutil.copytree(ROOT / "policies", folder)
    for name, key in (("idp", keys.idp), ("mcp", keys.client), ("bench", keys.admin)):
        jwk = public_jwk(key, algorithm="ES256")  # type: ignore[arg-type]
        (folder / f"{name}.json").write_text(json.dumps({"keys": [jwk]}))
    (folder / "bench.pem").write_bytes(private_pem(keys.admin))  # type: ignore[arg-type]
    digest = __import__("hashlib").sha256(SECRET.encode()).hexdigest()
    (folder / "trust.yaml").write_text(
        f"""tenant: bench
lockstep: strict
issuers:
  {ISSUER}:
    jwks: {{file: idp.json}}
    algorithms: [ES256]
    claims: {{groups: groups, agent: azp}}
    ceiling: {{tools: ["*"], scopes: ["*"]}}
clients:
  reporting-mcp:
    auth: client_secret_basic
    secret: sha256:{digest}
    resource: {RESOURCE}
    tools: ["*"]
    may: [exchange, introspect, report]
  jwt-mcp:
    auth: private_key_jwt
    jwks: {{file: mcp.json}}
    resource: {RESOURCE}
    tools: ["*"]
    may: [exchange, introspect, report]
  db-api:
    auth: client_secret_basic
    secret: sha256:{digest}
    resource: https://db.internal
    may: [introspect]
admins:
  bench:
    auth: private_key_jwt
    jwks: {{file: bench.json}}
    may: [publish, canary, promote, rollback, read]
defaults: {{ttl: 60s, max_ttl: 300s, leeway: 10s}}
"""
    )
    for name in ("db.query.yaml", "files.read.yaml"):
        path = folder / name
        path.write_text(path.read_text().replace("clients: [reporting-mcp], ", ""))
    return folder


def subject_tokens(keys: Keys, count: int) -> list[str]:
    """Distinct subject tokens for the whole run."""
    now = int(time.time())
    return [
        sign(
            {"typ": "at+jwt", "kid": public_jwk(keys.idp, algorithm="ES256")["kid"]},  # type: ignore[arg-type]
            {
                "iss": ISSUER,
                "sub": f"user-{number}",
                "aud": RESOURCE,
                "azp": "assistant",
                "client_id": "assistant",
                "groups": ["analysts"],
                "iat": now,
                "exp": now + 3600,
                "jti": secrets.token_urlsafe(16),
            },
            keys.idp,
            algorithm="ES256",
        )
        for number in range(count)
    ]


def assertion(keys: Keys, audience: str) -> str:
    """A fresh client assertion of jwt-mcp."""
    now = int(time.time())
    claims = {"iss": "jwt-mcp", "sub": "jwt-mcp", "aud": audience, "iat": now, "exp": now + 280}
    return sign(
        {"typ": "JWT"},
        {**claims, "jti": secrets.token_urlsafe(16)},
        keys.client,
        algorithm="ES256",  # type: ignore[dict-item]
    )


def exchange_form(subject_token: str, number: int) -> dict[str, str]:
    """An exchange for db.query@3 with arguments."""
    detail = {
        "type": "mcp_tool_call",
        "tool": "db.query",
        "version": "3",
        "task": "report",
        "arguments": {"query": f"select total from sales where region = {number}", "mode": "read", "timeout_ms": 500},
        "protocol_version": "2026-07-28",
    }
    return {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token": subject_token,
        "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
        "resource": "https://db.internal",
        "authorization_details": json.dumps([detail]),
    }


def post(path: str, form: dict[str, str], *, basic: str | None = None) -> bytes:
    """A whole HTTP request."""
    body = urlencode(form).encode()
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: broker",
        "Content-Type: application/x-www-form-urlencoded",
        f"Content-Length: {len(body)}",
    ]
    if basic is not None:
        lines.append(f"Authorization: Basic {basic}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def children_of(pid: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(path.parent.name))
    return found


def wait_for_port(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SystemExit(f"the broker ended with {process.returncode}; see its log")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        os.sched_yield()
    raise SystemExit("the broker did not come up in time")
