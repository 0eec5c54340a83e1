"""`policy init`: what a policy for a running server begins with.

1. A tool without a file gets its contract, a file and tests. A tool whose file is there gets its contract, and the lines to add to
   that file; where the file has this contract already, nothing.
2. `trust.yaml` is made where there is none, and never touched where there is one.
3. A file that would be overwritten is a problem, and then nothing is written at all, unless that is wished.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from broker.domain.canonical import JsonError, JsonValue, parse_json
from broker.domain.contracts.contract import ContractError, ToolContract, parse_contract
from broker.domain.errors import Reason
from broker.domain.ids import ToolName
from broker.domain.policy.parse_trust import Trust
from broker.domain.policy.skeleton import PassedOver, Served, next_version, read_tools
from broker.domain.policy.skeleton_text import (
    Parties,
    contract_name,
    contract_text,
    stanza,
    tests_text,
    tool_text,
    trust_text,
)
from broker.domain.policy.spelling import in_comment
from broker.domain.scopes import within_patterns

_MAX_FILE_BYTES: Final = 1_048_576


@dataclass(frozen=True, slots=True)
class Wanted:
    """patterns: of the tools; none means all. resource: the server's own URL, where it is known."""

    patterns: tuple[str, ...] = ()
    audience: str | None = None
    resource: str | None = None
    force: bool = False


@dataclass(frozen=True, slots=True)
class Folder:
    """What the folder has. trust: None where there is no `trust.yaml`. tools: by name, version → digest, in the file's order."""

    trust: Trust | None
    tools: Mapping[ToolName, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Stanza:
    """Lines to add under `versions:` of a tool's file."""

    file: str
    text: str


@dataclass(frozen=True, slots=True)
class Beginning:
    """What to write, and what to say.

    files:     by name relative to the folder. begun: the tools that have none yet.
    uncovered: tools that no client in `trust.yaml` may act for.
    """

    files: Mapping[str, str]
    stanzas: tuple[Stanza, ...]
    unchanged: tuple[ToolName, ...]
    passed: tuple[PassedOver, ...]
    uncovered: tuple[ToolName, ...]
    begun: tuple[ToolName, ...]


def begin(
    listed: Sequence[JsonValue], folder: Folder, wanted: Wanted, *, unusable: Callable[[ToolContract], str | None]
) -> Beginning:
    """What to write. unusable: why a contract cannot be compiled, or None."""
    served, passed = read_tools(listed)
    if wanted.patterns:
        served = tuple(one for one in served if within_patterns(one.tool, wanted.patterns))
        passed = tuple(one for one in passed if within_patterns(one.name, wanted.patterns))
    usable: list[Served] = []
    refused = list(passed)
    for one in served:
        why = _text_problem(one) or unusable(one.contract)
        if why is None:
            usable.append(one)
        else:
            refused.append(PassedOver(one.tool, in_comment(why)))
    files: dict[str, str] = {}
    stanzas, unchanged, uncovered, begun = [], [], [], []
    for one in usable:
        known = folder.tools.get(one.tool)
        if known is not None and not wanted.force:
            if one.contract.digest in known.values():
                unchanged.append(one.tool)
                continue
            version = next_version(known, one)
            files[contract_name(one.tool, version)] = contract_text(one.contract)
            follows = list(known)[-1] if known else version
            stanzas.append(Stanza(f"{one.tool}.yaml", stanza(one.contract, version, follows=follows)))
            continue
        parties = parties_for(one.tool, folder.trust)
        if parties.refusal is Reason.CLIENT_NOT_PERMITTED:
            uncovered.append(one.tool)
        begun.append(one.tool)
        files[f"{one.tool}.yaml"] = tool_text(one.contract, one.version, audience=wanted.audience)
        files[contract_name(one.tool, one.version)] = contract_text(one.contract)
        files[f"tests/{one.tool}.yaml"] = tests_text(one.contract, one.version, parties)
    if folder.trust is None and usable:
        parties = parties_for(usable[0].tool, None)
        files["trust.yaml"] = trust_text([one.contract for one in usable], parties, resource=wanted.resource)
    return Beginning(
        files=files,
        stanzas=tuple(stanzas),
        unchanged=tuple(unchanged),
        passed=tuple(refused),
        uncovered=tuple(uncovered),
        begun=tuple(begun),
    )


def parties_for(tool: ToolName, trust: Trust | None) -> Parties:
    """Who asks in the test of a tool that lets nobody in, and what becomes of it."""
    if trust is None or not trust.clients or not trust.issuers:
        return Parties("mcp-server", "https://idp.example", Reason.TASK_NOT_ALLOWED)
    clients = [name for name, client in trust.clients.items() if within_patterns(tool, client.tools)]
    issuers = [name for name, issuer in trust.issuers.items() if within_patterns(tool, issuer.ceiling.tools)]
    client = clients[0] if clients else next(iter(trust.clients))
    issuer = issuers[0] if issuers else next(iter(trust.issuers))
    if not clients:
        return Parties(client, issuer, Reason.CLIENT_NOT_PERMITTED)
    ceiling = trust.clients[client].ceiling
    if not issuers or (ceiling is not None and not within_patterns(tool, ceiling.tools)):
        return Parties(client, issuer, Reason.CEILING_EXCEEDED)
    return Parties(client, issuer, Reason.TASK_NOT_ALLOWED)


def _text_problem(one: Served) -> str | None:
    """Why the contract's file would not be this contract."""
    text = contract_text(one.contract)
    try:
        content = text.encode()
        if len(content) > _MAX_FILE_BYTES:
            return f"its contract has {len(content)} bytes; at most {_MAX_FILE_BYTES} are read"
        again = parse_contract(parse_json(content))
    except (JsonError, ContractError, UnicodeEncodeError) as error:
        return f"its contract cannot be written as JSON with one reading: {error}"
    return None if again.digest == one.contract.digest else "its contract reads differently from what was served"
