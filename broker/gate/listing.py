"""`tools/list` for one caller.

1. Of each tool known to the broker, the version that this caller is routed to, if this process serves it as published; else
   the tool is not listed, since a call of it would be refused.
2. The list varies by who asks and by the state of versions, never by connection.
3. `_meta` names the canonical tool, the version and the contract's digest. A deprecated version says so, and until when, as
   the last paragraph of its description.
4. Tools in `ungated` are listed as they are. Any other tool that the broker does not know is not listed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from fastmcp import FastMCP
from fastmcp.tools.base import Tool
from mcp.server.caching import CacheHint

from broker.domain.contracts.contract import META_CONTRACT, META_TOOL, META_VERSION, with_notice
from broker.domain.ids import ToolName, parse_tool_name
from broker.domain.lifecycle.cohort import routed
from broker.domain.lifecycle.states import State, VersionRecord
from broker.gate.catalogue import Catalogue, ToolVersions
from broker.gate.served import ServedContracts, differing_members
from broker.gate.subject import VerifiedSubject

MAX_TTL_MILLISECONDS: Final = 1_000
"""How long a client may keep a listing: no longer than the gate keeps what the broker says."""

logger = logging.getLogger("broker.gate")


class Listing:
    """Chooses and marks what a caller sees."""

    def __init__(self, catalogue: Catalogue, served: ServedContracts, *, ungated: frozenset[str]) -> None:
        self._catalogue = catalogue
        self._served = served
        self._ungated = ungated

    async def shown(
        self, server: FastMCP[Any], tools: Sequence[Tool], caller: VerifiedSubject | None
    ) -> Sequence[Tool]:
        """The tools to list. Raises `BrokerUnreachableError` where nothing is known of one of them."""
        names = dict.fromkeys(tool.name for tool in tools if tool.name not in self._ungated)
        legal = [name for name in map(parse_tool_name, names) if name is not None] if caller is not None else []
        known = dict(zip(legal, await asyncio.gather(*map(self._catalogue.of, legal)), strict=True))
        chosen: dict[str, Tool | None] = {}
        shown: list[Tool] = []
        for tool in tools:
            if tool.name in self._ungated:
                shown.append(tool)
            elif tool.name not in chosen:
                versions = known.get(ToolName(tool.name))
                found = chosen[tool.name] = (
                    await self._choose(server, tools, versions, caller) if versions and caller else None
                )
                shown.extend([found] if found is not None else [])
        return shown

    async def _choose(
        self, server: FastMCP[Any], tools: Sequence[Tool], known: ToolVersions, caller: VerifiedSubject
    ) -> Tool | None:
        record = routed(known.records, agent=caller.subject.agent, account=caller.subject.account)
        if record is None:
            return None
        served = {tool.version: tool for tool in tools if tool.name == known.tool}
        tool = served.get(record.version) or served.get(None)
        if tool is None:
            logger.warning("%s is routed to, but not served here", record.id)
            return None
        digest = await self._served.digest(server, tool.name, record.version)
        if digest != record.contract:
            published = known.contracts.get(record.version)
            members = differing_members(tool, published.contract.members) if published is not None else ()
            logger.error(
                "contract drift: %s is served as %s, published as %s; differing: %s",
                record.id,
                digest,
                record.contract,
                ", ".join(members) or "unknown",
            )
            return None
        return marked(tool, record)


def marked(tool: Tool, record: VersionRecord) -> Tool:
    """A copy of the tool that says which version of what it is (rule 3)."""
    meta = {
        **(tool.meta or {}),
        META_TOOL: record.tool,
        META_VERSION: record.version,
        META_CONTRACT: record.contract,
    }
    changes: dict[str, Any] = {"meta": meta}
    if record.state is State.DEPRECATED:
        changes["description"] = with_notice(tool.description, notice(record))
    return tool.model_copy(update=changes)


def notice(record: VersionRecord) -> str:
    """What a listing says of a deprecated version."""
    until = ""
    if record.sunset is not None:
        until = f"; it may be gone after {datetime.fromtimestamp(record.sunset, UTC).date().isoformat()}"
    return (
        f"Version {record.version} of {record.tool} is deprecated{until}. Call tools/list again before you rely on it."
    )


def keep_private(server: FastMCP[Any]) -> None:
    """Have the framework say of this server's tools/list: for this caller only, and not for long."""
    hints = server._mcp_server.cache_hints  # set for all lists alike by FastMCP(cache_ttl=…); no public way for one
    hint = hints.get("tools/list")
    kept = min(hint.ttl_ms, MAX_TTL_MILLISECONDS) if hint is not None else 0
    if hint is None or hint.scope != "private" or hint.ttl_ms != kept:
        hints["tools/list"] = CacheHint(ttl_ms=kept, scope="private")
