"""What an exchange grants, as the credential that will be signed."""

from __future__ import annotations

from dataclasses import dataclass

from broker.domain.tokens.claims import Credential, digest_of_spelled
from broker.domain.tokens.delegation import ancestors_of_child
from broker.ports.store import Issued
from broker.services.decision import Asked, Decided


@dataclass(frozen=True, slots=True)
class Bounds:
    """The credential's name and life. Instants in Unix seconds."""

    issued_at: int
    expires_at: int
    jti: str
    txn: str


def credential_of(asked: Asked, decided: Decided, bounds: Bounds, issued: Issued, *, issuer: str) -> Credential:
    """The credential, once the store has said at which logical time it was issued."""
    permit, subject, record = decided.permit, asked.subject, decided.record
    arguments, parent = asked.request.detail.arguments_spelled, subject.parent
    return Credential(
        issuer=issuer,
        audience=permit.audience,
        account_issuer=subject.issuer,
        account=subject.account,
        client=asked.client.client_id,
        act=subject.act,
        tool=record.tool,
        version=record.version,
        contract=record.contract,
        task=permit.task,
        scopes=permit.scopes,
        policy=record.policy,
        issued_at=bounds.issued_at,
        expires_at=bounds.expires_at,
        jti=bounds.jti,
        txn=bounds.txn,
        chain=bounds.jti if parent is None else parent.credential.chain,
        gen=issued.gen,
        rseq=issued.rseq,
        uses=permit.uses,
        online=permit.online or (parent is not None and parent.credential.online),
        arguments_digest=None if arguments is None else digest_of_spelled(bounds.jti, arguments),
        ancestors=() if parent is None else ancestors_of_child(parent),
    )
