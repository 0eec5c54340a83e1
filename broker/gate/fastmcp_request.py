"""Reading a fastmcp call as it came, and running exactly the version that was decided on.

1. The framework parses a request's JSON and keeps the last of two members of one name. So the text is read once more,
   strictly; where it came over HTTP and cannot be had, the call is refused.
2. A call from a client declares its version in the request's `_meta`. One that a tool makes while it runs has no `_meta` of
   its own: the outer call's is about another tool, so the version that the tool asked the framework for is its declaration.
3. The framework lets the version that a client names in `_meta.fastmcp` choose the tool, or takes the highest. Both were
   decided before the gate, so the inner part of the chain is built anew, around the version that the gate decided on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mcp_types
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.dependencies import FastMCPRequestContext
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.server.middleware.middleware import make_middleware_wrapper
from fastmcp.tools.base import ToolResult
from fastmcp.utilities.versions import VersionSpec

from broker.domain.canonical import JsonError, parse_json_object
from broker.domain.contracts.contract import META_VERSION
from broker.domain.dispatch import Declaration, Refuse, read_declaration


def second_reading(request: FastMCPRequestContext | None) -> str | None:
    """Why a request's text has not one reading; None where it has, or where there is none (stdio, rule 1)."""
    if request is None or request.request is None:
        return None
    text = getattr(request.request, "_body", None)
    if not isinstance(text, bytes):
        return "its text cannot be read a second time"
    try:
        parse_json_object(text)
    except JsonError as error:
        return str(error)
    return None


def declared_in(
    tool: str, *, message: mcp_types.CallToolRequestParams, request: FastMCPRequestContext | None, nested: bool
) -> Declaration | Refuse:
    """The version that a call declares (rule 2)."""
    asked = _framework_version(message.meta)
    if nested or request is None:
        return read_declaration(tool, None if asked is None else {META_VERSION: asked})
    named = _framework_version(request.meta)
    return read_declaration(tool, request.meta, framework=asked if named is None else named)


def _framework_version(meta: Mapping[str, Any] | None) -> object:
    inner = meta.get("fastmcp") if isinstance(meta, Mapping) else None
    return inner.get("version") if isinstance(inner, Mapping) else None


def routed_chain(
    server: FastMCP[Any], gate: Middleware, *, name: str, arguments: Mapping[str, Any], version: str
) -> CallNext[mcp_types.CallToolRequestParams, ToolResult]:
    """What follows the gate, ending in exactly this version (rule 3). What stands inside may look, not change the call."""

    async def run(context: MiddlewareContext[mcp_types.CallToolRequestParams]) -> ToolResult:
        message = context.message
        if message.name != name or (message.arguments or {}) != arguments:
            raise ToolError(f"A middleware behind the gate changed the call of {name}; it was not run.")
        return await server.call_tool(name, dict(arguments), version=VersionSpec(eq=version), run_middleware=False)

    # Extensions intercept a call at its innermost point; there is no public way to have them do so here.
    chain: CallNext[Any, Any] = server._compose_tool_call_interceptors(run)
    position = next((index for index, known in enumerate(server.middleware) if known is gate), None)
    if position is None:
        raise ToolError(f"The gate is not among the middlewares of the server that serves {name}; it was not run.")
    for inner in reversed(server.middleware[position + 1 :]):
        chain = make_middleware_wrapper(inner, chain)
    return chain
