"""Ancestors: the credentials that a delegated one came from, as its `ancestors` claim names them, the first one first.

1. Each member says where that ancestor stood: `jti kid client_id tool version policy rseq`. Account, chain and gen are the
   child's own: they do not change along a chain.
2. Who its agent was stands in the child's `act`: every exchange puts one actor around the actors of before. So the parent's
   agent is nested once in it, the one of the ancestor before it twice, and so on.
3. The first one is the credential that `chain` names; `rseq` never falls along a chain. Anything else is no chain of ours.

A child stands in every revocation scope of its ancestors, and its *own* `rseq` is what their marks are compared with. That is
enough: when the child was minted, in one step of the store, no mark was above any ancestor's `rseq`. A mark that is made
later has a sequence above the child's `rseq`. So a mark that kills an ancestor kills the child, and no mark that the ancestor
has outlived does, since `rseq` of the child is no smaller.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from broker.domain.canonical import MAX_INTEGER, JsonObject, JsonValue
from broker.domain.ids import (
    ClientId,
    Digest,
    ToolName,
    Version,
    VersionId,
    parse_client_id,
    parse_digest,
    parse_tool_name,
    parse_version,
    version_id,
)

MAX_ACTORS: Final = 10
MAX_ANCESTORS: Final = MAX_ACTORS - 1
_MEMBERS: Final = frozenset({"jti", "kid", "client_id", "tool", "version", "policy", "rseq"})


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A credential that another came from. kid: the key that signed it."""

    jti: str
    kid: str
    client: ClientId
    tool: ToolName
    version: Version
    policy: Digest
    rseq: int

    @property
    def version_id(self) -> VersionId:
        return version_id(self.tool, self.version)


def spell_ancestors(ancestors: tuple[Ancestor, ...]) -> list[JsonValue]:
    """The claim."""
    return [
        {
            "jti": one.jti,
            "kid": one.kid,
            "client_id": one.client,
            "tool": one.tool,
            "version": one.version,
            "policy": one.policy,
            "rseq": one.rseq,
        }
        for one in ancestors
    ]


def read_ancestors(claim: JsonValue, *, chain: str, rseq: int) -> tuple[Ancestor, ...] | None:
    """The ancestors that the claim of a credential names; None where it is no chain of ours (rule 3)."""
    if not isinstance(claim, list) or not 0 < len(claim) <= MAX_ANCESTORS:
        return None
    found: list[Ancestor] = []
    for member in claim:
        ancestor = _read(member) if isinstance(member, dict) else None
        if ancestor is None or (found and ancestor.rseq < found[-1].rseq):
            return None
        found.append(ancestor)
    return tuple(found) if found[0].jti == chain and found[-1].rseq <= rseq else None


def _read(member: JsonObject) -> Ancestor | None:
    jti, kid, rseq = member.get("jti"), member.get("kid"), member.get("rseq")
    client, policy = parse_client_id(member.get("client_id")), parse_digest(member.get("policy"))
    tool, version = parse_tool_name(member.get("tool")), parse_version(member.get("version"))
    if set(member) != _MEMBERS or client is None or policy is None or tool is None or version is None:
        return None
    if not (isinstance(jti, str) and jti and isinstance(kid, str) and kid):
        return None
    if not isinstance(rseq, int) or isinstance(rseq, bool) or not 0 <= rseq <= MAX_INTEGER:
        return None
    return Ancestor(jti=jti, kid=kid, client=client, tool=tool, version=version, policy=policy, rseq=rseq)


def agents_of(act: JsonObject, count: int) -> tuple[tuple[str, str], ...] | None:
    """Issuer and name of the agent of each of `count` ancestors, the first one first (rule 2); None where one is missing."""
    found: list[tuple[str, str]] = []
    node: JsonValue = act
    for _ in range(count):
        node = node.get("act") if isinstance(node, dict) else None
        issuer, name = (node.get("iss"), node.get("sub")) if isinstance(node, dict) else (None, None)
        if not isinstance(issuer, str) or not isinstance(name, str):
            return None
        found.append((issuer, name))
    return tuple(reversed(found))


def count_actors(act: JsonValue) -> int:
    """How many actors are nested in an `act` claim; more than `MAX_ACTORS` are counted no further."""
    count = 0
    while isinstance(act, dict) and count <= MAX_ACTORS:
        count += 1
        act = act.get("act")
    return count


def named_actors(act: JsonValue) -> JsonObject | None:
    """The chain of an `act` claim with issuer and name of each actor and nothing else; None where one actor is alone."""
    chain: list[JsonObject] = []
    while isinstance(act, dict) and len(chain) < MAX_ACTORS:
        chain.append({name: act[name] for name in ("iss", "sub") if name in act})
        act = act.get("act")
    made = chain.pop() if len(chain) > 1 else None
    while chain and made is not None:
        made = {**chain.pop(), "act": made}
    return made
