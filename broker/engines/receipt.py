"""Whether a signed receipt is one: with the broker's public keys alone, whenever and wherever that is asked.

1. A compact JWS of at most `MAX_RECEIPT_BYTES`, whose `typ` is that of a receipt and of nothing else.
2. Its `kid` is one of the keys given, and that key made the signature with the key's own algorithm.
3. Its claims are those of a receipt, all of them.

It has no expiry: what it says was so when it was signed stays true.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from broker.domain.errors import Reason, Refusal
from broker.domain.policy.document import ALGORITHMS
from broker.domain.revocation.statement import TYPE, Statement, StatementError, read_statement
from broker.domain.tokens.keys import KeySet
from broker.domain.tokens.verify import check_header
from broker.engines.jws import read_unverified, verify

MAX_RECEIPT_BYTES: Final = 65_535


@dataclass(frozen=True, slots=True)
class VerifiedReceipt:
    """What a receipt says, and the key that signed it."""

    statement: Statement
    kid: str


def verify_receipt(text: str, keys: KeySet) -> VerifiedReceipt | Refusal:
    """The receipt, if one of the keys signed it."""
    token = read_unverified(text, limit=MAX_RECEIPT_BYTES)
    if isinstance(token, Refusal):
        return token
    header = token.header
    refused = check_header(header, algorithms=tuple(ALGORITHMS), types=(TYPE,))
    if refused is not None:
        return refused
    if header.kid is None:
        return Refusal(Reason.TOKEN_KEY_UNKNOWN, "a receipt names the key that signed it", where="kid")
    key = keys.find(kid=header.kid, algorithm=header.algorithm)
    if isinstance(key, Refusal):
        return key
    claims = verify(token, key)
    if isinstance(claims, Refusal):
        return claims
    try:
        return VerifiedReceipt(read_statement(claims), header.kid)
    except StatementError as error:
        return Refusal(Reason.TOKEN_CLAIM_INVALID, str(error))
