"""A credential that is exchanged, before the store: what it and all that it comes from must still be, and what it says if not."""

from __future__ import annotations

from broker.domain.errors import Reason, Refusal
from broker.domain.tokens.claims import KnownCredential
from broker.domain.tokens.delegation import ancestors_of_child
from broker.ports.store import Ancestor


def ancestors_to_judge(parent: KnownCredential | None) -> tuple[Ancestor, ...]:
    """The parent and all that it comes from, as the store must find them in the step that mints; the parent last."""
    if parent is None:
        return ()
    credential = parent.credential
    scopes = (*credential.ancestor_scopes(), credential.own_scopes(parent.kid))
    return tuple(
        Ancestor(one.jti, credential.gen, one.rseq, one.version_id, standing_in)
        for one, standing_in in zip(ancestors_of_child(parent), scopes, strict=True)
    )


def ancestor_dead() -> Refusal:
    """The store found one of them dead."""
    return Refusal(
        Reason.SUBJECT_CREDENTIAL_DEAD,
        "it, or what it was delegated from, was revoked or given back, or is of a version that is no longer served",
        where="subject_token",
    )


def parent_used_up() -> Refusal:
    """The store found no use of the parent left."""
    return Refusal(
        Reason.SUBJECT_CREDENTIAL_USED_UP,
        "its task allows a number of uses, of which each exchange is one",
        where="subject_token",
    )
