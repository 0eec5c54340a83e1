"""Keys: everything of a tenant under one hash tag, so in one slot, so within reach of one atomic function.

| key                     | type   | holds                                                            | lives     |
|-------------------------|--------|------------------------------------------------------------------|-----------|
| `{brk:T}:ctl`           | hash   | fmt, gen, rid, seq, gseq, nonce: the logical clock and the claim | for ever  |
| `{brk:T}:st`            | hash   | tool@version → state                                             | for ever  |
| `{brk:T}:ver`           | hash   | tool@version → version record                                    | for ever  |
| `{brk:T}:rev`           | hash   | revocation scope → seq                                           | for ever  |
| `{brk:T}:out`           | hash   | gseq → step whose audit record is not known to be durable        | for ever  |
| `{brk:T}:feed`          | stream | seq-0 → one step that moved seq; about the last thousand         | for ever  |
| `{brk:T}:lea`           | hash   | verifier → client, how far it has got, number of its last lease  | for ever  |
| `{brk:T}c<16 bytes>`    | string | credential record, under the raw bytes of its `jti`              | to expiry |
| `{brk:T}:a:<assertion>` | string | a used-up client assertion → id of the call that used it         | to expiry |
| `{brk:T}:i:<id>`        | string | idempotency id → the answer that was given                       | 24 h      |

A credential's key is spelled as short as can be: with a tenant of up to seven letters it has 30 bytes, which Redis 7 keeps
in 32, and one more would cost it 48.

Only what may be forgotten has a time to live: a revocation never has one, and nothing is valid because a key is absent.
Tenants cannot hold braces (`domain/ids.py`), so the tag ends where it should, whatever follows it.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

from broker.domain.ids import parse_tenant

JTI_BYTES = 16


@dataclass(frozen=True, slots=True)
class TenantKeys:
    """The keys of one tenant; the last three are what a name is appended to."""

    control: bytes
    states: bytes
    versions: bytes
    marks: bytes
    outbox: bytes
    feed: bytes
    leases: bytes
    credential: bytes
    assertion: bytes
    idempotency: bytes


def tenant_keys(tenant: str) -> TenantKeys:
    """The keys of a tenant. Raises `ValueError` where the name is none."""
    if parse_tenant(tenant) is None:
        raise ValueError("not a tenant name")
    tag = b"{brk:%b}" % tenant.encode("ascii")
    names = (b":ctl", b":st", b":ver", b":rev", b":out", b":feed", b":lea", b"c", b":a:", b":i:")
    return TenantKeys(*(tag + name for name in names))


def raw_jti(jti: str) -> bytes | None:
    """The 16 bytes that a `jti` spells, None where it spells none; a credential has one spelling only."""
    if len(jti) != 22:
        return None
    try:
        raw = base64.urlsafe_b64decode(jti + "==")
    except (binascii.Error, ValueError):
        return None
    return raw if len(raw) == JTI_BYTES and base64.urlsafe_b64encode(raw)[:22] == jti.encode("ascii") else None
