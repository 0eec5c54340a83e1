"""The policy of one tenant as values: what a folder of policy files says, resolved and checked.

| part      | says                                                                                                   |
|-----------|--------------------------------------------------------------------------------------------------------|
| `issuers` | whose subject and actor tokens are accepted, where their keys are, and never more than which ceiling     |
| `clients` | which MCP servers exchange, which verifiers introspect, and how they prove who they are                  |
| `admins`  | who may move versions and read records                                                                   |
| `tools`   | for each version: its contract, its permission-bearing arguments, its scopes, and who may intend what    |

1. A document is complete: `extends`, defaults and relative paths are already resolved, every name it uses exists.
2. Empty means no: a task whose `clients` and `claims` are both empty allows nobody; an empty ceiling lets nothing pass.
3. `digest` covers everything that decides and nothing else, so equal digests decide alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from broker.domain.canonical import JsonObject
from broker.domain.contracts.contract import ToolContract
from broker.domain.ids import ClientId, Digest, TaskName, Tenant, ToolName, Version

ClientAuth: TypeAlias = Literal["private_key_jwt", "client_secret_basic", "client_secret_post"]

CLIENT_AUTHS: Final[tuple[ClientAuth, ...]] = ("private_key_jwt", "client_secret_basic", "client_secret_post")
CLIENT_POWERS: Final = ("exchange", "introspect", "feed", "report")
ADMIN_POWERS: Final = (
    "publish",
    "canary",
    "promote",
    "rollback",
    "deprecate",
    "retire",
    "revoke",
    "read",
    "explain",
)
# Asymmetric only: a shared secret would let every verifier mint.
ALGORITHMS: Final = ("ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "EdDSA")
TOKEN_TYPES: Final = ("at+jwt", "JWT")
LOCKSTEP: Final = ("strict", "reach")
KINDS: Final = ("path", "url", "host", "command", "query", "code", "ref", "identifier")
ROOTED_KINDS: Final = ("path", "url", "host")
MAX_TTL_SECONDS: Final = 300
MAX_LEEWAY_SECONDS: Final = 60
MAX_SUBJECT_LIFETIME_SECONDS: Final = 43_200


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds where a task or an issuer says nothing."""

    ttl_seconds: int = 60
    max_ttl_seconds: int = MAX_TTL_SECONDS
    leeway_seconds: int = 10


@dataclass(frozen=True, slots=True)
class KeySource:
    """Where public keys are: a URL (https, or http on loopback) or an absolute file; exactly one of them."""

    url: str | None = None
    file: str | None = None


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Never more than this, whatever a task grants; patterns in which `*` alone is special."""

    tools: tuple[str, ...]
    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClaimNames:
    """Which claim of an issuer's tokens holds what.

    account: the claim that names the account.
    agent:   the claim that names the agent where the token has no actor; None: `client_id`, else `azp`.
    others:  by the name that tasks use in `allow.claims`, the claim of the token.
    """

    account: str = "sub"
    agent: str | None = None
    others: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IssuerTrust:
    """An issuer whose tokens are accepted as subject or actor tokens."""

    issuer: str
    jwks: KeySource
    algorithms: tuple[str, ...]
    ceiling: Ceiling
    types: tuple[str, ...] = ("at+jwt",)
    claims: ClaimNames = field(default_factory=ClaimNames)
    max_lifetime_seconds: int = MAX_SUBJECT_LIFETIME_SECONDS


@dataclass(frozen=True, slots=True)
class ClientTrust:
    """An MCP server that exchanges, or a verifier that introspects.

    secrets:  SHA-256 digests of generated secrets, two while one is being rotated; empty with `private_key_jwt`.
    resource: the audience that its callers' tokens must have, or the resource that a verifier guards.
    tools:    patterns of the tools it may act for; empty means none.
    ceiling:  None means that the issuer's ceiling and `tools` are the only bounds.
    """

    client_id: ClientId
    auth: ClientAuth
    jwks: KeySource | None
    secrets: tuple[Digest, ...]
    resource: str | None
    tools: tuple[str, ...]
    ceiling: Ceiling | None
    may: frozenset[str]


@dataclass(frozen=True, slots=True)
class AdminTrust:
    """Who may move versions, and how they prove who they are."""

    name: str
    auth: ClientAuth
    jwks: KeySource | None
    secrets: tuple[Digest, ...]
    may: frozenset[str]


@dataclass(frozen=True, slots=True)
class ArgumentRule:
    """A permission-bearing argument; `within` roots are in normal form, `enforced_by` names scopes of the version."""

    pointer: str
    kind: str
    within: tuple[str, ...] = ()
    enforced_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScopeRule:
    """A permission the version can need; `needed_when` is a JSON Schema over the arguments, True means always."""

    template: str
    placeholders: tuple[str, ...]
    needed_when: bool | JsonObject


@dataclass(frozen=True, slots=True)
class TaskRule:
    """What a caller may intend, who may intend it, and what it grants.

    clients: the exchanging clients it is limited to; empty means that it does not speak of clients.
    claims:  for each named claim, the values of which the principal has at least one.
    scopes:  templates of the version's scopes.
    uses:    how often one credential may be exchanged or used online; None means not counted.
    online:  whoever accepts a credential asks the broker about it each time.
    """

    task: TaskName
    clients: tuple[ClientId, ...]
    claims: Mapping[str, tuple[str, ...]]
    scopes: tuple[str, ...]
    ttl_seconds: int
    uses: int | None = None
    online: bool = False


@dataclass(frozen=True, slots=True)
class ChangeClaim:
    """What the author says about the step from `replaces` to this version; recomputed, never trusted."""

    inputs: str | None = None
    scopes: str | None = None
    class_: str | None = None


@dataclass(frozen=True, slots=True)
class VersionPolicy:
    """Everything that one version of a tool grants, frozen with it when it is published."""

    tool: ToolName
    version: Version
    audience: str
    contract: ToolContract
    arguments: Mapping[str, ArgumentRule]
    scopes: Mapping[str, ScopeRule]
    tasks: Mapping[TaskName, TaskRule]
    digest: Digest
    replaces: Version | None = None
    change: ChangeClaim | None = None
    unrelated: str | None = None


@dataclass(frozen=True, slots=True)
class ToolPolicy:
    """One tool: who owns it, and its versions."""

    tool: ToolName
    audience: str
    owners: tuple[str, ...]
    versions: Mapping[Version, VersionPolicy]


@dataclass(frozen=True, slots=True)
class Policy:
    """One tenant's policy, complete and lawful in itself."""

    tenant: Tenant
    lockstep: str
    issuers: Mapping[str, IssuerTrust]
    clients: Mapping[ClientId, ClientTrust]
    admins: Mapping[str, AdminTrust]
    defaults: Defaults
    tools: Mapping[ToolName, ToolPolicy]
    digest: Digest


@dataclass(frozen=True, slots=True)
class Bounds:
    """Whose ceilings hold, where they are others than those of the issuers of account and agent.

    clients: each must still be known; what they may act for is not asked, since they do not exchange.
    """

    issuers: tuple[str, ...]
    clients: tuple[ClientId, ...]


@dataclass(frozen=True, slots=True)
class Principal:
    """Whom a decision is about, as the verified tokens and the authenticated client say it.

    claims:     by policy claim name (`allow.claims`), the values the subject token holds.
    bounded_by: in a delegation, everybody who had a part in the chain.
    """

    account_issuer: str
    account: str
    agent_issuer: str
    agent: str
    client: ClientId
    claims: Mapping[str, frozenset[str]]
    expires_at: int
    bounded_by: Bounds | None = None


@dataclass(frozen=True, slots=True)
class ArgumentFacts:
    """What an engine found about one argument object; the decision itself needs no library.

    valid:   the contract's schema and its closure accept the arguments.
    problem: where they do not, a JSON pointer and what was expected there; never a value.
    needed:  the templates of the scopes whose `needed_when` accepts the arguments.
    """

    valid: bool
    problem: str | None
    needed: frozenset[str]
