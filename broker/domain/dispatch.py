"""One tools/call → run or refuse: the version gate, as arithmetic (DESIGN §7).

1. The declaration is `_meta["io.github.mayfly-broker/version"]` or the bare `_meta.schemaVersion`. Both and different,
   or no string: refused, hard. A version asked for through a framework's own key must be the declared one.
2. Declared, never served (absent or only published): `schema_version_unknown`, hard.
3. Declared, retired or rolled back: `schema_version_retired`, list again, retry once.
4. Declared, a canary that this principal is not routed to: `credential_refused`.
5. Not declared: the version that this principal is routed to. None: `schema_version_unknown`.
6. Arguments that do not fit: a declared call gets a tool result with `isError`, for the model to mend; an undeclared
   one gets `strict_validation_failed`, list again. Undeclared, a property with a default that was left out counts as
   not fitting, since frameworks fill it in after the gate.
7. What this process serves must be what was published: else `contract_drift`.
8. The broker has the last word. What it refuses an exchange for becomes:

   | its reason                                  | the caller gets                                            |
   |---------------------------------------------|------------------------------------------------------------|
   | version_retired, version_rolled_back        | `schema_version_retired`, with the version it names instead |
   | version_unknown, version_not_served         | `schema_version_unknown`                                   |
   | contract_mismatch                           | `contract_drift`                                           |
   | client_… (this server, not the caller)      | `credential_refused`, without the broker's words           |
   | any other                                   | `credential_refused`, with the broker's words              |

Codes lie outside the ranges that JSON-RPC and MCP reserve (MCP 2026-07-28, basic, "Error Codes").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

from broker.domain.canonical import JsonObject
from broker.domain.contracts.contract import META_VERSION
from broker.domain.errors import Reason
from broker.domain.ids import Digest, ToolName, Version, parse_version
from broker.domain.lifecycle.cohort import may_declare, routed
from broker.domain.lifecycle.states import State, VersionRecord

BARE_VERSION: Final = "schemaVersion"


class Code(IntEnum):
    """JSON-RPC error codes of the gate, and the one of the protocol that it uses."""

    INVALID_PARAMS = -32602

    SCHEMA_VERSION_RETIRED = -31001
    SCHEMA_VERSION_UNKNOWN = -31002
    STRICT_VALIDATION_FAILED = -31003
    CONTRACT_DRIFT = -31004
    CREDENTIAL_REFUSED = -31005
    BROKER_UNAVAILABLE = -31006


@dataclass(frozen=True, slots=True)
class Refuse:
    """A JSON-RPC error. `message` carries the instruction too, because some clients drop `data`."""

    code: Code
    message: str
    data: JsonObject


@dataclass(frozen=True, slots=True)
class InvalidArguments:
    """A tool result with `isError`: the arguments do not fit the declared contract, and the model can mend them."""

    message: str


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a call says about the version it was made for. None: it says nothing."""

    version: Version | None


@dataclass(frozen=True, slots=True)
class Target:
    """The version that a call is for. declared: whether the call said so itself."""

    record: VersionRecord
    declared: bool


@dataclass(frozen=True, slots=True)
class Run:
    """The call may go on to the exchange. undeclared: log the omission."""

    record: VersionRecord
    undeclared: bool


Decision: TypeAlias = Run | Refuse | InvalidArguments


def read_declaration(tool: str, meta: Mapping[str, object] | None, *, framework: object = None) -> Declaration | Refuse:
    """The version declared in a request's `_meta` (rule 1). framework: what a framework's own key names."""
    given = {key: meta[key] for key in (META_VERSION, BARE_VERSION) if meta is not None and key in meta}
    versions = {key: parse_version(value) for key, value in given.items()}
    if None in versions.values():
        return _unknown(tool, None, "a version is a string of letters, digits, `_`, `.`, `+` and `-`")
    if len(set(versions.values())) > 1:
        return _unknown(tool, None, f"{META_VERSION} and {BARE_VERSION} name different versions")
    declared = next(iter(versions.values()), None)
    if framework is not None and framework != declared:
        return _unknown(
            tool, declared, f"another version was asked for beside {META_VERSION}; declare the version there only"
        )
    return Declaration(declared)


def resolve(
    tool: ToolName, records: Iterable[VersionRecord], declared: Declaration, *, agent: str, account: str
) -> Target | Refuse:
    """Which version a call is for (rules 2–5). `records` are all versions of the tool."""
    known = {record.version: record for record in records}
    current = routed(known.values(), agent=agent, account=account)
    if declared.version is None:
        if current is None:
            return _unknown(tool, None, "no version of this tool is served")
        return Target(current, declared=False)
    record = known.get(declared.version)
    if record is None or record.state is State.PUBLISHED:
        return _unknown(tool, declared.version, "this version was never served")
    if record.state in (State.RETIRED, State.ROLLED_BACK):
        return retired(tool, declared.version, record.state, current.version if current else None)
    if not may_declare(record, agent=agent, account=account):
        return refused_by_broker(
            tool, record.version, Reason.VERSION_NOT_ROUTED.value, "this version is a canary that is not served to you"
        )
    return Target(record, declared=True)


def judge(target: Target, *, problem: str | None, omitted: Sequence[str], served: Digest | None) -> Decision:
    """Whether a call may go on (rules 6 and 7).

    problem: why the arguments do not fit, None where they do. omitted: pointers of properties with a default that were
    left out. served: digest of the contract that this process serves for the version, None where it serves none.
    """
    record = target.record
    if target.declared and problem is not None:
        return InvalidArguments(f"Invalid arguments for {record.id}: {problem}")
    if not target.declared:
        if problem is None and omitted:
            problem = f"{', '.join(omitted)}: has a default, which is not filled in for a call that declares no version"
        if problem is not None:
            return Refuse(
                Code.STRICT_VALIDATION_FAILED,
                f"strict_validation_failed: the call names no version and does not fit {record.id} exactly: {problem}. "
                "Call tools/list again, then retry once with the listed version and schema.",
                {**_relist(record.tool, None, record.version), "problem": problem},
            )
    if served != record.contract:
        return _drift(record, served)
    return Run(record, undeclared=not target.declared)


def retired(tool: str, declared: str, state: State, current: str | None) -> Refuse:
    """The error that sends a stale client back to tools/list."""
    was = "retired" if state is State.RETIRED else "rolled back"
    instead = f" The current version is {current}." if current else " No version of it is served now."
    return Refuse(
        Code.SCHEMA_VERSION_RETIRED,
        f"schema_version_retired: version {declared} of {tool} was {was}.{instead} "
        "Call tools/list again, then retry this call once with the version listed there.",
        _relist(tool, declared, current),
    )


def unknown_tool(tool: str) -> Refuse:
    """The error for a name that no published tool has: the protocol's own, which every client knows."""
    return Refuse(Code.INVALID_PARAMS, f"Unknown tool: {tool}", {"tool": tool, "reason": Reason.TOOL_UNKNOWN.value})


def malformed(tool: str, why: str) -> Refuse:
    """The error for a request that has not one reading, whatever it may mean."""
    return Refuse(
        Code.INVALID_PARAMS,
        f"Invalid request for {tool}: {why}",
        {"tool": tool, "reason": Reason.REQUEST_MALFORMED.value},
    )


def refused_by_broker(tool: str, version: str | None, reason: str, detail: str) -> Refuse:
    """The error for a call that the broker gives no credential for."""
    return Refuse(
        Code.CREDENTIAL_REFUSED,
        f"credential_refused ({reason}): {detail}",
        {"tool": tool, "version": version, "reason": reason},
    )


def refused_exchange(record: VersionRecord, reason: str, detail: str, *, current: str | None) -> Refuse:
    """The error for a call whose exchange the broker refused (rule 8). `current`: the version that it names instead."""
    match reason:
        case Reason.VERSION_RETIRED.value:
            return retired(record.tool, record.version, State.RETIRED, current)
        case Reason.VERSION_ROLLED_BACK.value:
            return retired(record.tool, record.version, State.ROLLED_BACK, current)
        case Reason.VERSION_UNKNOWN.value | Reason.VERSION_NOT_SERVED.value:
            return _unknown(record.tool, record.version, "this version was never served")
        case Reason.CONTRACT_MISMATCH.value:
            return _drift(record, None)
        case _ if reason.startswith("client_"):
            return refused_by_broker(
                record.tool,
                record.version,
                reason,
                "the broker does not accept this server; its operator must mend that",
            )
        case _:
            return refused_by_broker(record.tool, record.version, reason, detail)


def unavailable(tool: str, retry_after_seconds: int) -> Refuse:
    """The error for a call that no credential can be had for at present."""
    return Refuse(
        Code.BROKER_UNAVAILABLE,
        f"broker_unavailable: no credential can be had at present; retry in {retry_after_seconds} s.",
        {"tool": tool, "retry_after": retry_after_seconds},
    )


def _drift(record: VersionRecord, served: Digest | None) -> Refuse:
    return Refuse(
        Code.CONTRACT_DRIFT,
        f"contract_drift: this server does not serve {record.id} as it was published; the call was not run.",
        {"tool": record.tool, "version": record.version, "published": record.contract, "served": served},
    )


def _relist(tool: str, declared: str | None, current: str | None) -> JsonObject:
    return {"tool": tool, "declared": declared, "current": current, "action": "relist", "retry": "once"}


def _unknown(tool: str, declared: str | None, why: str) -> Refuse:
    shown = f" {declared}" if declared else ""
    return Refuse(
        Code.SCHEMA_VERSION_UNKNOWN,
        f"schema_version_unknown: {tool}{shown}: {why}.",
        {"tool": tool, "declared": declared},
    )
