"""Public keys, and which of them may judge a token.

1. One key, one algorithm (RFC 8725 §3.1): the key says how a signature is checked, never the token. A JWK that could
   serve two algorithms is two `VerificationKey`s.
2. A token with a `kid` is judged by the one key with that `kid` and its algorithm; there is no fallback.
3. A token without a `kid` is judged by the one key of its algorithm; where there are several, by none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from broker.domain.errors import Reason, Refusal


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """A public key bound to one algorithm. `key` is opaque here: the engine made it, the engine uses it."""

    kid: str | None
    algorithm: str
    key: object = field(repr=False)


@dataclass(frozen=True, slots=True)
class KeySet:
    """The usable keys of one JWK Set. skipped: what else stood in it and why it is no use here, for the operator."""

    keys: tuple[VerificationKey, ...]
    skipped: tuple[str, ...] = ()
    _by_name: Mapping[tuple[str | None, str], VerificationKey] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {(key.kid, key.algorithm): key for key in self.keys})

    def find(self, *, kid: str | None, algorithm: str) -> VerificationKey | Refusal:
        """The one key that fits (rules 2 and 3), or `TOKEN_KEY_UNKNOWN`."""
        if kid is not None:
            found = self._by_name.get((kid, algorithm))
            if found is not None:
                return found
            return Refusal(Reason.TOKEN_KEY_UNKNOWN, "the issuer has no key of this kid and algorithm", where="kid")
        fitting = [key for key in self.keys if key.algorithm == algorithm]
        if len(fitting) == 1:
            return fitting[0]
        return Refusal(
            Reason.TOKEN_KEY_UNKNOWN,
            "the token has no kid, and the issuer has not exactly one key of its algorithm",
            where="kid",
        )


@dataclass(frozen=True, slots=True)
class JwksError:
    """A JWK Set that is not used. problem: what is wrong with it, for the operator; no key material."""

    problem: str
