"""Who a subject token speaks of: account, agent, and the claims that policy asks for.

1. account: the claim that `trust.yaml` names, `sub` by default.
2. agent: the actor token's subject; else the subject token's own actor (`act.sub`); else the claim that `trust.yaml` names;
   else `client_id`, else `azp` (RFC 9068 §2.2, OpenID Connect Core §2). None of them: refused, an agent is never unknown.
3. act: the agent, with the subject token's earlier actors inside it (RFC 8693 §4.1), at most 10 deep and 8 KiB. An actor
   token needs no agent of its own, and with one the subject token needs none.
4. may_act in the subject token (RFC 8693 §4.4) names who may act: the actor token's subject; without an actor token, the
   client that presents the subject token, or the agent that the token itself names. Nobody else: refused.
5. A policy claim is a string, or an array of strings; anything else counts as no value.

A credential of this broker as subject token is read by `delegation.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from broker.domain.canonical import JsonError, JsonObject, JsonValue, canonical_json
from broker.domain.errors import Reason, Refusal
from broker.domain.ids import ClientId
from broker.domain.policy.document import Bounds, IssuerTrust, Principal
from broker.domain.tokens.ancestors import MAX_ACTORS, agents_of, count_actors
from broker.domain.tokens.claims import MAX_ACT_BYTES, KnownCredential


@dataclass(frozen=True, slots=True)
class Subject:
    """A verified subject token's facts. expires_at: Unix seconds, rounded down. parent: the token, where it is a credential."""

    issuer: str
    account: str
    agent_issuer: str
    agent: str
    act: JsonObject
    claims: Mapping[str, frozenset[str]]
    expires_at: int
    parent: KnownCredential | None = None

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
            bounded_by=None if self.parent is None else self._bounds(self.parent),
        )

    def _bounds(self, parent: KnownCredential) -> Bounds:
        """Whose ceilings hold for what is delegated from this credential: everybody's who had a part in it."""
        credential = parent.credential
        agents = agents_of(self.act, len(credential.ancestors) + 1) or ()
        issuers = (self.issuer, self.agent_issuer, *(issuer for issuer, _ in agents))
        return Bounds(
            # an agent at this broker is one of its clients, whose own ceilings are meant
            issuers=tuple(dict.fromkeys(issuer for issuer in issuers if issuer != credential.issuer)),
            clients=tuple(dict.fromkeys((*(one.client for one in credential.ancestors), credential.client))),
        )


@dataclass(frozen=True, slots=True)
class Actor:
    """Who a verified actor token speaks of. expires_at: Unix seconds, rounded down."""

    issuer: str
    name: str
    expires_at: int


@dataclass(frozen=True, slots=True)
class Presenter:
    """A client of this broker. issuer: the broker."""

    issuer: str
    client: ClientId


def read_actor(claims: JsonObject, trust: IssuerTrust) -> Actor | Refusal:
    """The actor of verified claims."""
    name = _name(claims.get(trust.claims.account))
    if name is None:
        return _lacking(trust.claims.account, "the claim that names the actor")
    return Actor(issuer=trust.issuer, name=name, expires_at=_expiry(claims))


def read_subject(
    claims: JsonObject, trust: IssuerTrust, actor: Actor | None = None, *, presenter: Presenter | None = None
) -> Subject | Refusal:
    """The subject of verified claims, with the actor token's subject as its agent where there is one (rules 1 to 4).

    presenter: the client that presents the token; None where that is not asked, as at a server that only routes calls.
    """
    account = _name(claims.get(trust.claims.account))
    if account is None:
        return _lacking(trust.claims.account, "the claim that names the account")
    earlier = _own_agent(claims, trust)
    if isinstance(earlier, Refusal):
        return earlier
    if actor is not None:
        chain = chain_of(actor.issuer, actor.name, earlier=earlier)
        refused = _check_may_act(claims.get("may_act"), ((actor.issuer, actor.name),), trust) or check_act(chain)
        if refused is not None:
            return refused
    elif earlier is not None:
        chain = earlier
        if presenter is not None:
            # a may_act that names no issuer may mean the client by the name that it has here
            parties = (presenter.issuer, presenter.client), (trust.issuer, presenter.client), _outermost(chain)
            refused = _check_may_act(claims.get("may_act"), parties, trust)
            if refused is not None:
                return refused
    else:
        return _lacking(_agent_claims(trust)[0], "the claim that names the agent; act, client_id or azp")
    return Subject(
        issuer=trust.issuer,
        account=account,
        agent_issuer=str(chain["iss"]),
        agent=str(chain["sub"]),
        act=chain,
        claims={name: _values(claims.get(claim)) for name, claim in trust.claims.others.items()},
        expires_at=min(_expiry(claims), actor.expires_at) if actor is not None else _expiry(claims),
    )


def _own_agent(claims: JsonObject, trust: IssuerTrust) -> JsonObject | Refusal | None:
    """The agent that the subject token itself names, as an act claim."""
    act = claims.get("act")
    if act is None:
        found = (_name(claims.get(name)) for name in _agent_claims(trust))
        agent = next((name for name in found if name is not None), None)
        return None if agent is None else {"iss": trust.issuer, "sub": agent}
    refused = check_act(act)
    if refused is not None:
        return refused
    assert isinstance(act, dict)
    return {"iss": trust.issuer, **act}


def _agent_claims(trust: IssuerTrust) -> list[str]:
    return [trust.claims.agent] if trust.claims.agent else ["client_id", "azp"]


def _expiry(claims: JsonObject) -> int:
    return int(claims["exp"])  # type: ignore[arg-type]  # verify_claims saw to it


def chain_of(issuer: str, name: str, *, earlier: JsonObject | None) -> JsonObject:
    """An `act` claim: this actor, with those of before inside."""
    chain: JsonObject = {"iss": issuer, "sub": name}
    return chain if earlier is None else {**chain, "act": earlier}


def _outermost(chain: JsonObject) -> tuple[str, str]:
    return str(chain["iss"]), str(chain["sub"])


def _check_may_act(allowed: JsonValue, parties: Collection[tuple[str, str]], trust: IssuerTrust) -> Refusal | None:
    if allowed is None:
        return None
    # an issuer that the claim leaves out is the subject token's own
    if isinstance(allowed, dict) and (allowed.get("iss", trust.issuer), allowed.get("sub")) in parties:
        return None
    return Refusal(Reason.TOKEN_CLAIM_INVALID, "the subject token's may_act names another actor", where="may_act")


def check_act(act: JsonValue) -> Refusal | None:
    """Whether an `act` claim is of its form, and not too long (rule 3)."""
    node, count = act, 0
    while isinstance(node, dict) and count <= MAX_ACTORS:
        issuer = node.get("iss", "")
        if _name(node.get("sub")) is None or not isinstance(issuer, str) or not issuer.isprintable():
            return _wrong_act("each actor is an object with sub, and iss where it is another issuer's")
        count += 1
        node = node.get("act")
    if node is not None and not isinstance(node, dict):
        return _wrong_act("each actor is an object with sub, and iss where it is another issuer's")
    if count_actors(act) > MAX_ACTORS:
        return _wrong_act(f"at most {MAX_ACTORS} nested actors are accepted")
    try:
        size = len(canonical_json(act))
    except JsonError as error:
        return _wrong_act(f"it has no canonical spelling (RFC 8785): {error}")
    return _wrong_act(f"at most {MAX_ACT_BYTES} bytes are accepted") if size > MAX_ACT_BYTES else None


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
