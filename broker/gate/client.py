"""Calling gated tools: declare the listed version, and recover once from a listing that went stale.

    result = await call_tool(client, "db.query", {"query": "…"}, task="report")

For the fastmcp and the official client alike:

1. The tools are listed once and remembered. A call declares the version that was listed, and its task.
2. `schema_version_retired` or `strict_validation_failed` (each says "relist"): the tools are listed anew, past every cache,
   and the call is made once more with the new version. A second refusal is the caller's.
3. The new schema may be another one: `rebuild(tool)` makes the arguments for it. Without `rebuild` the old arguments are
   sent again only if they fit it.
4. Nothing else is tried again. Least of all -32602: a client raises it by itself, after the tool has run, where a result
   does not fit the listed output schema.
"""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias, cast

import mcp_types
from mcp import MCPError

from broker.domain.canonical import JsonObject
from broker.domain.contracts.contract import META_TASK, META_VERSION, ContractError, parse_contract, published_form
from broker.domain.dispatch import Code
from broker.engines.arguments import ArgumentValidator

RELIST: Final = frozenset({int(Code.SCHEMA_VERSION_RETIRED), int(Code.STRICT_VALIDATION_FAILED)})
_MAX_PAGES: Final = 250

Rebuild: TypeAlias = Callable[[mcp_types.Tool], "Mapping[str, Any] | Awaitable[Mapping[str, Any]]"]

_remembered: dict[int, dict[str, mcp_types.Tool]] = {}


class ToolNotListedError(LookupError):
    """The server does not list the tool to this caller, also not when asked anew."""


async def call_tool(
    client: Any,
    name: str,
    arguments: Mapping[str, Any],
    *,
    task: str | None = None,
    rebuild: Rebuild | None = None,
) -> Any:
    """Call a gated tool; returns what the client's own `call_tool` returns. `client` is connected."""
    tool = await listed_tool(client, name)
    try:
        return await client.call_tool(name, dict(arguments), meta=_meta(tool, task))
    except MCPError as error:
        if error.code not in RELIST:
            raise
        tool = await listed_tool(client, name, fresh=True)
        again = await _arguments_for(tool, arguments, rebuild, error)
    return await client.call_tool(name, again, meta=_meta(tool, task))


async def listed_tool(client: Any, name: str, *, fresh: bool = False) -> mcp_types.Tool:
    """The tool as listed to this client; fresh: listed now, not remembered. Raises `ToolNotListedError`."""
    tools = _remembered.get(id(client))
    if fresh or tools is None or name not in tools:
        if id(client) not in _remembered:
            weakref.finalize(client, _remembered.pop, id(client), None)
        tools = _remembered[id(client)] = await _list(client)
    if name not in tools:
        raise ToolNotListedError(f"{name} is not among the tools that this server lists for this caller")
    return tools[name]


async def _list(client: Any) -> dict[str, mcp_types.Tool]:
    listed = await client.list_tools(cache_mode="refresh")
    if isinstance(listed, list):
        return {tool.name: tool for tool in cast("list[mcp_types.Tool]", listed)}
    tools = {tool.name: tool for tool in listed.tools}
    for _ in range(_MAX_PAGES):
        if listed.next_cursor is None:
            break
        listed = await client.list_tools(cursor=listed.next_cursor)
        tools.update((tool.name, tool) for tool in listed.tools)
    return tools


def _meta(tool: mcp_types.Tool, task: str | None) -> dict[str, Any]:
    version = (tool.meta or {}).get(META_VERSION)
    meta = {} if version is None else {META_VERSION: version}
    return meta if task is None else {**meta, META_TASK: task}


async def _arguments_for(
    tool: mcp_types.Tool, arguments: Mapping[str, Any], rebuild: Rebuild | None, error: MCPError
) -> dict[str, Any]:
    """The arguments of the second try (rule 3); without any, the first refusal stands, and says why."""
    if rebuild is not None:
        made = rebuild(tool)
        return dict(await made if isinstance(made, Awaitable) else made)
    try:
        listed = published_form(tool.model_dump(mode="json", by_alias=True, exclude_none=True))
        problem = ArgumentValidator(parse_contract(listed)).problem(cast("JsonObject", dict(arguments)))
    except ContractError as unusable:
        problem = str(unusable)
    if problem is None:
        return dict(arguments)
    version = (tool.meta or {}).get(META_VERSION)
    error.add_note(f"Not tried again: the arguments do not fit version {version}: {problem}. Give call_tool a rebuild.")
    raise error
