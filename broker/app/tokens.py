"""`ports.tokens.TokenReader` on the JWS engine."""

from __future__ import annotations

from broker.domain.canonical import JsonObject
from broker.domain.errors import Refusal
from broker.domain.tokens.keys import VerificationKey
from broker.engines import jws
from broker.ports.tokens import Unverified


class JwsReader:
    """Takes tokens apart and verifies them."""

    __slots__ = ()

    def read_unverified(self, token: str) -> Unverified | Refusal:
        made = jws.read_unverified(token)
        if isinstance(made, Refusal):
            return made
        claims = made.unverified_claims()  # whose keys to ask is in there, so it is read in any case
        return claims if isinstance(claims, Refusal) else made

    def unverified_issuer(self, token: Unverified) -> str | None:
        assert isinstance(token, jws.UnverifiedToken)  # made by read_unverified
        return jws.unverified_issuer(token)

    def verify(self, token: Unverified, key: VerificationKey) -> JsonObject | Refusal:
        assert isinstance(token, jws.UnverifiedToken)  # made by read_unverified
        return jws.verify(token, key)
