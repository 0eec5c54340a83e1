"""Reading and believing tokens: framing and signature, without knowing the library."""

from __future__ import annotations

from typing import Protocol

from broker.domain.canonical import JsonObject
from broker.domain.errors import Refusal
from broker.domain.tokens.keys import VerificationKey
from broker.domain.tokens.verify import Header


class Unverified(Protocol):
    """A token that is well formed and nothing more."""

    @property
    def header(self) -> Header: ...


class TokenReader(Protocol):
    """Compact JWS (RFC 7515 §7.1)."""

    def read_unverified(self, token: str) -> Unverified | Refusal:
        """Take a token apart; nothing in it may be believed yet."""
        ...

    def unverified_issuer(self, token: Unverified) -> str | None:
        """The `iss` that it claims, to choose whose keys to ask."""
        ...

    def verify(self, token: Unverified, key: VerificationKey) -> JsonObject | Refusal:
        """Its claims, if the key made the signature."""
        ...
