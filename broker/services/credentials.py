"""The broker's own credentials, read back.

1. Signature by one of the broker's keys, by `kid`; then claims as for any token: exact `iss`, one `aud`, times.
2. What was verified once is kept, under the SHA-256 of the token, until it expires: a signature does not change. Whether the
   credential is *active* is never kept; that is asked of the store each time.
"""

from __future__ import annotations

from broker.domain.errors import Reason, Refusal
from broker.domain.tokens.claims import MAX_LIFETIME_SECONDS, TYPE, KnownCredential, read_credential
from broker.domain.tokens.verify import Expectation, check_header, verify_claims
from broker.ports.keys import Signer
from broker.ports.system import Clock
from broker.ports.tokens import TokenReader
from broker.services.remembered import Remembered


class Credentials:
    """Reads credentials of this broker, `issuer`; one for a process."""

    def __init__(self, *, issuer: str, reader: TokenReader, signer: Signer, clock: Clock) -> None:
        self.issuer = issuer
        self._reader = reader
        self._signer = signer
        self._clock = clock
        self._known: Remembered[KnownCredential] = Remembered()

    def remember(self, token: str, known: KnownCredential) -> None:
        """A credential that this process has just signed."""
        self._known.keep(token, known)

    def read(self, token: str, *, leeway_seconds: int) -> KnownCredential | Refusal:
        """The credential in a token, or why it is none that is valid at this time."""
        known = self._known.get(token)
        if known is None:
            verified = self._verify(token, leeway_seconds)
            if isinstance(verified, Refusal):
                return verified
            self._known.keep(token, verified)
            return verified
        if self._signer.verification_key(known.kid) is None:
            self._known.drop(token)
            return Refusal(Reason.TOKEN_KEY_UNKNOWN, "the signing key is no longer published", where="kid")
        if known.credential.expires_at + leeway_seconds <= self._clock.now():
            self._known.drop(token)
            return Refusal(Reason.TOKEN_EXPIRED, "the credential has expired; exchange again", where="exp")
        return known

    def _verify(self, text: str, leeway_seconds: int) -> KnownCredential | Refusal:
        token = self._reader.read_unverified(text)
        if isinstance(token, Refusal):
            return token
        key = self._signer.verification_key(token.header.kid or "")
        if key is None or token.header.kid is None:
            return Refusal(
                Reason.TOKEN_KEY_UNKNOWN, "a token signed with a key of this broker was expected", where="kid"
            )
        refused = check_header(token.header, algorithms=(key.algorithm,), types=(TYPE,))
        if refused is not None:
            return refused
        claims = self._reader.verify(token, key)
        if isinstance(claims, Refusal):
            return claims
        # any one audience: who may ask about the credential is decided by its audience, not the other way round
        audience = claims.get("aud")
        if isinstance(audience, list) and len(audience) == 1:
            audience = audience[0]
        verified = verify_claims(
            claims,
            Expectation(
                issuer=self.issuer,
                audiences=(audience,) if isinstance(audience, str) else (),
                leeway_seconds=leeway_seconds,
                max_lifetime_seconds=MAX_LIFETIME_SECONDS,
            ),
            now=self._clock.now(),
        )
        if isinstance(verified, Refusal):
            return verified
        credential = read_credential(claims)
        if isinstance(credential, Refusal):
            return credential
        return KnownCredential(credential, token.header.kid)
