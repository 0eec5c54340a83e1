"""Delegation: a credential of this broker as the subject token of an exchange (RFC 8693 §1.1, §4.1; DESIGN §2, §3).

The parent is the credential that is presented, the child the one that is asked for.

| of the child   | is                                                                                                     |
|----------------|--------------------------------------------------------------------------------------------------------|
| account        | the parent's, with its issuer                                                                          |
| agent          | the parent's client, at this broker: it spends the parent. With an actor token, that token's subject    |
| act            | the agent, with the parent's `act` inside: at most `MAX_ACTORS` actors; with `ancestors` at most 8 KiB  |
| policy claims  | none: a credential does not carry them. Tasks that ask for claims are closed to a delegated call         |
| ceilings       | of the account's issuer, of the issuer of every agent of the chain, of every client of the chain         |
| tool, version  | any tool but a chain's own in another version: nobody comes to a version by way of another one           |
| scopes         | what policy grants, each of which the parent holds; one that it lacks refuses the whole, never narrows   |
| exp            | no later than the parent's                                                                             |
| txn            | the parent's: it is one logical call. A detail that states another is refused                            |
| chain          | the parent's: the `jti` of the first credential                                                        |
| ancestors      | the parent's, then the parent                                                                          |

Whether the parent and its ancestors are alive is not decided here but in the store, in the step that mints.
"""

from __future__ import annotations

from typing import Final

from broker.domain.canonical import canonical_json
from broker.domain.errors import Reason, Refusal
from broker.domain.ids import ToolName, Version
from broker.domain.scopes import ScopeSet, spell_scopes
from broker.domain.tokens.ancestors import Ancestor, spell_ancestors
from broker.domain.tokens.claims import MAX_ACT_BYTES, KnownCredential
from broker.domain.tokens.subject import Actor, Subject, chain_of, check_act

_SUBJECT: Final = "subject_token"


def read_delegated(parent: KnownCredential, actor: Actor | None = None) -> Subject | Refusal:
    """Whom a credential speaks of when it is exchanged; refused where its chain is too long for one more."""
    credential = parent.credential
    agent = (actor.issuer, actor.name) if actor is not None else (credential.issuer, str(credential.client))
    act = chain_of(*agent, earlier=credential.act)
    refused = check_act(act)
    if refused is not None:
        return refused
    size = len(canonical_json({"act": act, "ancestors": spell_ancestors(ancestors_of_child(parent))}))
    if size > MAX_ACT_BYTES:
        return Refusal(
            Reason.TOKEN_CLAIM_INVALID,
            f"at most {MAX_ACT_BYTES} bytes of actors and ancestors are accepted",
            where="act",
        )
    return Subject(
        issuer=credential.account_issuer,
        account=credential.account,
        agent_issuer=agent[0],
        agent=agent[1],
        act=act,
        claims={},
        expires_at=credential.expires_at if actor is None else min(credential.expires_at, actor.expires_at),
        parent=parent,
    )


def ancestors_of_child(parent: KnownCredential) -> tuple[Ancestor, ...]:
    """The ancestors of a credential that is delegated from this one."""
    credential = parent.credential
    own = Ancestor(
        jti=credential.jti,
        kid=parent.kid,
        client=credential.client,
        tool=credential.tool,
        version=credential.version,
        policy=credential.policy,
        rseq=credential.rseq,
    )
    return (*credential.ancestors, own)


def check_version(parent: KnownCredential, *, tool: ToolName, version: Version) -> Refusal | None:
    """Whether a credential may be exchanged for this version."""
    for one in ancestors_of_child(parent):
        if one.tool == tool and one.version != version:
            return Refusal(
                Reason.VERSION_NOT_DELEGATED,
                f"the subject credential comes from {one.version_id}; it leads to no other version of {tool}",
                where="authorization_details/0/version",
            )
    return None


def check_scopes(parent: KnownCredential, scopes: ScopeSet) -> Refusal | None:
    """Whether the parent holds all these scopes, literally."""
    wider = scopes - parent.credential.scopes
    if not wider:
        return None
    return Refusal(
        Reason.SCOPE_BEYOND_SUBJECT,
        f"the subject credential lacks {spell_scopes(wider)}; a credential leads to no scope that it does not hold itself",
        where="scope",
        why=f"{parent.credential.jti} holds {spell_scopes(parent.credential.scopes)}",
    )


def check_transaction(parent: KnownCredential, asked: str | None) -> Refusal | None:
    """Whether the call that is stated, if one is, is the parent's."""
    if asked in (None, parent.credential.txn):
        return None
    return Refusal(
        Reason.TRANSACTION_MISMATCH,
        "a delegated call has the txn of the subject credential; state that, or leave txn out",
        where="authorization_details/0/txn",
    )
