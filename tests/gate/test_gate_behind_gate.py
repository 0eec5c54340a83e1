"""A tool that calls a tool of another server with its credential: the other server's gate exchanges that for a child.

caller —token→ front (gate) —credential→ back (gate) —its child→ database. One `txn`, two agents in the records, and what kills the
credential of the first call ends the second.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest
from broker.domain.contracts.contract import parse_contract
from broker.domain.errors import Refusal
from broker.domain.revocation.lease import LEASE_SECONDS
from broker.gate import credential
from broker.gate.broker_http import BrokerUnreachableError
from broker.gate.fastmcp import VersionGate, version_gate
from broker.gate.fastmcp_tools import contract_tool
from broker.gate.subject import trusted_issuer
from fastmcp import Client, FastMCP
from fastmcp.client.auth import BearerAuth
from fastmcp.exceptions import ToolError
from feed_proxy import proxied
from gate_parts import DATABASE, KEYS, PATIENCE_SECONDS, TASK, idp_trust, protected, running, until

from broker_parts import (
    ISSUER,
    RESOURCE,
    BrokerProcess,
    PolicyTree,
    contract,
    detail,
    pem_of,
    read_log,
    subject_token,
    unverified_claims,
)

BACK = "https://back.example/mcp"
FRONT_TOOL, BACK_TOOL = "db.front", "db.back"
FRONT, BEHIND = "key-mcp", "rsa-mcp"


def members(name: str) -> dict[str, Any]:
    """The contract of either tool; the framework titles what has no title."""
    made = contract(name, {"query": {"type": "string", "maxLength": 64}}, "query")
    return {**made, "title": name, "outputSchema": {"type": "object", "additionalProperties": True}}


@pytest.fixture(scope="module")
def pair_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that knows both servers: what the front's tool gets is for the back, what the back's gets is for the database."""
    folder = tmp_path_factory.mktemp("pair")
    tree = PolicyTree(folder / "policies")
    for name, audience, client in ((FRONT_TOOL, BACK, FRONT), (BACK_TOOL, DATABASE, BEHIND)):
        tree.add_tool(
            members(name),
            audience=audience,
            scopes={"db:read": {"needed_when": True}},
            tasks={"read": {"allow": {"clients": [client, "svc"]}, "scopes": ["db:read"]}},
        )
        file = tree.folder / f"{name}.yaml"
        policy = json.loads(file.read_text())
        policy["versions"]["1"]["arguments"] = {"/query": {"kind": "query", "enforced_by": ["db:read"]}}
        file.write_text(json.dumps(policy))
        tree.add_tests(name, "1", task="read", permit=["db:read"], arguments={"query": "q"})
    trust = json.loads((tree.folder / "trust.yaml").read_text())
    trust["clients"][BEHIND]["resource"] = BACK
    (tree.folder / "trust.yaml").write_text(json.dumps(trust))
    KEYS["idp"] = tree.folder / "keys" / "idp.json"
    process = BrokerProcess(folder, policies=tree)
    try:
        process.start()
        process.wire.serve(f"{FRONT_TOOL}@1", f"{BACK_TOOL}@1")
        yield process
        assert process.stop() == 0
        assert "Traceback" not in process.said(), process.said()
    finally:
        process.remove()


class Pair:
    """Both servers, and what happens between them."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.url = self.back_url = ""
        self.spent: list[dict[str, Any]] = []
        self.before_back = asyncio.Event()
        self.before_back.set()
        self.at_front = asyncio.Event()
        self.during_back = False
        self.refused: list[dict[str, Any]] = []
        self.verifier = protected(broker)
        transport = httpx2.ASGITransport(app=self.verifier)
        self.database = httpx2.AsyncClient(transport=transport, base_url="http://db.test")

    async def revoke(self, kind: str, **names: str) -> None:
        body = {"kind": kind, "names": names, "reason": "a test"}
        answer = await asyncio.to_thread(self.broker.wire.admin, "POST", "/revocations", body=body)
        assert answer.status_code == 200, answer.text

    def gate(self, client: str, resource: str, algorithm: str, *issuers: Any, **options: Any) -> VersionGate:
        return version_gate(
            issuer=self.broker.url,
            client_id=client,
            client_key=pem_of(client, algorithm),
            client_kid=client,
            resource=resource,
            issuers=issuers,
            **options,
        )

    def own(self) -> Any:
        """The broker, as an issuer whose tokens the back accepts."""
        return trusted_issuer(self.broker.url, jwks_url=f"{self.broker.url}/jwks.json")

    async def look(self, authorization: dict[str, str]) -> httpx2.Response:
        """Ask the database; after a revocation until it has heard of it."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                answer = await self.database.get("/read", headers=authorization)
                if answer.status_code != 200:
                    self.refused.append(answer.json())
                if answer.status_code != 200 or not self.during_back:
                    return answer
                await asyncio.sleep(0.005)

    def front(self) -> FastMCP[Any]:
        async def ask(query: str) -> dict[str, Any]:
            held = credential()
            self.at_front.set()
            await self.before_back.wait()
            async with Client(self.back_url, auth=BearerAuth(held.token)) as back:
                result = await back.call_tool(BACK_TOOL, {"query": query}, meta={TASK: "read"})
                return {"back": result.structured_content}

        return served(FRONT_TOOL, ask, self.gate(FRONT, RESOURCE, "ES256", idp_trust()))

    def back(self, **options: Any) -> FastMCP[Any]:
        async def look(query: str) -> dict[str, Any]:
            if self.during_back:
                await self.revoke("client", client=FRONT)  # of the parent, not of the child
            answer = await self.look(credential().authorization)
            assert answer.status_code == 200, answer.text
            self.spent.append(unverified_claims(credential().token))
            return {"account": answer.json()["account"]}

        return served(BACK_TOOL, look, self.gate(BEHIND, BACK, "RS256", self.own(), **options))

    async def call(self) -> Any:
        async with Client(self.url, auth=BearerAuth(subject_token())) as client:
            return (await client.call_tool(FRONT_TOOL, {"query": "q"}, meta={TASK: "read"})).structured_content

    def records(self, kind: str, tool: str) -> list[dict[str, Any]]:
        return [record for record in read_log(self.broker) if (record["type"], record.get("tool")) == (kind, tool)]


def served(name: str, tool: Any, gate: VersionGate) -> FastMCP[Any]:
    published = {**members(name), "description": f"The tool {name}, for tests. Version 1."}
    server: FastMCP[Any] = FastMCP(name, auth=gate.auth(), middleware=[gate], lifespan=gate.lifespan)
    server.add_tool(contract_tool(tool, parse_contract(published), version="1"))
    return server


@pytest.fixture
async def pair(pair_broker: BrokerProcess) -> AsyncIterator[Pair]:
    made = Pair(pair_broker)
    async with running(made.back().http_app(path="/mcp")) as back, running(made.front().http_app(path="/mcp")) as front:
        made.url, made.back_url = f"{front}/mcp", f"{back}/mcp"
        try:
            yield made
        finally:
            await made.database.aclose()
            await made.verifier.aclose()


async def test_a_gate_behind_a_gate_acts_for_the_same_account_with_a_child(pair: Pair) -> None:
    assert await pair.call() == {"back": {"account": "alice"}}
    (spent,) = pair.spent
    actors = {"iss": pair.broker.url, "sub": FRONT, "act": {"iss": ISSUER, "sub": "agent-7"}}
    assert (spent["client_id"], spent["aud"], spent["sub"], spent["act"]) == (BEHIND, DATABASE, "alice", actors)
    assert [member["tool"] for member in spent["ancestors"]] == [FRONT_TOOL]


async def test_the_records_of_both_calls_say_who_acted_and_share_their_txn(pair: Pair) -> None:
    await pair.call()
    await until(
        lambda: len(pair.records("tool.call.end", FRONT_TOOL)) == len(pair.records("mint", FRONT_TOOL)), "ended"
    )
    front, back = pair.records("tool.call.start", FRONT_TOOL)[-1], pair.records("tool.call.start", BACK_TOOL)[-1]
    ended = pair.records("tool.call.end", BACK_TOOL)[-1]
    actors = {"iss": pair.broker.url, "sub": FRONT, "act": {"iss": ISSUER, "sub": "agent-7"}}
    assert "act" not in front
    assert back["act"] == ended["act"] == actors
    assert (front["agent"], back["agent"], back["agent_issuer"]) == ("agent-7", FRONT, pair.broker.url)
    assert {(one["account"], one["account_issuer"]) for one in (front, back)} == {("alice", ISSUER)}
    minted = pair.records("mint", BACK_TOOL)[-1]
    assert (minted["parent"], minted["chain"]) == (front["jti"], front["jti"])
    assert {one["txn"] for one in (front, back, ended, minted)} == {front["txn"]}


async def test_a_call_whose_credential_was_revoked_gets_no_further(pair: Pair) -> None:
    pair.before_back.clear()
    call = asyncio.create_task(pair.call())
    await asyncio.wait_for(pair.at_front.wait(), 10)
    jti = pair.records("mint", FRONT_TOOL)[-1]["jti"]
    await pair.revoke("credential", jti=jti)
    pair.before_back.set()
    with pytest.raises(ToolError):
        await call
    assert pair.spent == []
    assert jti not in {record.get("parent") for record in pair.records("mint", BACK_TOOL)}


async def test_an_api_that_checks_locally_refuses_the_child_of_what_was_revoked(pair: Pair) -> None:
    await pair.call()
    pair.during_back = True
    with pytest.raises(ToolError):
        await pair.call()
    assert [answer["reason"] for answer in pair.refused] == ["credential_revoked"]


async def test_the_caller_s_own_token_is_not_believed_behind(pair: Pair) -> None:
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    headers = {"accept": "application/json, text/event-stream"}
    async with httpx2.AsyncClient(headers=headers) as plain:
        for audience in (RESOURCE, BACK):
            bearer = {"authorization": f"Bearer {subject_token(aud=audience)}"}
            answer = await plain.post(pair.back_url, json=listing, headers=bearer)
            assert answer.status_code == 401


async def test_a_dead_credential_is_refused_by_the_feed_before_anything_is_asked(pair_broker: BrokerProcess) -> None:
    asked = detail(tool=FRONT_TOOL, version="1", task="read", arguments={"query": "q"})
    minted = await asyncio.to_thread(pair_broker.wire.mint, client="svc", authorization_details=asked)
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    headers = {
        "accept": "application/json, text/event-stream",
        "authorization": f"Bearer {minted['access_token']}",
    }
    made = Pair(pair_broker)
    async with proxied(pair_broker.url) as proxy:
        server = made.back(broker_url=proxy.url).http_app(path="/mcp", stateless_http=True)
        async with running(server) as url, httpx2.AsyncClient(base_url=url, headers=headers) as caller:

            async def status() -> int:
                return (await caller.post("/mcp", json=listing)).status_code

            assert await status() == 200
            jti = unverified_claims(minted["access_token"])["jti"]
            body = {"kind": "chain", "names": {"jti": jti}, "reason": "a test"}
            answer = await asyncio.to_thread(pair_broker.wire.admin, "POST", "/revocations", body=body)
            assert answer.status_code == 200, answer.text
            found = 0
            async with asyncio.timeout(2):
                while found != 401:
                    found = await status()
            assert not proxy.requests["POST /token"]
            assert not proxy.requests["POST /introspect"]
    await made.database.aclose()
    await made.verifier.aclose()


async def test_a_credential_of_which_nothing_is_known_opens_nothing(pair_broker: BrokerProcess) -> None:
    asked = detail(tool=FRONT_TOOL, version="1", task="read", arguments={"query": "q"})
    minted = await asyncio.to_thread(pair_broker.wire.mint, client="svc", authorization_details=asked)
    made = Pair(pair_broker)
    async with proxied(pair_broker.url) as proxy:
        gate = made.gate(BEHIND, BACK, "RS256", made.own(), broker_url=proxy.url)
        subjects = gate._subjects
        async with gate.lifespan(FastMCP("back")):
            assert not isinstance(await subjects.verify(minted["access_token"]), Refusal)
            proxy.refuse = proxy.silent = True
            with pytest.raises(BrokerUnreachableError):
                async with asyncio.timeout(LEASE_SECONDS + 1):
                    while True:
                        await subjects.verify(minted["access_token"])
                        await asyncio.sleep(0.01)
    await made.database.aclose()
    await made.verifier.aclose()
