"""A credential's claims (RFC 9068, RFC 8693 §4.1, RFC 9396 §9, RFC 9493 §3.2.3). Format pinned by a test; grows only.

| claim                  | is                                                                             |
|------------------------|--------------------------------------------------------------------------------|
| iss sub aud client_id iat exp jti scope | as RFC 9068 §2.2; aud is one string; client_id is the exchanging MCP server |
| sub_id                 | who `sub` is at which issuer: `{"format":"iss_sub","iss":…,"sub":…}`           |
| act                    | the agent, with earlier actors nested inside it                                |
| authorization_details  | one `mcp_tool_call`: tool, version, contract, task, uses, online, arguments_digest |
| gen rseq               | the logical time of the mint (DESIGN §5)                                       |
| txn                    | one id for the whole logical call (RFC 8417 §2.2)                              |
| chain                  | jti of the first credential of a delegation; its own where there is none      |
| ancestors              | where it was delegated: the credentials that it came from (`ancestors.py`)     |
| policy                 | digest of the version's policy that granted it                                 |

There is no `nbf`: lifetimes are seconds, and skew would refuse what was just minted.
`arguments_digest` is SHA-256 over `jti`, a full stop and the RFC 8785 spelling of the arguments, base64url: it shows that
these are the arguments without showing them, and equal arguments of two credentials do not look equal.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import Final

from broker.domain.canonical import JsonObject, JsonValue, canonical_json
from broker.domain.errors import Reason, Refusal
from broker.domain.ids import (
    ClientId,
    Digest,
    TaskName,
    ToolName,
    Version,
    VersionId,
    parse_client_id,
    parse_digest,
    parse_task_name,
    parse_tool_name,
    parse_version,
    version_id,
)
from broker.domain.revocation.scopes import Bearing, RevocationScope, key_scope, scopes_of
from broker.domain.scopes import ScopeSet, parse_scope_parameter, spell_scopes
from broker.domain.tokens.ancestors import Ancestor, agents_of, read_ancestors, spell_ancestors
from broker.domain.tokens.exchange_request import DETAIL_TYPE

MAX_ACT_BYTES: Final = 8_192
MAX_LIFETIME_SECONDS: Final = 300
TYPE: Final = "at+jwt"


@dataclass(frozen=True, slots=True)
class Credential:
    """What a credential says. Instants in Unix seconds. ancestors: what it was delegated from, the first one first."""

    issuer: str
    audience: str
    account_issuer: str
    account: str
    client: ClientId
    act: JsonObject
    tool: ToolName
    version: Version
    contract: Digest
    task: TaskName
    scopes: ScopeSet
    policy: Digest
    issued_at: int
    expires_at: int
    jti: str
    txn: str
    chain: str
    gen: int
    rseq: int
    uses: int | None = None
    arguments_digest: str | None = None
    ancestors: tuple[Ancestor, ...] = ()
    online: bool = False

    @property
    def agent(self) -> str:
        return str(self.act["sub"])

    @property
    def agent_issuer(self) -> str:
        return str(self.act["iss"])

    @property
    def version_id(self) -> VersionId:
        return version_id(self.tool, self.version)

    @property
    def version_ids(self) -> tuple[VersionId, ...]:
        """Its own version and its ancestors': each must be in a mintable state."""
        own = self.version_id
        return (own, *(one.version_id for one in self.ancestors)) if self.ancestors else (own,)

    def key_scopes(self, kid: str) -> tuple[RevocationScope, ...]:
        """The keys that it, signed with `kid`, and its ancestors were signed with: none may ever have been revoked."""
        own = key_scope(kid)
        return (own, *(key_scope(one.kid) for one in self.ancestors)) if self.ancestors else (own,)

    def revocation_scopes(self, kid: str) -> tuple[RevocationScope, ...]:
        """All revocation scopes that this credential, signed with `kid`, stands in: its own and those of its ancestors."""
        own = self.own_scopes(kid)
        if not self.ancestors:
            return own
        return tuple(dict.fromkeys((*own, *(scope for each in self.ancestor_scopes() for scope in each))))

    def own_scopes(self, kid: str) -> tuple[RevocationScope, ...]:
        """The revocation scopes that it stands in by itself."""
        return scopes_of(
            Bearing(
                kid=kid,
                tool=self.tool,
                version=self.version,
                policy=self.policy,
                client=self.client,
                agent_issuer=self.agent_issuer,
                agent=self.agent,
                account_issuer=self.account_issuer,
                account=self.account,
                chain=self.chain,
                jti=self.jti,
            )
        )

    def ancestor_scopes(self) -> tuple[tuple[RevocationScope, ...], ...]:
        """For each ancestor, the revocation scopes that it stands in."""
        agents = agents_of(self.act, len(self.ancestors)) or ()
        return tuple(
            scopes_of(
                Bearing(
                    kid=one.kid,
                    tool=one.tool,
                    version=one.version,
                    policy=one.policy,
                    client=one.client,
                    agent_issuer=issuer,
                    agent=agent,
                    account_issuer=self.account_issuer,
                    account=self.account,
                    chain=self.chain,
                    jti=one.jti,
                )
            )
            for one, (issuer, agent) in zip(self.ancestors, agents, strict=True)
        )


@dataclass(frozen=True, slots=True)
class KnownCredential:
    """A credential whose signature and claims were verified. kid: the key that signed it."""

    credential: Credential
    kid: str

    @property
    def scopes(self) -> tuple[RevocationScope, ...]:
        """The revocation scopes that it stands in."""
        return self.credential.revocation_scopes(self.kid)


def detail_json(credential: Credential) -> JsonObject:
    """The granted authorization detail."""
    detail: JsonObject = {
        "type": DETAIL_TYPE,
        "tool": credential.tool,
        "version": credential.version,
        "contract": credential.contract,
        "task": credential.task,
    }
    if credential.uses is not None:
        detail["uses"] = credential.uses
    if credential.online:
        detail["online"] = True
    if credential.arguments_digest is not None:
        detail["arguments_digest"] = credential.arguments_digest
    return detail


def spell_claims(credential: Credential) -> JsonObject:
    """The claims to sign."""
    made: JsonObject = {
        "iss": credential.issuer,
        "sub": credential.account,
        "sub_id": {"format": "iss_sub", "iss": credential.account_issuer, "sub": credential.account},
        "aud": credential.audience,
        "client_id": credential.client,
        "act": credential.act,
        "scope": spell_scopes(credential.scopes),
        "authorization_details": [detail_json(credential)],
        "iat": credential.issued_at,
        "exp": credential.expires_at,
        "jti": credential.jti,
        "txn": credential.txn,
        "chain": credential.chain,
        "policy": credential.policy,
        "gen": credential.gen,
        "rseq": credential.rseq,
    }
    if credential.ancestors:
        made["ancestors"] = spell_ancestors(credential.ancestors)
    return made


def read_credential(claims: JsonObject) -> Credential | Refusal:
    """The credential in claims whose signature, issuer, audience and times were verified; or which claim is wrong."""
    details = claims.get("authorization_details")
    if not (isinstance(details, list) and len(details) == 1 and isinstance(details[0], dict)):
        return _wrong("authorization_details")
    detail = details[0]
    sub_id, act = claims.get("sub_id"), claims.get("act")
    if not isinstance(sub_id, dict) or sub_id.get("sub") != claims.get("sub") or not isinstance(sub_id.get("iss"), str):
        return _wrong("sub_id")
    if not isinstance(act, dict) or not isinstance(act.get("sub"), str) or not isinstance(act.get("iss"), str):
        return _wrong("act")
    tool, version = parse_tool_name(detail.get("tool")), parse_version(detail.get("version"))
    contract, task = parse_digest(detail.get("contract")), parse_task_name(detail.get("task"))
    client, policy = parse_client_id(claims.get("client_id")), parse_digest(claims.get("policy"))
    scope = claims.get("scope")
    scopes = parse_scope_parameter(scope) if isinstance(scope, str) else None
    uses, digest = detail.get("uses"), detail.get("arguments_digest")
    if detail.get("type") != DETAIL_TYPE or tool is None or version is None or contract is None or task is None:
        return _wrong("authorization_details")
    if (uses is not None and not _counter(uses)) or (digest is not None and not isinstance(digest, str)):
        return _wrong("authorization_details")
    if detail.get("online", True) is not True:
        return _wrong("authorization_details")
    if client is None:
        return _wrong("client_id")
    if policy is None:
        return _wrong("policy")
    if scopes is None:
        return _wrong("scope")
    for name in ("gen", "rseq"):
        if not _counter(claims.get(name)):
            return _wrong(name)
    for name in ("iss", "txn", "chain", "jti"):
        if not isinstance(claims.get(name), str):
            return _wrong(name)
    audience = claims.get("aud")
    if isinstance(audience, list) and len(audience) == 1:
        audience = audience[0]  # RFC 7519 §4.1.3: the same as the string alone
    if not isinstance(audience, str):
        return _wrong("aud")
    ancestors = _ancestors(claims, act) if "ancestors" in claims else ()
    if ancestors is None:
        return _wrong("ancestors")
    return Credential(
        issuer=str(claims["iss"]),
        audience=audience,
        account_issuer=str(sub_id["iss"]),
        account=str(claims["sub"]),
        client=client,
        act=act,
        tool=tool,
        version=version,
        contract=contract,
        task=task,
        scopes=scopes,
        policy=policy,
        issued_at=int(claims["iat"]),  # type: ignore[arg-type]  # verify_claims saw to it
        expires_at=int(claims["exp"]),  # type: ignore[arg-type]
        jti=str(claims["jti"]),
        txn=str(claims["txn"]),
        chain=str(claims["chain"]),
        gen=int(claims["gen"]),  # type: ignore[arg-type]
        rseq=int(claims["rseq"]),  # type: ignore[arg-type]
        uses=uses if isinstance(uses, int) else None,
        arguments_digest=digest if isinstance(digest, str) else None,
        ancestors=ancestors,
        online="online" in detail,
    )


def _ancestors(claims: JsonObject, act: JsonObject) -> tuple[Ancestor, ...] | None:
    found = read_ancestors(claims["ancestors"], chain=str(claims["chain"]), rseq=int(claims["rseq"]))  # type: ignore[arg-type]
    return None if found is None or agents_of(act, len(found)) is None else found


def _counter(value: JsonValue) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _wrong(claim: str) -> Refusal:
    return Refusal(Reason.TOKEN_CLAIM_INVALID, f"not the {claim} claim of a credential of this broker", where=claim)


def digest_of_arguments(jti: str, arguments: JsonObject) -> str:
    """The `arguments_digest` of these arguments in the credential with this `jti`."""
    return digest_of_spelled(jti, canonical_json(arguments))


def digest_of_spelled(jti: str, spelled: bytes) -> str:
    """The same, of arguments in their canonical spelling."""
    made = hashlib.sha256(jti.encode() + b"." + spelled).digest()
    return base64.urlsafe_b64encode(made).rstrip(b"=").decode()
