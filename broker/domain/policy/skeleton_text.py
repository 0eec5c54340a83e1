"""The files that a policy begins with, as text. They load, and they let nobody in.

1. What a person has to decide is marked `decide:`. Proposals are comments: none is in force before somebody takes the sign away.
2. Nothing that a server says stands outside a comment but names and digests that were checked; in a comment it cannot end the
   line (`spelling.in_comment`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from broker.domain.contracts.contract import ToolContract
from broker.domain.errors import Reason
from broker.domain.ids import ToolName, Version
from broker.domain.policy.document import VersionPolicy
from broker.domain.policy.permissions import (
    PermissionArgument,
    permission_arguments,
    string_arguments,
)
from broker.domain.policy.skeleton import proposed_verb
from broker.domain.policy.spelling import in_comment, quoted, spell_text
from broker.domain.schema.dialect import SchemaError

TASK: Final = "use"
_FREE_SHOWN: Final = 12
_TIGHTER: Final = {
    "path": "pattern ^/srv/decide(/[A-Za-z0-9_][A-Za-z0-9_.-]*)+$",
    "url": "pattern ^https://decide[.]example(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*$",
    "host": "pattern ^[a-z0-9-]+[.]decide[.]example$",
    "command": "enum, the programs that may run",
    "query": "enum, the questions that may be asked",
    "code": "enum, what may be run",
    "ref": "pattern ^[A-Za-z0-9_][A-Za-z0-9_./-]*$",
    "identifier": "pattern ^[A-Za-z0-9_-]+$",
}
_ROOTS: Final = {"path": "/srv/decide", "url": "https://decide.example", "host": "decide.example"}


@dataclass(frozen=True, slots=True)
class Parties:
    """Who stands in the files: the client and issuer of the test, and the refusal that a request of theirs meets."""

    client: str
    issuer: str
    refusal: Reason


def contract_text(contract: ToolContract) -> str:
    """The contract's file."""
    return json.dumps(contract.members, indent=2, ensure_ascii=False) + "\n"


def contract_name(tool: ToolName, version: Version) -> str:
    """Where the contract's file is, relative to the policy folder."""
    return f"contracts/{tool}/{version}.json"


def tool_text(contract: ToolContract, version: Version, *, audience: str | None) -> str:
    """The tool's file."""
    scope = _scope(contract)
    verb, because = proposed_verb(contract)
    lines = [
        "# A skeleton, made from what the server lists. It lets nobody in; every `decide:` wants a person.",
        f"tool: {spell_text(contract.name)}",
        f"audience: {spell_text(audience)}"
        if audience is not None
        else "audience: https://decide.example # decide: the resource that credentials are good for (RFC 8707)",
        "owners: [decide] # decide: who answers for this tool",
        "",
        "versions:",
        f"  {quoted(version)}:",
        f"    contract: {contract_name(contract.name, version)}",
        f"    digest: {contract.digest}",
        *_arguments(contract, scope),
        "    scopes:",
        f"      {quoted(scope)}: # decide: {verb}? {because}",
        "        needed_when: true # decide: which arguments need it; every one, or a JSON Schema over them",
        "    tasks:",
        f"      {TASK}: # decide: what a caller may intend",
        "        allow: {} # decide: who may intend it; an empty map allows nobody",
        f"        scopes: [{quoted(scope)}]",
        "        ttl: 60s",
    ]
    return "\n".join(lines) + "\n"


def stanza(contract: ToolContract, version: Version, *, follows: str) -> str:
    """What to add to a tool's file that is there already."""
    lines = [
        f"  {quoted(version)}:",
        f"    extends: {quoted(follows)} # decide: what it takes over",
        f"    replaces: {quoted(follows)}",
        f"    contract: {contract_name(contract.name, version)}",
        f"    digest: {contract.digest}",
        *_arguments(contract, _scope(contract)),
    ]
    return "\n".join(lines) + "\n"


def tests_text(contract: ToolContract, version: Version, parties: Parties) -> str:
    """The tool's test file: one refusal that holds, one permit to decide about."""
    request = [
        f"version: {quoted(version)}",
        f"task: {TASK}",
        f"client: {spell_text(parties.client)}",
        f"issuer: {spell_text(parties.issuer)}",
    ]
    required = contract.input_schema.get("required")
    names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    lines = [
        "# A skeleton: one refusal that holds already, and one permit to decide about.",
        f"tool: {spell_text(contract.name)}",
        "cases:",
        "  - name: nobody is let in yet",
        "    request:",
        *(f"      {line}" for line in request),
        f"    refuse: {parties.refusal}",
        "  # decide: somebody who is let in; `policy check` asks for one (test.missing)",
        "  # - name: a permit",
        "  #   request:",
        *(f"  #     {line}" for line in request),
        "  #     claims: {groups: [decide]}",
        f"  #     arguments: {{{', '.join(f'{_in_flow(name)}: decide' for name in names)}}}",
        f"  #   permit: [{quoted(_scope(contract))}]",
    ]
    return "\n".join(lines) + "\n"


def trust_text(tools: Sequence[ToolContract], parties: Parties, *, resource: str | None) -> str:
    """`trust.yaml`, where there is none."""
    names = [spell_text(contract.name) for contract in tools]
    scopes = [quoted(f"{contract.name}:*") for contract in tools]
    at = spell_text(resource or "https://decide.example/mcp")
    lines = [
        "# A skeleton. The issuer and the client are made up: decide whose tokens are accepted, and who exchanges them.",
        "tenant: default",
        "lockstep: strict",
        "",
        "issuers:",
        f"  {parties.issuer}: # decide: the identity provider of the callers",
        f"    jwks: {{url: {parties.issuer}/jwks.json}} # decide",
        "    algorithms: [ES256, RS256]",
        "    claims: {groups: groups} # decide: which claims tasks may ask for",
        "    ceiling: # never more than this from here",
        "      tools:",
        *(f"        - {name}" for name in names),
        "      scopes:",
        *(f"        - {scope}" for scope in scopes),
        "",
        "clients:",
        f"  {parties.client}: # decide: the MCP server that exchanges its callers' tokens",
        "    auth: private_key_jwt",
        f"    jwks: {{file: keys/{parties.client}.json}} # made by `broker keygen`",
        f"    resource: {at} # decide: the audience that its callers' tokens must have",
        "    tools:",
        *(f"      - {name}" for name in names),
        "    may: [exchange]",
    ]
    return "\n".join(lines) + "\n"


def _scope(contract: ToolContract) -> str:
    return f"{contract.name}:{proposed_verb(contract)[0]}"


def _arguments(contract: ToolContract, scope: str) -> Iterator[str]:
    """The arguments that could be permissions, as comments; and what is free text besides."""
    found = permission_arguments(_bare(contract))
    if found:
        yield "    # decide: these arguments can be permissions. Bound each here, name it in a scope's template, or give it a"
        yield "    # pattern in the contract; `policy check` refuses what stays unbounded (argument.undeclared)."
        yield "    # arguments:"
        for one in found:
            yield from _argument(one, scope)
    try:
        texts = [pointer for pointer, _ in string_arguments(contract.input_schema)]
    except SchemaError:
        texts = []
    free = [pointer for pointer in texts if pointer not in {one.pointer for one in found}]
    if free:
        more = f", and {len(free) - _FREE_SHOWN} more" if len(free) > _FREE_SHOWN else ""
        said = ", ".join(in_comment(pointer, most=60) for pointer in free[:_FREE_SHOWN])
        yield f"    # decide: text that nothing says is a permission: {said}{more}"


def _bare(contract: ToolContract) -> VersionPolicy:
    """A version that declares nothing."""
    return VersionPolicy(contract.name, Version("1"), "", contract, {}, {}, {}, contract.digest)


def _argument(one: PermissionArgument, scope: str) -> Iterator[str]:
    because = {"name": "by its name", "use": "by its description"}.get(one.because, "as declared")
    root = _ROOTS.get(one.kind)
    bound = f"within: [{root}]" if root is not None else f"enforced_by: [{quoted(scope)}]"
    yield f"    #   {_in_flow(one.pointer)}: {{kind: {one.kind}, {bound}}} # {because}"
    yield f"    #     or in a scope: {in_comment(f'{scope}:{{{one.pointer}}}')}"
    yield f"    #     or in the contract: {_TIGHTER[one.kind]}"


def _in_flow(text: str) -> str:
    """A name as a key in a comment: what cannot be spelled is only shown."""
    return spell_text(in_comment(text)) or '"?"'
