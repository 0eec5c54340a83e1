"""What a fastmcp server serves, as its clients see it: the other side of the contract pin.

1. The form that counts is that of `tools/list`: it passes through all transforms and middlewares, which inline `$ref`s and
   the like. It is taken in the protocol's current form, whatever the era of the client that happens to ask.
2. A version is served if a tool has it in this very spelling (the framework takes `1`, `1.0` and `v1` for the same). A
   tool without a version may be any: there the digest alone decides.
3. What was computed is kept for as long as the server holds an equal tool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from fastmcp import FastMCP
from fastmcp.tools.base import Tool
from fastmcp.utilities.versions import VersionSpec

from broker.domain.canonical import JsonError
from broker.domain.contracts.contract import MEMBERS, published_form
from broker.domain.digests import digest_of
from broker.domain.ids import Digest

plain_listing: ContextVar[bool] = ContextVar("broker_gate_plain_listing", default=False)
"""Set while the gate itself lists the tools: its own middleware then changes nothing."""


class ServedContracts:
    """The digests of a server's tools, computed when first asked for."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str | None], tuple[Tool, Digest | None]] = {}

    async def digest(self, server: FastMCP[Any], name: str, version: str) -> Digest | None:
        """The digest of what `name` in `version` is served as; None where it is not served."""
        tool = await find(server, name, version)
        if tool is None:
            return None
        known = self._known.get((name, tool.version))
        if known is not None and (known[0] is tool or known[0] == tool):
            return known[1]
        digest = await _listed_digest(server, tool)
        self._known[name, tool.version] = (tool, digest)
        return digest


async def find(server: FastMCP[Any], name: str, version: str) -> Tool | None:
    """The tool that would run for this version, if it is this version (rule 2)."""
    tool = await server.get_tool(name, VersionSpec(eq=version))
    return tool if tool is not None and tool.version in (version, None) else None


async def list_plainly(server: FastMCP[Any]) -> Sequence[Tool]:
    """All tools in the form of `tools/list`, before the gate's own changes."""
    token = plain_listing.set(True)
    try:
        return await server.list_tools()
    finally:
        plain_listing.reset(token)


def wire_form(tool: Tool) -> Mapping[str, Any]:
    """A tool as `tools/list` gives it in the current protocol."""
    return tool.to_mcp_tool(name=tool.name).model_dump(mode="json", by_alias=True, exclude_none=True)


def digest_as_listed(tool: Tool) -> Digest | None:
    """The contract digest of a listed tool; None where it has no canonical spelling, so that it equals nothing."""
    try:
        return digest_of(published_form(wire_form(tool)))
    except JsonError:
        return None


def differing_members(tool: Tool, published: Mapping[str, Any]) -> tuple[str, ...]:
    """Which members of the contract a listed tool and the published one disagree about, for the log."""
    served = published_form(wire_form(tool))
    return tuple(member for member in MEMBERS if served.get(member) != published.get(member))


async def _listed_digest(server: FastMCP[Any], tool: Tool) -> Digest | None:
    for listed in await list_plainly(server):
        if listed.name == tool.name and listed.version == tool.version:
            return digest_as_listed(listed)
    return None
