"""A contract: what the model binds to when it decides to call a tool.

1. Members: name, title, description, inputSchema, outputSchema, annotations, in the wire form of MCP 2026-07-28. An
   absent member is absent, not null. `_meta`, `icons` and everything else stand outside.
2. Digest: SHA-256 over the RFC 8785 spelling of exactly those members. The description is inside on purpose.
3. What a listing adds to a published contract is undone by `published_form` before hashing: the deprecation notice
   (always the last paragraph, `[Deprecated] …`, of one line) and an own name such as `db.query_v2`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from broker.domain.canonical import JsonError, JsonObject
from broker.domain.digests import digest_of
from broker.domain.ids import Digest, ToolName, parse_tool_name

MEMBERS: Final = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
NOTICE: Final = "\n\n[Deprecated] "
_BREAK: Final = re.compile(r"[\n\r\v\f\x85\u2028\u2029]")
META_PREFIX: Final = "io.github.mayfly-broker/"
META_TOOL: Final = META_PREFIX + "tool"
META_VERSION: Final = META_PREFIX + "version"
META_CONTRACT: Final = META_PREFIX + "contract"
META_TASK: Final = META_PREFIX + "task"


class ContractError(ValueError):
    """The value is not a tool contract; the message says which member and what was expected."""


@dataclass(frozen=True, slots=True)
class ToolContract:
    """One tool's contract: its members and their digest."""

    name: ToolName
    members: JsonObject
    digest: Digest

    @property
    def input_schema(self) -> JsonObject:
        schema = self.members["inputSchema"]
        assert isinstance(schema, dict)  # parse_contract saw to it
        return schema


def parse_contract(value: object) -> ToolContract:
    """The contract in a tool's wire form; other members are left out. Raises `ContractError`."""
    if not isinstance(value, Mapping):
        raise ContractError("a contract is a JSON object with at least name and inputSchema")
    members = {member: value[member] for member in MEMBERS if member in value}
    name = parse_tool_name(members.get("name"))
    if name is None:
        raise ContractError("/name: 1–128 letters, digits, `_`, `.` or `-` were expected")
    schema = members.get("inputSchema")
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise ContractError('/inputSchema: an object with "type": "object" was expected')
    for member in ("title", "description"):
        if member in members and not isinstance(members[member], str):
            raise ContractError(f"/{member}: a string was expected; leave the member out where there is none")
    if NOTICE.lstrip("\n") in str(members.get("description", "")):
        raise ContractError("/description: `[Deprecated] ` is what a listing adds; write the deprecation another way")
    for member in ("outputSchema", "annotations"):
        if member in members and not isinstance(members[member], dict):
            raise ContractError(f"/{member}: an object was expected; leave the member out where there is none")
    try:
        return ToolContract(name=name, members=members, digest=digest_of(members))
    except JsonError as error:
        raise ContractError(str(error)) from None


def published_form(listed: Mapping[str, object]) -> JsonObject:
    """The published contract's members in a listed tool, with what the listing added undone (rule 3)."""
    members = {member: listed[member] for member in MEMBERS if member in listed}
    meta = listed.get("_meta")
    if isinstance(meta, Mapping) and isinstance(meta.get(META_TOOL), str):
        members["name"] = meta[META_TOOL]
    description = members.get("description")
    if isinstance(description, str):
        before, found, notice = f"\n\n{description}".rpartition(NOTICE)
        if found and not _BREAK.search(notice):  # more than a line is more than a notice: it counts
            if before:
                members["description"] = before.removeprefix("\n\n")
            else:
                del members["description"]
    return members  # type: ignore[return-value]  # what came over the wire as JSON is JSON


def with_notice(description: str | None, notice: str) -> str:
    """A description with the deprecation notice as its last paragraph."""
    return (description + NOTICE if description else NOTICE.lstrip("\n")) + notice
