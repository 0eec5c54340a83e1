"""The people of the story, each with a real MCP client; every request they make is told, and so is its answer."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import mcp
from broker.domain.contracts.contract import META_TASK, META_VERSION
from broker.gate.client import Rebuild, call_tool
from fastmcp import Client
from fastmcp.exceptions import ToolError
from mcp import MCPError
from mcp.client.streamable_http import streamable_http_client

from .stage import Stage
from .telling import Teller, shorten


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call came to. kind: `result`, `tool error` or `error`; code and data of a JSON-RPC error."""

    kind: str
    text: str
    milliseconds: float
    code: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    value: Mapping[str, Any] = field(default_factory=dict)


class Caller:
    """One person's client. It has the interface that `broker.gate.client` works with, and passes everything on.

    seen: the requests made, as `list`, `ok`, `tool error` or a JSON-RPC error code.
    """

    def __init__(self, name: str, token: str, client: Any, teller: Teller) -> None:
        self.name = name
        self.token = token
        self.seen: list[str] = []
        self.quiet = False
        self._client = client
        self._teller = teller

    async def list_tools(self, **options: Any) -> Any:
        began = time.perf_counter()
        listed = await self._client.list_tools(**options)
        tools = listed if isinstance(listed, list) else listed.tools
        shown = ", ".join(f"{tool.name} {(tool.meta or {}).get(META_VERSION)}" for tool in tools)
        self._tell("tools/list", f"lists {shown}", began)
        self.seen.append("list")
        return listed

    async def call_tool(self, name: str, arguments: dict[str, Any], *, meta: dict[str, Any] | None = None) -> Any:
        given = meta or {}
        declared = f"version {given[META_VERSION]}" if META_VERSION in given else "no version declared"
        task = f", task {given[META_TASK]}" if META_TASK in given else ""
        what = f"tools/call {name}  {declared}{task}  {shorten(arguments)}"
        began = time.perf_counter()
        try:
            result = await self._client.call_tool(name, arguments, meta=given)
        except MCPError as error:
            self.seen.append(str(error.code))
            self._tell(what, f"error {error.code}  {error.message}", began)
            raise
        except ToolError as error:
            self.seen.append("tool error")
            self._tell(what, f"tool error: {error}", began)
            raise
        self.seen.append("tool error" if result.is_error else "ok")
        kind = "tool error: " if result.is_error else ""
        self._tell(what, kind + shorten(result.structured_content or _text_of(result), 90), began)
        return result

    def _tell(self, what: str, came: str, began: float) -> None:
        if self.quiet:
            return
        took = (time.perf_counter() - began) * 1000
        self._teller.sent(f"{self.name}: {what}")
        self._teller.got(came, took)

    async def ask(
        self, tool: str, arguments: Mapping[str, Any], *, version: str | None = None, task: str | None = None
    ) -> Answer:
        """One call exactly as given, whatever becomes of it."""
        meta = {META_VERSION: version, META_TASK: task}
        began = time.perf_counter()
        try:
            given = {key: value for key, value in meta.items() if value is not None}
            result = await self.call_tool(tool, dict(arguments), meta=given)
        except MCPError as error:
            return Answer("error", error.message, _since(began), code=error.code, data=error.data or {})
        except ToolError as error:
            return Answer("tool error", str(error), _since(began))
        return _answer(result, began)

    async def use(
        self, tool: str, arguments: Mapping[str, Any], *, task: str | None = None, rebuild: Rebuild | None = None
    ) -> Answer:
        """One call by way of the gate's client helper: it declares what was listed, and recovers once."""
        began = time.perf_counter()
        return _answer(await call_tool(self, tool, arguments, task=task, rebuild=rebuild), began)

    async def listed_version(self, tool: str) -> str | None:
        """The version that is listed to this person now."""
        listed = await self._client.list_tools(cache_mode="refresh")
        tools = listed if isinstance(listed, list) else listed.tools
        return next(((found.meta or {}).get(META_VERSION) for found in tools if found.name == tool), None)


@asynccontextmanager
async def fastmcp_caller(name: str, stage: Stage, teller: Teller) -> AsyncIterator[Caller]:
    """Somebody with the fastmcp client."""
    token = await log_in(name, stage)
    async with Client(stage.mcp, auth=token) as client:
        yield Caller(name, token, client, teller)


@asynccontextmanager
async def official_caller(name: str, stage: Stage, teller: Teller) -> AsyncIterator[Caller]:
    """Somebody with the official client."""
    token = await log_in(name, stage)
    async with httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, trust_env=False) as http:
        async with mcp.Client(streamable_http_client(stage.mcp, http_client=http)) as client:
            yield Caller(name, token, client, teller)


async def log_in(name: str, stage: Stage) -> str:
    """A subject token for the MCP server."""
    async with httpx2.AsyncClient(trust_env=False) as http:
        answer = await http.post(f"{stage.idp}/token", data={"username": name, "resource": stage.mcp})
    answer.raise_for_status()
    return str(answer.json()["access_token"])


def _answer(result: Any, began: float) -> Answer:
    kind = "tool error" if result.is_error else "result"
    return Answer(kind, _text_of(result), _since(began), value=result.structured_content or {})


def _text_of(result: Any) -> str:
    return " ".join(block.text for block in result.content if hasattr(block, "text"))


def _since(began: float) -> float:
    return (time.perf_counter() - began) * 1000
