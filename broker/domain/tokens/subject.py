"""Who a subject token speaks of: account, agent, and the claims that policy asks for.

1. account: the claim that `trust.yaml` names, `sub` by default.
2. agent: the actor token's subject; else the subject token's own actor (`act.sub`); else the claim that `trust.yaml` names;
   else `client_id`, else `azp` (RFC 9068 §2.2, OpenID Connect Core §2). None of them: refused, an agent is never unknown.
3. act: the agent, with the subject token's earlier actors inside it (RFC 8693 §4.1), at most 10 deep and 8 KiB.
4. may_act in the subject token (RFC 8693 §4.4): an actor token must be the one it names.
5. A policy claim is a string, or an array of strings; anything else counts as no value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from broker.domain.canonical import JsonObject, JsonValue, canonical_json
from broker.domain.errors import Reason, Refusal
from broker.domain.ids import ClientId
from broker.domain.policy.document import IssuerTrust, Principal
from broker.domain.tokens.claims import MAX_ACT_BYTES, MAX_ACTORS, count_actors


@dataclass(frozen=True, slots=True)
class Subject:
    """A verified subject token's facts. expires_at: Unix seconds, rounded down."""

    issuer: str
    account: str
    agent_issuer: str
    agent: str
    act: JsonObject
    claims: Mapping[str, frozenset[str]]
    expires_at: int
    may_act: JsonValue = None

    def principal(self, client: ClientId) -> Principal:
        """Whom a decision is about, when this subject comes through this client."""
        return Principal(
            account_issuer=self.issuer,
            account=self.account,
            agent_issuer=self.agent_issuer,
            agent=self.agent,
            client=client,
            claims=self.claims,
            expires_at=self.expires_at,
        )


def read_subject(claims: JsonObject, trust: IssuerTrust) -> Subject | Refusal:
    """The subject of verified claims, without an actor token."""
    account = _name(claims.get(trust.claims.account))
    if account is None:
        return _lacking(trust.claims.account, "the claim that names the account")
    act = claims.get("act")
    if act is not None:
        refusal = _check_act(act)
        if refusal is not None:
            return refusal
        assert isinstance(act, dict)
        chain: JsonObject = {"iss": act.get("iss", trust.issuer), **act}
    else:
        names = [trust.claims.agent] if trust.claims.agent else ["client_id", "azp"]
        agent = next((found for found in (_name(claims.get(name)) for name in names) if found is not None), None)
        if agent is None:
            return _lacking(names[0], "the claim that names the agent; act, client_id or azp")
        chain = {"iss": trust.issuer, "sub": agent}
    return Subject(
        issuer=trust.issuer,
        account=account,
        agent_issuer=str(chain["iss"]),
        agent=str(chain["sub"]),
        act=chain,
        claims={name: _values(claims.get(claim)) for name, claim in trust.claims.others.items()},
        expires_at=int(claims["exp"]),  # type: ignore[arg-type]  # verify_claims saw to it
        may_act=claims.get("may_act"),
    )


def with_actor(subject: Subject, actor: Subject) -> Subject | Refusal:
    """The subject with the actor token's subject as its agent (rules 2–4)."""
    allowed = subject.may_act
    if allowed is not None:
        named = isinstance(allowed, dict) and allowed.get("sub") == actor.account
        if not named or (isinstance(allowed, dict) and allowed.get("iss", actor.issuer) != actor.issuer):
            return Refusal(
                Reason.TOKEN_CLAIM_INVALID, "may_act of the subject token names another actor", where="actor_token"
            )
    chain: JsonObject = {"iss": actor.issuer, "sub": actor.account, "act": subject.act}
    refusal = _check_act(chain)
    if refusal is not None:
        return refusal
    return replace(
        subject,
        agent_issuer=actor.issuer,
        agent=actor.account,
        act=chain,
        expires_at=min(subject.expires_at, actor.expires_at),
    )


def _check_act(act: JsonValue) -> Refusal | None:
    node, count = act, 0
    while isinstance(node, dict) and count <= MAX_ACTORS:
        if _name(node.get("sub")) is None or not isinstance(node.get("iss", ""), str):
            return _wrong_act("each actor is an object with sub, and iss where it is another issuer's")
        count += 1
        node = node.get("act")
    if node is not None and not isinstance(node, dict):
        return _wrong_act("each actor is an object with sub, and iss where it is another issuer's")
    if count_actors(act) > MAX_ACTORS:
        return _wrong_act(f"at most {MAX_ACTORS} nested actors are accepted")
    if len(canonical_json(act)) > MAX_ACT_BYTES:
        return _wrong_act(f"at most {MAX_ACT_BYTES} bytes are accepted")
    return None


def _wrong_act(detail: str) -> Refusal:
    return Refusal(Reason.TOKEN_CLAIM_INVALID, detail, where="act")


def _lacking(claim: str, what: str) -> Refusal:
    return Refusal(Reason.TOKEN_CLAIM_MISSING, f"expected: {what}", where=claim)


def _name(value: JsonValue) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= 255 and value.isprintable() else None


def _values(value: JsonValue) -> frozenset[str]:
    if isinstance(value, str):
        return frozenset({value})
    if isinstance(value, list):
        return frozenset(item for item in value if isinstance(item, str))
    return frozenset()
