"""A fastmcp server behind the gate, over real HTTP, with a protected API behind it and a real broker beside it.

`GatedTools` writes a tool with versions 3 and 4 into the broker's policy for each test that asks for one: a broker has one
life of versions, and tests must not share it. Version 3 has `query`, `timeout_ms` (default 30000) and `mode` read or write;
version 4 has `timeout`, no default, and only reads.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import uvicorn
from broker.domain.contracts.contract import parse_contract
from broker.domain.policy.document import ClaimNames
from broker.gate import credential
from broker.gate.downstream import CredentialVerifier
from broker.gate.fastmcp import VersionGate, version_gate
from broker.gate.fastmcp_tools import contract_tool
from broker.gate.subject import trusted_issuer
from fastmcp import Client, FastMCP
from fastmcp.client.auth import BearerAuth

sys.path.insert(0, str(Path(__file__).parent.parent))  # pytest does so for the tests, not for a plain run

from broker_parts import (
    ISSUER,
    RESOURCE,
    SECRETS,
    BrokerProcess,
    PolicyTree,
    free_port,
    pem_of,
    read_log,
    subject_token,
)

VERSION = "io.github.mayfly-broker/version"
TASK = "io.github.mayfly-broker/task"
DATABASE = "https://db.internal"
POOL = tuple(f"db.t{number:03}" for number in range(128))
EXCHANGER = "key-mcp"
PATIENCE_SECONDS = 10.0


def members(name: str, version: str) -> dict[str, Any]:
    """The contract of one of the pool's tools."""
    properties: dict[str, Any] = {"query": {"type": "string", "minLength": 1}}
    if version == "3":
        properties["timeout_ms"] = {"type": "integer", "minimum": 1, "default": 30_000}
        properties["mode"] = {"enum": ["read", "write"]}
    else:
        properties["timeout"] = {"type": "integer", "minimum": 1}
        properties["mode"] = {"enum": ["read"]}
    return {
        "name": name,
        "title": f"Query {name}",
        "description": f"Runs a query, as version {version} does.",
        "inputSchema": {"type": "object", "properties": properties, "required": ["query"]},
        "outputSchema": {"type": "object", "additionalProperties": True},
        "annotations": {"readOnlyHint": version == "4"},
    }


def write_pool(tree: PolicyTree) -> None:
    """Both versions of every tool of the pool, as one policy file each (JSON is YAML)."""
    for name in POOL:
        folder = tree.folder / "contracts" / name
        folder.mkdir()
        for version in ("3", "4"):
            (folder / f"{version}.json").write_text(json.dumps(members(name, version)))
        writes = {"properties": {"mode": {"const": "write"}}, "required": ["mode"]}
        report = {"allow": {"claims": {"groups": ["analysts", "dba"]}}, "scopes": ["db:read"], "ttl": "60s"}
        migrate = {"allow": {"claims": {"groups": ["dba"]}}, "scopes": ["db:read", "db:write"], "ttl": "60s"}
        once = {"allow": {"claims": {"groups": ["counted"]}}, "scopes": ["db:read"], "ttl": "60s", "uses": 1}
        watched = {**report, "allow": {"claims": {"groups": ["watched"]}}, "online": True}
        three = {
            "contract": f"contracts/{name}/3.json",
            "digest": parse_contract(members(name, "3")).digest,
            "arguments": {"/query": {"kind": "query", "enforced_by": ["db:read", "db:write"]}},
            "scopes": {"db:read": {"needed_when": True}, "db:write": {"needed_when": writes}},
            "tasks": {"report": report, "migrate": migrate, "once": once, "watched": watched},
        }
        four = {
            "extends": "3",
            "replaces": "3",
            "contract": f"contracts/{name}/4.json",
            "digest": parse_contract(members(name, "4")).digest,
            "arguments": {"/query": {"kind": "query", "enforced_by": ["db:read"]}},
            "scopes": {"db:write": None},
            "tasks": {"migrate": None},
        }
        file = {"tool": name, "audience": DATABASE, "owners": ["tests"], "versions": {"3": three, "4": four}}
        (tree.folder / f"{name}.yaml").write_text(json.dumps(file))
        asked = {"claims": {"groups": ["analysts"]}, "arguments": {"query": "select 1"}}
        tree.add_tests(name, "3", "4", task="report", permit=["db:read"], **asked)


def database_app() -> Callable[..., Any]:
    """The protected API's own code: says what credential it was reached with."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        found = scope["state"]["credential"]
        said = {"tool": found.tool, "version": found.version, "task": found.task, "account": found.account}
        said |= {"scopes": sorted(found.scopes), "jti": found.jti, "txn": found.txn, "agent": found.agent}
        body = json.dumps(said).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": body})

    return app


def protected(broker: BrokerProcess, app: Any = None, **options: Any) -> CredentialVerifier:
    """The API behind the verifier, in the one line that its author writes."""
    settings: dict[str, Any] = {
        "issuer": broker.url,
        "audience": DATABASE,
        "client_id": "db-api",
        "client_secret": SECRETS["db-api"][1],
        "scope_for": lambda scope: "db:write" if scope["path"] == "/write" else "db:read",
    }
    return CredentialVerifier(app or database_app(), **{**settings, **options})


def gate_for(url: str, **options: Any) -> VersionGate:
    return version_gate(
        issuer=url,
        client_id=EXCHANGER,
        client_key=pem_of(EXCHANGER),
        client_kid=EXCHANGER,
        resource=RESOURCE,
        issuers=options.pop("issuers", None) or [idp_trust()],
        application="tests 1",
        **options,
    )


def idp_trust() -> Any:
    return trusted_issuer(ISSUER, jwks_file=str(KEYS["idp"]), algorithms=("ES256",), claims=ClaimNames(agent="azp"))


KEYS: dict[str, Path] = {}


async def until(condition: Callable[[], object], what: str) -> None:
    """Wait for a condition, with a deadline."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():  # what is waited for happens in another process
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"not within {PATIENCE_SECONDS} s: {what}") from None


@dataclass
class Site:
    """One MCP server with its gate, and what its tools did."""

    broker: BrokerProcess
    tool: str
    gate: VersionGate
    server: FastMCP[Any]
    verifier: CredentialVerifier
    database: httpx2.AsyncClient
    url: str = ""
    ran: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    blocked: asyncio.Event = field(default_factory=asyncio.Event)

    def client(self, token: str | None = None, **options: Any) -> Client[Any]:
        return Client(self.url, auth=BearerAuth(token or subject_token(groups=["dba"])), **options)

    async def call(
        self, arguments: dict[str, Any], *, meta: dict[str, Any] | None = None, token: str | None = None
    ) -> Any:
        """One call by the fastmcp client, with `task: report` unless the meta says otherwise."""
        async with self.client(token) as client:
            return await client.call_tool(self.tool, arguments, meta={TASK: "report", **(meta or {})})

    def records(self, kind: str, **like: Any) -> list[dict[str, Any]]:
        """The audit records of this tool so far."""
        found = [
            record for record in read_log(self.broker) if record["type"] == kind and record.get("tool") == self.tool
        ]
        return [record for record in found if all(record.get(name) == value for name, value in like.items())]

    def promote_4(self) -> None:
        """Version 4 becomes the stable one, 3 deprecated."""
        for command in ("publish", "canary", "promote"):
            self.broker.wire.command(f"{self.tool}@4", command)

    async def recorded(self, kind: str, count: int = 1, **like: Any) -> list[dict[str, Any]]:
        """The records, once there are as many."""
        await until(lambda: len(self.records(kind, **like)) >= count, f"{count} {kind} on record")
        return self.records(kind, **like)


def make_site(broker: BrokerProcess, tool: str, *, gate: VersionGate | None = None, **options: Any) -> Site:
    """A server that serves both versions; its tools spend their credential at the database."""
    made_gate = gate or gate_for(broker.url)
    server: FastMCP[Any] = FastMCP(
        "reports", auth=made_gate.auth(), middleware=[made_gate], lifespan=made_gate.lifespan, **options
    )
    verifier = protected(broker)
    database = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=verifier), base_url="http://db.test")
    site = Site(broker=broker, tool=tool, gate=made_gate, server=server, verifier=verifier, database=database)

    async def spend(version: str, path: str, arguments: dict[str, Any]) -> dict[str, Any]:
        site.ran.append((version, arguments))
        if arguments["query"] == "fail":
            raise RuntimeError("the database is on fire")
        if arguments["query"] == "block":
            await site.blocked.wait()
        answer = await database.get(path, headers=credential().authorization)
        return {"served": version, "status": answer.status_code, "database": answer.json()}

    async def three(query: str, timeout_ms: int = 30_000, mode: str | None = None) -> dict[str, Any]:
        path = "/write" if mode == "write" else "/read"
        return await spend("3", path, {"query": query, "timeout_ms": timeout_ms, "mode": mode})

    async def four(query: str, timeout: int = 30, mode: str | None = None) -> dict[str, Any]:
        return await spend("4", "/read", {"query": query, "timeout": timeout, "mode": mode})

    server.add_tool(contract_tool(three, parse_contract(members(tool, "3")), version="3"))
    server.add_tool(contract_tool(four, parse_contract(members(tool, "4")), version="4"))
    return site


@asynccontextmanager
async def running(app: Any, *, lifespan: str = "on") -> AsyncIterator[str]:
    """An ASGI app on a port of its own; its URL."""
    port = free_port()
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning", lifespan=lifespan, ws="none")  # type: ignore[arg-type]
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    task = asyncio.create_task(server.serve())
    try:
        await until(lambda: server.started or task.done(), "the server has started")
        assert not task.done(), task
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await task


@asynccontextmanager
async def serving(site: Site, **options: Any) -> AsyncIterator[Site]:
    """The site over real HTTP."""
    async with running(site.server.http_app(path="/mcp", **options)) as url:
        site.url = f"{url}/mcp"
        try:
            yield site
        finally:
            await site.database.aclose()
            await site.verifier.aclose()
