"""The verifier for a protected API: real credentials of a real broker, and the known ways to fake one."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from broker.gate.downstream import CredentialVerifier
from gate_parts import DATABASE, database_app, protected, running

from broker_parts import SECRETS, BrokerProcess, detail, subject_token

sys.path.insert(0, str(Path(__file__).parent.parent / "rfc"))
from jwt_cases import AUDIENCE, ISSUER, NOW, VECTORS, key_set, make_token, public_members


def mint(broker: BrokerProcess, tool: str, **members: Any) -> str:
    """A credential for the tool, as its gate would get it."""
    asked = {"tool": tool, "version": "3", "task": "report", "arguments": {"query": "q"}, **members}
    token = subject_token(groups=["dba", "counted"])
    answer = broker.wire.mint(client="svc", subject_token=token, authorization_details=detail(**asked))
    return str(answer["access_token"])


@pytest.fixture
def served(gate_broker: BrokerProcess, tool: str) -> str:
    gate_broker.wire.serve(f"{tool}@3")
    return tool


@asynccontextmanager
async def api(app: CredentialVerifier) -> AsyncIterator[httpx2.AsyncClient]:
    """The API over real HTTP."""
    async with running(app, lifespan="off") as url, httpx2.AsyncClient(base_url=url) as client:
        yield client
        await app.aclose()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_a_credential_lets_in_and_says_whose_call_it_is(gate_broker: BrokerProcess, served: str) -> None:
    async with api(protected(gate_broker)) as database:
        answer = await database.get("/read", headers=bearer(mint(gate_broker, served)))
    assert answer.status_code == 200
    said = answer.json()
    assert (said["tool"], said["version"], said["task"], said["account"]) == (served, "3", "report", "alice")


async def test_a_rolled_back_version_is_refused_at_the_next_request(gate_broker: BrokerProcess, served: str) -> None:
    token = mint(gate_broker, served)
    async with api(protected(gate_broker, online=True)) as database:
        assert (await database.get("/read", headers=bearer(token))).status_code == 200
        gate_broker.wire.command(f"{served}@3", "rollback", force=True)
        answer = await database.get("/read", headers=bearer(token))
    assert answer.status_code == 401
    assert answer.json()["reason"] == "credential_revoked"
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]


async def test_a_credential_that_was_given_back_is_dead(gate_broker: BrokerProcess, served: str) -> None:
    token = mint(gate_broker, served)
    assert gate_broker.wire.revoke(token, client="svc").status_code == 200
    async with api(protected(gate_broker, online=True)) as database:
        assert (await database.get("/read", headers=bearer(token))).status_code == 401


async def test_each_request_is_one_use(gate_broker: BrokerProcess, served: str) -> None:
    token = mint(gate_broker, served, task="once")
    async with api(protected(gate_broker)) as database:
        first = await database.get("/read", headers=bearer(token))
        second = await database.get("/read", headers=bearer(token))
    assert (first.status_code, second.status_code) == (200, 401)


async def test_a_scope_it_lacks_is_asked_for_by_name(gate_broker: BrokerProcess, served: str) -> None:
    async with api(protected(gate_broker)) as database:
        answer = await database.get("/write", headers=bearer(mint(gate_broker, served)))
    assert answer.status_code == 403
    assert answer.json()["reason"] == "credential_scope_insufficient"
    assert answer.headers["www-authenticate"].startswith('Bearer error="insufficient_scope"')
    assert 'scope="db:write"' in answer.headers["www-authenticate"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"tool": "db.other"}, "credential_tool_mismatch"),
        ({"version": ("2", "4")}, "credential_tool_mismatch"),
        ({"task": "migrate"}, "credential_task_mismatch"),
        ({"tool": ()}, "credential_tool_mismatch"),
        ({"scope_for": lambda scope: None}, "credential_scope_insufficient"),
        ({"scope_for": lambda scope: set()}, "credential_scope_insufficient"),
    ],
    ids=["wrong tool", "wrong version", "wrong task", "no tool at all", "no scope named", "empty scopes"],
)
async def test_another_tool_version_or_task_is_insufficient(
    gate_broker: BrokerProcess, served: str, options: dict[str, Any], reason: str
) -> None:
    async with api(protected(gate_broker, **options)) as database:
        answer = await database.get("/read", headers=bearer(mint(gate_broker, served)))
    assert (answer.status_code, answer.json()["reason"]) == (403, reason)


async def test_another_audience_is_refused(gate_broker: BrokerProcess, served: str) -> None:
    async with api(protected(gate_broker, audience="https://db.internal/")) as database:
        answer = await database.get("/read", headers=bearer(mint(gate_broker, served)))
    assert (answer.status_code, answer.json()["reason"]) == (401, "token_audience_mismatch")


async def test_the_callers_own_token_opens_nothing(gate_broker: BrokerProcess) -> None:
    async with api(protected(gate_broker)) as database:
        answer = await database.get("/read", headers=bearer(subject_token(aud=DATABASE)))
    assert answer.status_code == 401


@pytest.mark.parametrize(
    ("headers", "status", "reason"),
    [
        ([], 401, "credential_missing"),
        ([("Authorization", "Basic YTpi")], 401, "credential_missing"),
        ([("Authorization", "Bearer")], 401, "token_malformed"),
        ([("Authorization", "Bearer a.b.c d")], 401, "token_malformed"),
        ([("Authorization", "Bearer a.b.c,Bearer d")], 401, "token_malformed"),
        ([("Authorization", "Bearer a.b.c"), ("authorization", "Bearer a.b.c")], 400, "request_malformed"),
    ],
    ids=["none", "another scheme", "no token", "two tokens", "a list", "two headers"],
)
async def test_exactly_one_bearer_token_is_expected(
    gate_broker: BrokerProcess, headers: list[tuple[str, str]], status: int, reason: str
) -> None:
    async with api(protected(gate_broker)) as database:
        answer = await database.get("/read?access_token=x", headers=headers)
    assert (answer.status_code, answer.json()["reason"]) == (status, reason)
    has_error = "error=" in answer.headers["www-authenticate"]
    assert has_error is (reason != "credential_missing")


async def test_a_broker_that_is_away_is_no_fault_of_the_credential(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    try:
        broker.start().wire.serve("db.query@3")
        token = mint(broker, "db.query")
        async with api(protected(broker, timeout_seconds=1.0, online=True)) as database:
            assert (await database.get("/read", headers=bearer(token))).status_code == 200
            broker.process.send_signal(signal.SIGSTOP)  # type: ignore[union-attr]
            slow = await database.get("/read", headers=bearer(token))
            broker.process.send_signal(signal.SIGCONT)  # type: ignore[union-attr]
            broker.stop(signal.SIGKILL)
            away = await database.get("/read", headers=bearer(token))
            unknown = await database.get("/read", headers=bearer("a.b.c"))
    finally:
        broker.remove()
    for answer in (slow, away):
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) >= 1
        assert "www-authenticate" not in answer.headers
        assert answer.json()["error"] == "temporarily_unavailable"
    assert unknown.status_code == 401


# Credentials that a broker never signed, and one that it did, under a key of the vectors.

CLAIMS: dict[str, Any] = {
    "sub_id": {"format": "iss_sub", "iss": "https://idp.example", "sub": "alice"},
    "act": {"iss": "https://idp.example", "sub": "agent-7"},
    "authorization_details": [
        {
            "type": "mcp_tool_call",
            "tool": "ticket.create",
            "version": "2.1.0",
            "contract": "sha256:" + "0" * 64,
            "task": "report",
        }
    ],
    "txn": "t-1",
    "chain": "j-1",
    "policy": "sha256:" + "1" * 64,
    "gen": 1,
    "rseq": 0,
}


class KeyStub:
    """Stands in for a broker whose keys are those of the vectors, which no real broker can have: JWKS and introspection."""

    def __init__(self, case: dict[str, Any]) -> None:
        algorithms = case.get("key_algorithms", ["RS256"])
        assert key_set(case)
        self.keys = [{**public_members(name), "kid": name, "alg": alg} for alg in algorithms for name in ("k1", "k2")]
        self.asked: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked.append(scope["path"])
        body = json.dumps({"keys": self.keys} if scope["path"] == "/jwks.json" else {"active": True}).encode()
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


async def judged(case: dict[str, Any], **options: Any) -> tuple[httpx2.Response, KeyStub]:
    stub = KeyStub(case)
    claims = {**CLAIMS, **case.get("claims", {})}
    if isinstance(claims.get("sub"), str):
        claims["sub_id"] = {**CLAIMS["sub_id"], "sub": claims["sub"]}
    async with running(stub, lifespan="off") as broker_url:
        app = CredentialVerifier(
            database_app(),
            issuer=ISSUER,
            broker_url=broker_url,
            audience=AUDIENCE,
            client_id="db-api",
            client_secret=SECRETS["db-api"][1],
            scope_for=lambda scope: "db:read",
            clock=lambda: NOW,
            online=True,
            **options,
        )
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://tools.example") as client:
            answer = await client.get("/read", headers=bearer(make_token({**case, "claims": claims})))
        await app.aclose()
    return answer, stub


@pytest.mark.parametrize("case", VECTORS["tokens"], ids=lambda case: case["name"])
async def test_a_faked_token_is_refused_for_its_reason(case: dict[str, Any]) -> None:
    answer, stub = await judged(case)
    if case["expect"] == "accept":
        assert answer.status_code == 200, answer.text
        assert stub.asked == ["/jwks.json", "/introspect"]
        return
    assert answer.status_code == 401
    assert answer.json()["reason"] == case["expect"]
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]
    assert "/introspect" not in stub.asked


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"version": "2.2.0"}, "credential_tool_mismatch"), ({"task": "task-8"}, "credential_task_mismatch")],
    ids=["wrong_tool_version", "wrong_task"],
)
async def test_a_credential_for_another_version_or_task_is_forbidden(options: dict[str, Any], reason: str) -> None:
    answer, _ = await judged({}, tool="ticket.create", **options)
    assert (answer.status_code, answer.json()["reason"]) == (403, reason)


@pytest.mark.parametrize(
    "claims",
    [
        {"authorization_details": []},
        {"authorization_details": [{"type": "payment"}]},
        {"act": {"sub": "agent-7"}},
        {"policy": "none"},
        {"gen": True},
        {"rseq": -1},
        {"scope": "db:read  db:write"},
        {"txn": None},
    ],
    ids=lambda claims: next(iter(claims)),
)
async def test_a_token_of_the_broker_that_is_no_credential_is_refused(claims: dict[str, Any]) -> None:
    answer, _ = await judged({"claims": claims})
    assert (answer.status_code, answer.json()["reason"]) == (401, "token_claim_invalid")
