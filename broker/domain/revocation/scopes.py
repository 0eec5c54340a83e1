"""Revocation scopes: what one write can kill, and which of them a credential stands in.

| scope          | spelled                              | kills every credential …                     |
|----------------|--------------------------------------|----------------------------------------------|
| everything     | `all`                                | of the tenant                                |
| signing key    | `key:<kid>`                          | signed with that key                         |
| tool           | `tool:<tool>`                        | of any version of the tool                   |
| version        | `version:<tool>@<version>`           | of that version                              |
| policy         | `policy:<digest>`                    | granted by that state of a version's policy  |
| client         | `client:<client_id>`                 | exchanged by that client                     |
| agent          | `agent:<issuer>|<agent>`             | of that agent                                |
| account        | `account:<issuer>|<account>`         | of that account                              |
| agent+account  | `pair:<agent part>|<account part>`   | of that agent acting for that account        |
| chain          | `chain:<jti of the first>`           | of one chain of delegations                  |
| credential     | `jti:<jti>`                          | that one                                     |

Rule: a credential with `rseq` is dead when the **maximum** over the marks of all its scopes is greater than `rseq`.
Names from outside are percent-encoded, so that no name can be read as part of another scope.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NewType
from urllib.parse import quote

from broker.domain.ids import ClientId, Digest, ToolName, Version

RevocationScope = NewType("RevocationScope", str)

EVERYTHING = RevocationScope("all")


def _name(text: str) -> str:
    return quote(text, safe="")


def key_scope(kid: str) -> RevocationScope:
    return RevocationScope(f"key:{_name(kid)}")


def tool_scope(tool: ToolName) -> RevocationScope:
    return RevocationScope(f"tool:{tool}")


def version_scope(tool: ToolName, version: Version) -> RevocationScope:
    return RevocationScope(f"version:{tool}@{version}")


def policy_scope(policy: Digest) -> RevocationScope:
    return RevocationScope(f"policy:{policy}")


def client_scope(client: ClientId) -> RevocationScope:
    return RevocationScope(f"client:{_name(client)}")


def agent_scope(issuer: str, agent: str) -> RevocationScope:
    return RevocationScope(f"agent:{_name(issuer)}|{_name(agent)}")


def account_scope(issuer: str, account: str) -> RevocationScope:
    return RevocationScope(f"account:{_name(issuer)}|{_name(account)}")


def pair_scope(agent_issuer: str, agent: str, account_issuer: str, account: str) -> RevocationScope:
    return RevocationScope(f"pair:{_name(agent_issuer)}|{_name(agent)}|{_name(account_issuer)}|{_name(account)}")


def chain_scope(chain: str) -> RevocationScope:
    return RevocationScope(f"chain:{_name(chain)}")


def jti_scope(jti: str) -> RevocationScope:
    return RevocationScope(f"jti:{_name(jti)}")


@dataclass(frozen=True, slots=True)
class Bearing:
    """Where a credential stands: everything that a revocation can be aimed at."""

    kid: str
    tool: ToolName
    version: Version
    policy: Digest
    client: ClientId
    agent_issuer: str
    agent: str
    account_issuer: str
    account: str
    chain: str
    jti: str


def scopes_of(bearing: Bearing) -> tuple[RevocationScope, ...]:
    """All revocation scopes that a credential stands in, the widest first."""
    return (
        EVERYTHING,
        key_scope(bearing.kid),
        tool_scope(bearing.tool),
        version_scope(bearing.tool, bearing.version),
        policy_scope(bearing.policy),
        client_scope(bearing.client),
        agent_scope(bearing.agent_issuer, bearing.agent),
        account_scope(bearing.account_issuer, bearing.account),
        pair_scope(bearing.agent_issuer, bearing.agent, bearing.account_issuer, bearing.account),
        chain_scope(bearing.chain),
        jti_scope(bearing.jti),
    )


def is_key_scope(scope: str) -> bool:
    """Whether a scope is that of a signing key: such a mark counts whatever `rseq` a credential states, and for ever."""
    return scope.startswith("key:")


def stays(scope: str, seq: int, covered: int) -> bool:
    """Whether a mark still says something beside one on everything at `covered`."""
    return seq > covered or scope == EVERYTHING or is_key_scope(scope)


def is_revoked(marks: Mapping[RevocationScope, int], scopes: Iterable[RevocationScope], *, rseq: int) -> bool:
    """The rule: the maximum over all scopes that apply, against `rseq`."""
    return max((marks.get(scope, 0) for scope in scopes), default=0) > rseq
