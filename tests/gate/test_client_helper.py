"""The client helper: declare, list anew past every cache, try once more, never twice (both client libraries)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from broker.gate.client import ToolNotListedError, call_tool, listed_tool
from gate_parts import VERSION, Site, make_site, serving
from mcp import Client as OfficialClient
from mcp import MCPError
from mcp.client.streamable_http import streamable_http_client

from broker_parts import subject_token


@asynccontextmanager
async def connected(site: Site, library: str) -> AsyncIterator[Any]:
    """A connected client of one library; the official one caches listings by default."""
    token = subject_token(groups=["dba"])
    if library == "fastmcp":
        async with site.client(token) as client:
            yield client
        return
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as http:
        mode: Any = "legacy" if library.endswith("legacy") else "auto"
        async with OfficialClient(streamable_http_client(site.url, http_client=http), mode=mode) as client:
            yield client


@pytest.fixture(params=["fastmcp", "official", "official legacy"])
async def client(site: Site, request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    """A client that lives in one task, as its cancel scopes want; a fixture's ends may be run by two."""
    ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    done = asyncio.Event()

    async def live() -> None:
        async with connected(site, request.param) as made:
            ready.set_result(made)
            await done.wait()

    task = asyncio.create_task(live())
    await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()
    yield ready.result()
    done.set()
    await task


class Sent:
    """What a client sends, noted on the way."""

    def __init__(self, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[dict[str, Any]] = []
        self.lists = 0
        call, list_tools = client.call_tool, client.list_tools

        async def noting_call(name: str, arguments: Any, **more: Any) -> Any:
            self.calls.append({"arguments": arguments, **more["meta"]})
            return await call(name, arguments, **more)

        async def noting_list(**more: Any) -> Any:
            self.lists += 1
            return await list_tools(**more)

        monkeypatch.setattr(client, "call_tool", noting_call)
        monkeypatch.setattr(client, "list_tools", noting_list)

    @property
    def versions(self) -> list[Any]:
        return [call.get(VERSION) for call in self.calls]


@pytest.fixture
def sent(client: Any, monkeypatch: pytest.MonkeyPatch) -> Sent:
    return Sent(client, monkeypatch)


def retire_3(site: Site) -> None:
    site.promote_4()
    site.broker.wire.command(f"{site.tool}@3", "retire", emergency="leak")


async def test_a_call_declares_what_was_listed_and_lists_once(site: Site, client: Any, sent: Sent) -> None:
    for _ in range(3):
        result = await call_tool(client, site.tool, {"query": "q"}, task="report")
        assert result.structured_content["database"]["task"] == "report"
    assert sent.versions == ["3", "3", "3"]
    assert sent.lists == 1


async def test_a_client_on_a_retired_version_lists_anew_tries_once_more_and_succeeds(
    site: Site, client: Any, sent: Sent
) -> None:
    await call_tool(client, site.tool, {"query": "q"}, task="report")
    retire_3(site)
    result = await call_tool(client, site.tool, {"query": "q"}, task="report")
    assert result.structured_content["served"] == "4"
    assert sent.versions == ["3", "3", "4"]
    await call_tool(client, site.tool, {"query": "q"}, task="report")
    assert sent.versions[-1] == "4"
    assert sent.lists == 2


async def test_arguments_are_rebuilt_for_the_new_schema(site: Site, client: Any, sent: Sent) -> None:
    await listed_tool(client, site.tool)
    retire_3(site)

    def rebuild(tool: Any) -> dict[str, Any]:
        assert "timeout" in tool.input_schema["properties"]
        return {"query": "q", "timeout": 5}

    result = await call_tool(client, site.tool, {"query": "q", "timeout_ms": 5000}, task="report", rebuild=rebuild)
    assert result.structured_content["served"] == "4"
    assert sent.calls[-1]["arguments"] == {"query": "q", "timeout": 5}


async def test_arguments_that_do_not_fit_the_new_schema_are_not_sent_again(site: Site, client: Any, sent: Sent) -> None:
    await listed_tool(client, site.tool)
    retire_3(site)
    with pytest.raises(MCPError) as caught:
        await call_tool(client, site.tool, {"query": "q", "timeout_ms": 5000}, task="report")
    assert caught.value.code == -31001
    assert "timeout_ms" in caught.value.__notes__[0]
    assert sent.versions == ["3"]


async def test_a_second_refusal_is_the_callers(site: Site, client: Any, sent: Sent) -> None:
    await listed_tool(client, site.tool)
    retire_3(site)

    def rebuild(_: Any) -> dict[str, Any]:
        site.broker.wire.command(f"{site.tool}@4", "rollback", force=True)
        return {"query": "q"}

    with pytest.raises(MCPError) as caught:
        await call_tool(client, site.tool, {"query": "q"}, task="report", rebuild=rebuild)
    assert caught.value.code == -31001
    assert sent.versions == ["3", "4"]


async def test_other_refusals_are_not_tried_again(site: Site, client: Any, sent: Sent) -> None:
    with pytest.raises(MCPError) as caught:
        await call_tool(client, site.tool, {"query": "q"}, task="unheard-of")
    assert caught.value.code == -31005
    assert len(sent.calls) == 1
    assert site.ran == []


async def test_a_tool_that_is_gone_is_said_to_be(site: Site, client: Any) -> None:
    await listed_tool(client, site.tool)
    site.broker.wire.command(f"{site.tool}@3", "rollback", force=True)
    with pytest.raises(ToolNotListedError):
        await call_tool(client, site.tool, {"query": "q"}, task="report")


async def test_a_tool_that_no_broker_knows_is_called_as_ever(site: Site) -> None:
    from gate_parts import gate_for

    made = make_site(site.broker, site.tool, gate=gate_for(site.broker.url, ungated={"ping"}))
    made.server.tool(name="ping")(lambda: "pong")
    async with serving(made) as other, other.client() as client:
        result = await call_tool(client, "ping", {})
    assert result.content[0].text == "pong"
