"""Fuzz a running broker from its own OpenAPI document; exit 0 only if no answer was a server error.

    python tests/fuzz/run.py --schemathesis PROGRAM [--seconds 90]

schemathesis pins another jsonschema-rs than we do, so it lives in an environment of its own and speaks HTTP only. One name
is a client and an administrator with the same secret, so that its one Authorization header opens every endpoint.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from broker_parts import BrokerProcess, basic, detail, exchange_form, read_log, subject_token

NAME = "svc"
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"

PARTS = [
    (0.4, ("--include-path", "/token", "--phases", "coverage,fuzzing")),
    (0.2, ("--include-path", "/introspect", "--include-path", "/revoke", "--phases", "coverage,fuzzing")),
    (0.4, ("--exclude-tag", "oauth", "--exclude-path", "/revocations/stream")),
]
"""Shares of the time: the endpoint that everything hangs on gets most of it. A stream has no end that could be waited for."""


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--schemathesis", required=True, type=Path)
    asked.add_argument("--seconds", type=int, default=90)
    options = asked.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="mayfly-fuzz-"))
    broker = BrokerProcess(folder)
    open_everything(broker)
    try:
        broker.start()
        broker.wire.serve("ticket.edit@1", "db.query@3", "files.read@1")
        broker.wire.command("db.query@4", "publish")
        code = fuzz(broker, options.schemathesis.absolute(), options.seconds, folder)
        if not broker.is_ready():
            print("the broker is not ready any more")
            code = 1
        code = max(code, judge_depth(broker))
    finally:
        said = broker.said()
        broker.remove()
    if "Traceback" in said:
        print(said)
        code = 1
    if code == 0:
        shutil.rmtree(folder)
    else:
        print(f"the broker's log and data are in {folder}")
    return code


def open_everything(broker: BrokerProcess) -> None:
    """Make the fuzzing client an administrator, too."""
    path = broker.policies.folder / "trust.yaml"
    trust = json.loads(path.read_text())
    method, secret = trust["clients"][NAME]["auth"], trust["clients"][NAME]["secret"]
    trust["admins"][NAME] = {"auth": method, "secret": secret, "may": trust["admins"]["operator"]["may"]}
    path.write_text(json.dumps(trust))


def judge_depth(broker: BrokerProcess) -> int:
    """0 if the requests went past the first check: exchanges were granted, and refused for many different reasons."""
    records = read_log(broker)
    granted = sum(record["type"] == "mint" for record in records)
    reasons = Counter(record["reason"] for record in records if record["type"] == "mint.deny")
    moved = sum(record["type"].startswith("version.") for record in records)
    print(
        f"recorded: {granted} granted, {reasons.total()} refused for {len(reasons)} reasons, {moved} changes of versions"
    )
    print("   " + ", ".join(f"{reason} {count}" for reason, count in reasons.most_common()))
    return 0 if granted >= 4 and len(reasons) >= 6 else 1


def fuzz(broker: BrokerProcess, program: Path, seconds: int, folder: Path) -> int:
    """Run schemathesis, part by part; the worst exit code."""
    form = exchange_form()
    credential = broker.wire.mint(client=NAME)["access_token"]
    values = {
        "grant_type": [form["grant_type"]],
        "subject_token": [subject_token() for _ in range(3)] + [credential],
        "subject_token_type": [form["subject_token_type"]],
        "authorization_details": [
            form["authorization_details"],
            json.dumps([detail("db.query", version=None, task="report", arguments={"query": "select 1"})]),
            json.dumps([detail("files.read", task="read", arguments={"path": "/srv/reports/a"})]),
        ],
        "token": [credential],
        "path tool": ["db.query", "ticket.edit"],
        "path version": ["3", "4", "1"],
        "path command": ["canary", "promote", "rollback", "deprecate", "retire"],
    }
    common = [
        *(str(program), "run", f"{broker.url}/openapi.json", "--header", f"Authorization: {basic(NAME)}"),
        *("--checks", CHECKS, "--max-examples", "1000", "--workers", "1", "--no-color"),  # its threads race on a cache
        *("--warnings", "off", "--request-timeout", "10", "--continue-on-failure"),
    ]
    environment = {
        **os.environ,
        "FUZZ_VALUES": json.dumps(values),
        "SCHEMATHESIS_HOOKS": "hooks",
        "PYTHONPATH": str(Path(__file__).parent),
    }
    runs = [
        subprocess.run(
            [*common, "--max-time", str(max(1, round(seconds * share))), *part],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
        for share, part in PARTS
    ]
    return max(abs(run.returncode) for run in runs)


if __name__ == "__main__":
    sys.exit(main())
