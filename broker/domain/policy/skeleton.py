"""From what an MCP server lists to contracts that a policy can begin with.

1. A listing is a `tools/list` result, a bare list of tools, or a JSON-RPC response with such a result.
2. A tool's contract is what the gate will compare: what a listing added is undone, members that are null are absent.
3. Its version is the one that the listing names (ours, or fastmcp's), else "1".
4. A tool is passed over, with the reason, where it is no contract, is listed twice, cannot be told from another one by its file's
   name, or has a name that no file of a policy folder can have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from broker.domain.canonical import JsonValue
from broker.domain.contracts.contract import META_VERSION, ContractError, ToolContract, parse_contract, published_form
from broker.domain.ids import ToolName, Version, parse_version
from broker.domain.policy.spelling import in_comment

RESERVED: Final = ("trust", "exceptions")
_OPTIONAL: Final = ("title", "description", "outputSchema", "annotations")
_READS: Final = frozenset(
    (
        "get", "list", "read", "search", "find", "describe", "show", "fetch", "query", "view", "lookup", "count", "check",
        "validate", "status", "inspect", "compare",
    )
)  # fmt: skip
_DELETES: Final = frozenset(("delete", "remove", "drop", "purge", "destroy", "erase", "wipe", "cancel", "revoke"))


@dataclass(frozen=True, slots=True)
class Served:
    """A tool that a policy can begin with. named: whether the listing names the version."""

    contract: ToolContract
    version: Version
    named: bool

    @property
    def tool(self) -> ToolName:
        return self.contract.name


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A tool that gets no files, and why. name: as it may be shown."""

    name: str
    why: str


def parse_listing(value: JsonValue) -> list[JsonValue] | str:
    """The tools of a saved listing, or what was expected."""
    if isinstance(value, dict) and isinstance(value.get("result"), dict):
        value = value["result"]
    if isinstance(value, dict):
        if value.get("nextCursor"):
            return "the list has a nextCursor, so it is one page of several: save all of them as one list of tools"
        value = value.get("tools")
    return value if isinstance(value, list) else "a tools/list result, or a list of tools, was expected"


def read_tools(listed: Iterable[JsonValue]) -> tuple[tuple[Served, ...], tuple[PassedOver, ...]]:
    """Every tool of a listing, one way or the other."""
    served: dict[str, Served] = {}
    passed: list[PassedOver] = []
    for value in listed:
        found = _read(value)
        if isinstance(found, PassedOver):
            passed.append(found)
            continue
        other = served.get(found.tool.lower())
        if other is not None and other.tool == found.tool:
            passed.append(PassedOver(found.tool, "it is listed twice"))
        elif other is not None:
            why = f"on some machines its files would be those of {other.tool}: the names differ in case only"
            passed.append(PassedOver(found.tool, why))
        else:
            served[found.tool.lower()] = found
    return tuple(served.values()), tuple(passed)


def _read(value: JsonValue) -> Served | PassedOver:
    if not isinstance(value, dict):
        return PassedOver("a tool without a name", "an object was expected")
    listed = {key: member for key, member in value.items() if key not in _OPTIONAL or member is not None}
    name = in_comment(str(value.get("name", "")), most=64) or "a tool without a name"
    try:
        contract = parse_contract(published_form(listed))
    except ContractError as error:
        return PassedOver(name, in_comment(str(error)))
    if contract.name.lower() in RESERVED:
        return PassedOver(name, f"{contract.name}.yaml says something else in a policy folder")
    if contract.name.startswith("."):
        return PassedOver(name, "files whose names begin with a dot are not read")
    version = _version(value)
    return Served(contract, version or Version("1"), named=version is not None)


def _version(value: Mapping[str, JsonValue]) -> Version | None:
    meta = value.get("_meta")
    if not isinstance(meta, dict):
        return None
    theirs = meta.get("fastmcp")
    stated = (meta.get(META_VERSION), theirs.get("version") if isinstance(theirs, dict) else None)
    versions = filter(None, map(parse_version, stated))
    # the contract's file is named for it, and files whose names begin with a dot are not read
    return next((version for version in versions if not version.startswith(".")), None)


def proposed_verb(contract: ToolContract) -> tuple[str, str]:
    """What a scope of the tool could be called, and why: `read`, `write` or `delete`. Hints are no promise."""
    annotations = contract.members.get("annotations")
    hints = annotations if isinstance(annotations, dict) else {}
    words = contract.name.lower().replace("-", "_").replace(".", "_").split("_")
    if _DELETES.intersection(words):
        return "delete", "by its name"
    if hints.get("readOnlyHint") is True:
        return "read", "the server says readOnlyHint: true, which is a hint and no promise"
    if hints.get("destructiveHint") is True:
        return "write", "the server says destructiveHint: true"
    if hints.get("readOnlyHint") is None and _READS.intersection(words[:2]):
        return "read", "by its name"
    return "write", "nothing says that it only reads"


def next_version(known: Iterable[str], served: Served) -> Version:
    """The version under which another contract of a known tool goes on."""
    taken = set(known)
    if served.named and served.version not in taken:
        return served.version
    numbers = [int(one) for one in taken if one.isascii() and one.isdecimal()]
    count = max(numbers, default=len(taken)) + 1
    while str(count) in taken:
        count += 1
    return Version(str(count))
