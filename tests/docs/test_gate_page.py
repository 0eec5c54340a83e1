"""The programs on the gate's page run as they stand: a server, its contract, the API behind it, and a caller."""

from __future__ import annotations

import json
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import httpx2
import jwt
import pytest

from broker_parts import BrokerProcess, free_port, public_set, wait_until

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "broker" / "docs" / "gate.md").read_text()
README = (ROOT / "README.md").read_text()
PROGRAMS = dict(re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
PORTS = ("8420", "8430", "8440")
NOTES = "https://notes.internal"


@dataclass(frozen=True, slots=True)
class Place:
    """Where the programs lie, and the ports that stand in them for those of the page."""

    folder: Path
    broker: BrokerProcess
    ports: dict[str, str]

    def spell(self, text: str) -> str:
        for shown, real in self.ports.items():
            text = text.replace(shown, real)
        return text

    def run(self, *words: str, expect: int = 0) -> str:
        done = subprocess.run([sys.executable, *words], cwd=self.folder, capture_output=True, text=True, timeout=60)
        assert done.returncode == expect, done.stdout + done.stderr
        return done.stdout + done.stderr

    def token(self) -> str:
        now = int(time.time())
        claims = {
            "iss": "https://idp.example",
            "sub": "alice",
            "azp": "agent-7",
            "jti": secrets.token_urlsafe(8),
            "aud": self.spell("http://127.0.0.1:8430/mcp"),
            "iat": now,
            "exp": now + 600,
        }
        return jwt.encode(claims, (self.folder / "keys/idp.pem").read_text(), "ES256", headers={"typ": "at+jwt"})


def trust(mcp: str) -> dict[str, object]:
    """What `trust.yaml` says of those on the page (JSON is YAML)."""
    keys = {name: {"jwks": {"file": f"keys/{name}.json"}} for name in ("idp", "reporting-mcp", "notes-api", "operator")}
    signed = {"auth": "private_key_jwt"}
    ceiling = {"tools": ["notes.*"], "scopes": ["notes:*"]}
    return {
        "issuers": {"https://idp.example": {**keys["idp"], "algorithms": ["ES256"], "ceiling": ceiling}},
        "clients": {
            "reporting-mcp": {
                **signed,
                **keys["reporting-mcp"],
                "resource": mcp,
                "tools": ["notes.read"],
                "may": ["exchange", "introspect", "report"],
            },
            "notes-api": {**signed, **keys["notes-api"], "resource": NOTES, "may": ["introspect"]},
        },
        "admins": {"operator": {**signed, **keys["operator"], "may": ["publish", "promote", "read"]}},
    }


def write_policy(place: Place, digest: str) -> None:
    version = {
        "contract": "contracts/notes.read/1.json",
        "digest": digest,
        "scopes": {"notes:read": {"needed_when": True}},
        "tasks": {"read": {"allow": {"clients": ["reporting-mcp"]}, "scopes": ["notes:read"]}},
    }
    file = {"tool": "notes.read", "audience": NOTES, "owners": ["tests"], "versions": {"1": version}}
    (place.folder / "policies/notes.read.yaml").write_text(json.dumps(file))
    asked = {"version": "1", "task": "read", "issuer": "https://idp.example", "arguments": {"topic": "plans"}}
    cases = [
        {"name": "it reads", "request": {**asked, "client": "reporting-mcp"}, "permit": ["notes:read"]},
        {"name": "an API does not", "request": {**asked, "client": "notes-api"}, "refuse": "client_not_permitted"},
    ]
    (place.folder / "policies/tests").mkdir(exist_ok=True)
    (place.folder / "policies/tests/notes.read.yaml").write_text(json.dumps({"tool": "notes.read", "cases": cases}))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("gate-page")
    policies = folder / "policies"
    (policies / "contracts/notes.read").mkdir(parents=True)
    broker = BrokerProcess(folder, policies=SimpleNamespace(folder=policies))  # type: ignore[arg-type]
    made = Place(folder, broker, {"8420": str(broker.port), "8430": str(free_port()), "8440": str(free_port())})
    for name, text in PROGRAMS.items():
        (folder / name).write_text(made.spell(text))
    made.run("-m", "broker.cli.main", "keygen", "--out", "keys", "idp", "reporting-mcp", "notes-api")
    (policies / "keys").symlink_to(folder / "keys")
    (folder / "keys/operator.json").write_text(json.dumps(public_set("operator")))
    (policies / "trust.yaml").write_text(json.dumps(trust(made.spell("http://127.0.0.1:8430/mcp"))))
    try:
        yield made
    finally:
        broker.remove()


@pytest.fixture(scope="module")
def running(place: Place) -> Iterator[Place]:
    """Everything that the page starts, from the contract that it prints and the digest that the check names."""
    (place.folder / "policies/contracts/notes.read/1.json").write_text(place.run("contract.py"))
    write_policy(place, "sha256:" + "0" * 64)
    said = place.run("-m", "broker.cli.main", "policy", "check", "policies", expect=1)
    write_policy(place, re.findall(r"sha256:[0-9a-f]{64}", said)[1])
    place.broker.start()
    place.broker.wire.serve("notes.read@1")
    commands = (
        [sys.executable, "server.py"],
        [sys.executable, "-m", "uvicorn", "api:app", "--port", place.ports["8440"], "--log-level", "warning"],
    )
    with ExitStack() as stack, (place.folder / "programs.log").open("wb") as log:
        for command in commands:
            program = stack.enter_context(subprocess.Popen(command, cwd=place.folder, stdout=log, stderr=log))
            stack.callback(program.terminate)
        for port in ("8430", "8440"):
            wait_until(partial(answers, place.spell(f"http://127.0.0.1:{port}")), seconds=40, what=f"{port} answers")
        yield place


def answers(url: str) -> bool:
    try:
        httpx2.get(url, timeout=5)
    except httpx2.TransportError:
        return False
    return True


def test_the_page_shows_every_program() -> None:
    assert set(PROGRAMS) == {"server.py", "contract.py", "api.py", "caller.py"}
    assert all(port in PAGE for port in PORTS)


def test_a_caller_reaches_the_api_through_server_gate_and_broker(running: Place) -> None:
    assert "alice reads about owls" in running.run("caller.py", running.token())


def test_the_api_lets_nobody_in_without_a_credential(running: Place) -> None:
    answer = httpx2.get(running.spell("http://127.0.0.1:8440/notes/owls"))
    assert (answer.status_code, answer.json()["reason"]) == (401, "credential_missing")
    token = {"authorization": f"Bearer {running.token()}"}
    assert httpx2.get(running.spell("http://127.0.0.1:8440/notes/owls"), headers=token).status_code == 401


def test_what_the_readme_imports_is_there() -> None:
    found = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    assert found
    for block in found:
        exec(compile(block, "README.md", "exec"), {})
