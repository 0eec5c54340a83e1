"""Keys: those the broker signs with, and those of the issuers and clients that it believes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from broker.domain.canonical import JsonObject
from broker.domain.errors import Refusal
from broker.domain.policy.document import KeySource
from broker.domain.tokens.keys import VerificationKey


class Signer(Protocol):
    """The broker's own signing keys."""

    @property
    def kid(self) -> str:
        """The key that signs now."""
        ...

    def sign(self, claims: JsonObject, *, kid: str | None = None) -> str:
        """A compact JWS (`typ: at+jwt`) over the claims, with the current key, or with the one that is named.

        Raises `SigningUnavailableError` where that was retired: what was written down to be signed with it is not signed.
        """
        ...

    def sign_as(self, kind: str, claims: JsonObject) -> str:
        """A compact JWS whose `typ` is `kind`, with the current key: a statement that can be taken for no credential."""
        ...

    def jwks(self) -> JsonObject:
        """The public keys as a JWK Set (RFC 7517 §5), current and still valid ones."""
        ...

    def retire(self, kid: str) -> None:
        """Give up a revoked key, for ever and over restarts: it signs nothing, verifies nothing, is published no more.

        Does nothing for a key that is given up already. Blocks. Where it was the key that signs, another signs from now on.
        """
        ...

    def verification_key(self, kid: str) -> VerificationKey | None:
        """One of the broker's own public keys."""
        ...


@dataclass(frozen=True, slots=True)
class CreatedKey:
    """A key that was made. use: `sig`, or `audit` for the argument digests."""

    kid: str
    algorithm: str
    use: str


@dataclass(frozen=True, slots=True)
class RetiredKey:
    """A key that was given up. why: as in the audit record."""

    kid: str
    why: str


@dataclass(frozen=True, slots=True)
class KeyState:
    """A signing key. state: `signs`, `verifies` or `retired`; of a retired one no more than its `kid` is known."""

    kid: str
    algorithm: str | None
    number: int | None
    state: str


class KeyRing(Protocol):
    """The keys behind a signer, which several processes share."""

    def states(self) -> Sequence[KeyState]:
        """All signing keys."""
        ...

    def rotate(self) -> str:
        """Make a new key, which signs from now on, and give its `kid`; the older ones still verify. Blocks.

        Raises `SigningUnavailableError` where none can be made.
        """
        ...

    def refresh(self) -> None:
        """See what other processes did."""
        ...

    def take_notes(self) -> Sequence[CreatedKey | RetiredKey]:
        """What this process did since this was last asked, for the audit log."""
        ...


class KeySets(Protocol):
    """JWK Sets from a file or URL.

    1. A set that was good is kept when a refresh fails, for a stated time and no longer.
    2. An unknown `kid` causes at most one fetch a cooldown.
    3. A body is read up to a stated size; redirects are not followed.
    """

    async def find(self, source: KeySource, *, kid: str | None, algorithm: str) -> VerificationKey | Refusal:
        """The one key that fits. Refused: `TOKEN_KEY_UNKNOWN`, or `TOKEN_KEYS_UNAVAILABLE` where no set is known."""
        ...
