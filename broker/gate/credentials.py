"""A credential that is presented: verified once, then remembered by the digest of its token.

| each time                                                                       | only where the token is new, or its key |
|---------------------------------------------------------------------------------|-----------------------------------------|
| the broker has its key now; times; not revoked, its versions served (`standing`) | form, header, signature, claims         |

1. Remembered is what was verified, never that it may be accepted: that is asked of the feed, or of the broker, each time.
2. At most `MAX_REMEMBERED` tokens, the one not seen for longest goes first. Tokens themselves are not kept.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from broker.domain.errors import Reason, Refusal
from broker.domain.policy.document import KeySource
from broker.domain.revocation.scopes import RevocationScope
from broker.domain.revocation.view import Standing
from broker.domain.tokens.claims import MAX_LIFETIME_SECONDS, TYPE, Credential, read_credential
from broker.domain.tokens.keys import VerificationKey
from broker.domain.tokens.verify import Expectation, Header, check_header, verify_claims
from broker.engines import jws
from broker.gate.broker_http import BrokerUnreachableError
from broker.gate.follower import Follower
from broker.ports.keys import KeySets

LEEWAY_SECONDS: Final = 10
ALGORITHMS: Final = ("ES256", "RS256", "EdDSA")
MAX_REMEMBERED: Final = 8_192
DEAD: Final = {
    Standing.REVOKED: "it was revoked",
    Standing.NOT_SERVED: "its tool version is not served any more",
    Standing.OTHER_GEN: "it is from before the broker's store was claimed anew: get a new one",
}
"""What the holder of a dead credential is told; the other standings but `ALIVE` are no answer about it."""


class Presented:
    """A credential whose signature and claims were verified, and what a revocation of it would be aimed at."""

    __slots__ = ("_keys", "_kid", "_scopes", "_versions", "credential")

    def __init__(self, credential: Credential, *, kid: str) -> None:
        self.credential = credential
        self._kid = kid
        self._scopes: tuple[RevocationScope, ...] | None = None
        self._versions = credential.version_ids
        self._keys = credential.key_scopes(kid)

    def scopes(self) -> tuple[RevocationScope, ...]:
        """All its revocation scopes."""
        if self._scopes is None:
            self._scopes = self.credential.revocation_scopes(self._kid)
        return self._scopes

    def standing(self, follower: Follower) -> Standing:
        """What the feed says of it now; `UNKNOWN` where it would be alive, but no lease is held."""
        credential = self.credential
        found = follower.view.judge(
            gen=credential.gen,
            rseq=credential.rseq,
            keys=self._keys,
            versions=self._versions,
            scopes=self.scopes,
        )
        if found is Standing.ALIVE and not follower.is_fresh():
            return Standing.UNKNOWN
        return found


class CredentialReader:
    """Reads the credentials of one broker for one audience.

    Raises `BrokerUnreachableError` where the broker's keys cannot be had.
    """

    def __init__(
        self,
        keys: KeySets,
        source: KeySource,
        *,
        issuer: str,
        audience: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._keys = keys
        self._source = source
        self._expectation = Expectation(
            issuer=issuer,
            audiences=(audience,),
            leeway_seconds=LEEWAY_SECONDS,
            max_lifetime_seconds=MAX_LIFETIME_SECONDS,
        )
        self._clock = clock
        self._remembered: OrderedDict[bytes, tuple[Presented, Header, VerificationKey]] = OrderedDict()

    async def read(self, token: str) -> Presented | Refusal:
        """The credential in a token, or why it is none."""
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        known = self._remembered.get(digest)
        if known is not None:
            presented, header, key = known
            found = await self._find(header)
            if isinstance(found, Refusal):
                return found
            if found is key or found == key:
                self._remembered.move_to_end(digest)
                return self._in_time(presented)
        return await self._verify(token, digest)

    async def _verify(self, token: str, digest: bytes) -> Presented | Refusal:
        unverified = jws.read_unverified(token)
        if isinstance(unverified, Refusal):
            return unverified
        header = unverified.header
        refusal = check_header(header, algorithms=ALGORITHMS, types=(TYPE,))
        if refusal is not None:
            return refusal
        key = await self._find(header)
        if isinstance(key, Refusal):
            return key
        claims = jws.verify(unverified, key)
        if isinstance(claims, Refusal):
            return claims
        verified = verify_claims(claims, self._expectation, now=int(self._clock()))
        if isinstance(verified, Refusal):
            return verified
        credential = read_credential({**claims, "aud": verified.audience})
        if isinstance(credential, Refusal):
            return credential
        if key.kid is None:  # it could not be revoked
            return Refusal(Reason.TOKEN_KEY_UNKNOWN, "the broker's key has no kid", where="kid")
        presented = Presented(credential, kid=key.kid)
        self._remembered[digest] = (presented, header, key)
        while len(self._remembered) > MAX_REMEMBERED:
            self._remembered.popitem(last=False)
        return presented

    async def _find(self, header: Header) -> VerificationKey | Refusal:
        key = await self._keys.find(self._source, kid=header.kid, algorithm=header.algorithm)
        if isinstance(key, Refusal) and key.reason is Reason.TOKEN_KEYS_UNAVAILABLE:
            raise BrokerUnreachableError("its keys cannot be had")
        return key

    def _in_time(self, presented: Presented) -> Presented | Refusal:
        """Of what was verified before, only time can have changed."""
        if presented.credential.expires_at <= int(self._clock()) - LEEWAY_SECONDS:
            return Refusal(Reason.TOKEN_EXPIRED, "the token has expired: get a new one", where="exp")
        return presented
