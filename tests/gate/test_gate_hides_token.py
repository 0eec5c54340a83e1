"""The caller's own token reaches no tool and nothing behind it (DESIGN §3), by whatever way the framework has for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx2
from broker.domain.contracts.contract import parse_contract
from broker.gate.fastmcp_tools import contract_tool
from fastmcp import FastMCP
from fastmcp.server import create_proxy
from fastmcp.server.dependencies import get_access_token, get_context, get_http_headers, get_http_request
from gate_parts import TASK, Site, gate_for, make_site, members, running, serving

from broker_parts import BrokerProcess, subject_token

ARGUMENTS = {"query": "q", "timeout_ms": 5, "mode": "read"}


async def called(site: Site, function: Any, token: str, name: str | None = None) -> Any:
    """Call a tool of the site that runs this function."""
    name = name or site.tool
    site.server.add_tool(contract_tool(function, parse_contract(members(name, "3")), version="3"))
    async with site.client(token) as client:
        return (await client.call_tool(name, ARGUMENTS, meta={TASK: "report"})).data


async def test_a_tool_finds_the_caller_but_not_the_callers_token(site: Site) -> None:
    token = subject_token(groups=["dba"])
    found: dict[str, Any] = {}

    async def look(query: str, timeout_ms: int = 1, mode: str | None = None) -> dict[str, Any]:
        access, context = get_access_token(), get_context().request_context
        assert access is not None
        assert context is not None
        assert context.request is not None
        found["who"] = (access.subject, access.claims["groups"])
        found["places"] = [
            access.token,
            repr(access.__dict__),
            get_http_headers(include_all=True),
            get_http_request().headers.raw,
            get_http_request().scope["user"].access_token.__dict__,
            context.request.scope["headers"],
            context._srctx.request.headers.raw if context._srctx.request is not None else None,
        ]
        found["host"] = get_http_request().headers["host"]
        return {}

    assert await called(site, look, token) == {}
    assert found["who"] == ("alice", ["dba"])
    assert found["host"]
    assert token not in repr(found["places"])
    assert token.rpartition(".")[2] not in repr(found["places"])


async def test_a_server_that_a_tool_passes_its_request_on_to_gets_no_token(site: Site) -> None:
    """What the framework's proxies do with every call."""
    seen: list[str | None] = []
    behind: FastMCP[Any] = FastMCP("behind")

    @behind.tool
    async def echo() -> str:
        seen.append(get_http_headers(include_all=True).get("authorization"))
        return "done"

    async with running(behind.http_app(path="/mcp")) as url:

        async def relay(query: str, timeout_ms: int = 1, mode: str | None = None) -> dict[str, Any]:
            await create_proxy(f"{url}/mcp").call_tool("echo", {})
            return {}

        assert await called(site, relay, subject_token(groups=["dba"])) == {}
    assert seen == [None]


async def test_a_tool_that_needs_no_credential_does_not_get_the_token_either(
    gate_broker: BrokerProcess, tool: str
) -> None:
    gate_broker.wire.serve(f"{tool}@3")
    site = make_site(gate_broker, tool, gate=gate_for(gate_broker.url, ungated=["plain"]))
    token, seen = subject_token(groups=["dba"]), []

    @site.server.tool
    async def plain() -> str:
        access = get_access_token()
        assert access is not None
        seen.append((access.subject, access.token, get_http_headers(include_all=True).get("authorization")))
        return "done"

    async with serving(site) as made, made.client(token) as client:
        assert (await client.call_tool("plain", {})).data == "done"
    assert seen == [("alice", "", None)]


async def test_a_call_that_a_tool_makes_is_the_callers_own(
    gate_broker: BrokerProcess, site: Site, pool: Iterator[str]
) -> None:
    async def outer(query: str, timeout_ms: int = 1, mode: str | None = None) -> dict[str, Any]:
        inner = await get_context().fastmcp.call_tool(inner_name, ARGUMENTS)
        return {"inner": inner.structured_content}

    inner_name, outer_name = site.tool, next(pool)
    gate_broker.wire.serve(f"{outer_name}@3")
    said = await called(site, outer, subject_token(groups=["dba"], sub="carol"), outer_name)
    assert said["inner"]["database"]["account"] == "carol"


async def test_calls_that_run_at_the_same_time_have_each_their_own_credential(site: Site) -> None:
    async def one(number: int) -> tuple[str, str]:
        token = subject_token(groups=["dba"], sub=f"user-{number}")
        async with site.client(token) as client:
            said = (await client.call_tool(site.tool, ARGUMENTS, meta={TASK: "report"})).data
        return said["database"]["account"], said["database"]["jti"]

    found = await asyncio.gather(*(one(number) for number in range(32)))
    assert [account for account, _ in found] == [f"user-{number}" for number in range(32)]
    assert len({jti for _, jti in found}) == 32


async def test_a_session_of_one_caller_gives_another_neither_name_nor_credential(site: Site) -> None:
    """A session id is not a secret that anybody may be known by: the token of each request says who calls."""
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    call = {"name": site.tool, "arguments": ARGUMENTS, "_meta": {TASK: "report"}}

    async def ask(method: str, params: dict[str, Any], sub: str, **headers: str) -> httpx2.Response:
        token = subject_token(groups=["dba"], sub=sub)
        headers = {"authorization": f"Bearer {token}", "accept": "application/json, text/event-stream", **headers}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        async with httpx2.AsyncClient(timeout=10) as client:
            return await client.post(site.url, json=body, headers=headers)

    session = (await ask("initialize", hello, "victim")).headers["mcp-session-id"]
    answer = await ask("tools/call", call, "thief", **{"mcp-session-id": session})
    assert "victim" not in answer.text
    assert await site.recorded("mint", 0, account="victim") == []
