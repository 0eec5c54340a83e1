"""A command that waits, and a broker that does not go on as it should: what has acted is never said to have failed."""

from __future__ import annotations

import http.server
import json
import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from broker.cli.main import main
from broker.engines.jwk import generate_private_key, private_pem

ACTED = {
    "event": "acted",
    "changed": True,
    "gen": 5,
    "seq": 7,
    "revoked": ["version:db.query@4"],
    "versions": [],
    "receipt_at": "/admin/receipts/5/7",
}
RECEIPT = {
    "v": 1,
    "iss": "http://127.0.0.1",
    "iat": 1,
    "jti": "r",
    "gen": 5,
    "seq": 7,
    "revoked": ["version:db.query@4"],
    "change": "c",
    "at": "t",
    "by": "operator",
    "recorded": True,
    "lease_ms": 2_000,
    "elapsed_ms": 10,
    "expired": [],
    "acknowledged": [{"verifier": "v" * 16, "client": "db-api", "applied": "5:7"}],
    "statement": "a.b.c",
}
PROGRESS = {
    "event": "progress",
    "verifiers": 1,
    "acknowledged": 0,
    "expired": 0,
    "waiting": [{"verifier": "v" * 16, "client": "db-api", "applied": "5:6"}],
    "seconds_left": 1.5,
}
ANSWER = {**ACTED, "event": "answer", "receipt": RECEIPT}
FAILURE = {
    "event": "failure",
    "status": 503,
    "error": "effective_without_receipt",
    "error_description": "no receipt now",
    "request_id": "q",
}
HAS_ACTED = (
    "rollback of db.query@4 has acted, at 5:7: what it revoked is dead. For its receipt: broker receipt show 5:7 --wait"
)


class Script(http.server.BaseHTTPRequestHandler):
    """Answers every request with what its server was given: status, type, lines; cut off where it says so."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        status, kind, lines, cut = self.server.script  # type: ignore[attr-defined]
        body = b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines)
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body) + (100 if cut else 0)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[http.server.HTTPServer]:
    made = http.server.HTTPServer(("127.0.0.1", 0), Script)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture(scope="module")
def environment(server: http.server.HTTPServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    key: Path = tmp_path_factory.mktemp("keys") / "operator.pem"
    key.write_bytes(private_pem(generate_private_key("ES256")))
    plain = {name: value for name, value in os.environ.items() if not name.startswith("BROKER_")}
    url = f"http://127.0.0.1:{server.server_port}"
    return {**plain, "BROKER_URL": url, "BROKER_ADMIN": "operator", "BROKER_ADMIN_KEY": str(key)}


LINES = "application/x-ndjson"
COMMAND = [sys.executable, "-m", "broker.cli.main", "version", "rollback", "db.query@4", "--wait"]


@pytest.mark.parametrize(
    ("script", "exit_code", "says"),
    [
        ((200, LINES, [ACTED, PROGRESS, ANSWER], False), 0, ["No verifier can accept a credential of db.query@4"]),
        ((200, LINES, [ACTED, PROGRESS], True), 5, ["no broker answers at", HAS_ACTED]),
        ((200, LINES, [ACTED, PROGRESS], False), 5, ["the broker gave no receipt", HAS_ACTED]),
        ((200, LINES, [ACTED, b"<html>\n"], False), 5, ["is no broker, or was cut off", HAS_ACTED]),
        ((200, LINES, [ACTED, FAILURE], False), 5, ["no receipt now (request q)", HAS_ACTED]),
        ((200, LINES, [], True), 4, ["no broker answers at"]),
        ((200, LINES, [b"[1]\n"], False), 4, ["is no broker"]),
        ((200, "application/json", [{**ACTED, "event": None}], False), 5, ["is it an older one?", HAS_ACTED]),
        ((200, LINES, [ACTED, {**ANSWER, "receipt": {"v": 2}}], False), 4, ["what the broker calls a receipt"]),
        (
            (409, "application/json", [{"error": "conflict", "reason": "no_version_left", "request_id": "q"}], False),
            1,
            ["refused, no_version_left"],
        ),
        ((503, "application/json", [{k: v for k, v in FAILURE.items() if k != "event"}], False), 4, ["no receipt now"]),
    ],
)
def test_however_the_wait_goes_what_has_acted_is_said_to_have(
    server: Any,
    environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    script: Any,
    exit_code: int,
    says: list[str],
) -> None:
    server.script = script
    for name in ("BROKER_URL", "BROKER_ADMIN", "BROKER_ADMIN_KEY"):
        monkeypatch.setenv(name, environment[name])
    monkeypatch.setattr(sys, "argv", ["broker", *COMMAND[3:]])
    with pytest.raises(SystemExit) as ended:
        main()
    said = "".join(capsys.readouterr())
    assert ended.value.code == exit_code, said
    for text in says:
        assert text in said
    assert ("has acted" in said) == (exit_code == 5)


def test_on_a_terminal_progress_is_one_line_that_goes_away(server: Any, environment: dict[str, str]) -> None:
    server.script = (200, LINES, [ACTED, PROGRESS, PROGRESS, ANSWER], False)
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(COMMAND, env=environment, stdout=subprocess.PIPE, stderr=theirs, text=True, timeout=60)
        shown = os.read(ours, 65_536).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 0
    assert shown.count("waiting for vvvvvvvvvvvvvvvv (db-api)") == 2
    assert "\n" not in shown
    assert re.sub(r"\r\x1b\[K[^\r]*(?=\r)", "", shown) == "\r\x1b[K", "the last thing done to the line is to erase it"
    assert done.stdout.splitlines() == [
        "revoked version:db.query@4: every credential with rseq below 7 is dead",
        "verifier          client  how",
        "vvvvvvvvvvvvvvvv  db-api  applied 5:7",
        "No verifier can accept a credential of db.query@4 any more.",
    ]
