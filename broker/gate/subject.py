"""The caller's own token at the MCP server: believed or not, by the same code as at the broker.

1. The issuer is one of those given, by exact `iss`; algorithm and `typ` are among those it is trusted with.
2. The key is the issuer's, by `kid`; then the signature; then the claims, for this server's resource and no other.
3. Who the caller is (account, agent) is read as the broker reads it, so that both route it to the same version. A token of
   the broker itself is a credential: this server is where a gated tool spends it, and the call is the tool's call.
4. A credential must also be alive, by the broker's feed where this server follows it; the exchange judges it once more.

The token is exchanged for a credential and goes nowhere else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from broker.domain.errors import Reason, Refusal
from broker.domain.policy.document import Ceiling, ClaimNames, IssuerTrust, KeySource
from broker.domain.revocation.view import Standing
from broker.domain.tokens.claims import KnownCredential, read_credential
from broker.domain.tokens.delegation import read_delegated
from broker.domain.tokens.subject import Subject, read_subject
from broker.domain.tokens.verify import Expectation, VerifiedClaims, check_header, verify_claims
from broker.engines import jws
from broker.gate.broker_http import BrokerUnreachableError
from broker.gate.credentials import DEAD, Presented
from broker.gate.following import Following
from broker.gate.keys import GateKeySets
from broker.ports.keys import KeySets

_EVERYTHING = Ceiling(tools=("*",), scopes=("*",))  # what a token may lead to is the broker's to say, not the gate's


@dataclass(frozen=True, slots=True)
class VerifiedSubject:
    """A caller whose token was believed."""

    token: str = field(repr=False)
    claims: VerifiedClaims
    subject: Subject


def trusted_issuer(
    issuer: str,
    *,
    jwks_url: str | None = None,
    jwks_file: str | None = None,
    algorithms: tuple[str, ...] = ("ES256", "RS256"),
    types: tuple[str, ...] = ("at+jwt",),
    claims: ClaimNames | None = None,
) -> IssuerTrust:
    """An issuer whose tokens a gate accepts; say of it what the broker's `trust.yaml` says."""
    return IssuerTrust(
        issuer=issuer,
        jwks=KeySource(url=jwks_url, file=jwks_file),
        algorithms=algorithms,
        ceiling=_EVERYTHING,
        types=types,
        claims=claims if claims is not None else ClaimNames(),
    )


class SubjectVerifier:
    """Verifies subject tokens for one resource. No issuers: nobody is believed.

    broker: which of the issuers is the broker, if any is: its tokens are credentials. following: its feed; None: only the
    exchange finds out whether a credential is alive.
    """

    def __init__(
        self,
        *,
        issuers: Iterable[IssuerTrust],
        resource: str,
        keys: KeySets,
        broker: str | None = None,
        following: Following | None = None,
        leeway_seconds: int = 10,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.resource = resource
        self.issuers = {trust.issuer: trust for trust in issuers}
        self._keys = keys
        self._broker = broker
        self._following = following
        self._leeway = leeway_seconds
        self._clock = clock

    async def aclose(self) -> None:
        """Close the connections to the issuers."""
        if isinstance(self._keys, GateKeySets):
            await self._keys.close()

    async def verify(self, token: str) -> VerifiedSubject | Refusal:
        """The caller that a token speaks of, or why it is not believed.

        Raises `BrokerUnreachableError` where nobody knows whether a credential is alive.
        """
        unverified = jws.read_unverified(token)
        if isinstance(unverified, Refusal):
            return unverified
        trust = self.issuers.get(jws.unverified_issuer(unverified) or "")
        if trust is None:
            return Refusal(Reason.TOKEN_ISSUER_UNKNOWN, "this server accepts no tokens of that issuer", where="iss")
        refusal = check_header(unverified.header, algorithms=trust.algorithms, types=trust.types)
        if refusal is not None:
            return refusal
        header = unverified.header
        key = await self._keys.find(trust.jwks, kid=header.kid, algorithm=header.algorithm)
        if isinstance(key, Refusal):
            return key
        claims = jws.verify(unverified, key)
        if isinstance(claims, Refusal):
            return claims
        expectation = Expectation(
            issuer=trust.issuer,
            audiences=(self.resource,),
            leeway_seconds=self._leeway,
            max_lifetime_seconds=trust.max_lifetime_seconds,
        )
        verified = verify_claims(claims, expectation, now=int(self._clock()))
        if isinstance(verified, Refusal):
            return verified
        subject = read_subject(claims, trust) if trust.issuer != self._broker else _delegated(verified, key.kid)
        if isinstance(subject, Refusal):
            return subject
        if subject.parent is not None and self._following is not None:
            dead = await _judge(subject.parent, self._following)
            if dead is not None:
                return dead
        return VerifiedSubject(token=token, claims=verified, subject=subject)


def _delegated(verified: VerifiedClaims, kid: str | None) -> Subject | Refusal:
    credential = read_credential({**verified.claims, "aud": verified.audience})
    if isinstance(credential, Refusal):
        return credential
    if kid is None:  # it could not be revoked
        return Refusal(Reason.TOKEN_KEY_UNKNOWN, "the broker's key has no kid", where="kid")
    return read_delegated(KnownCredential(credential, kid))


async def _judge(known: KnownCredential, following: Following) -> Refusal | None:
    standing = await following.judge(Presented(known.credential, kid=known.kid))
    if standing in DEAD:
        return Refusal(Reason.CREDENTIAL_REVOKED, DEAD[standing])
    if standing is not Standing.ALIVE:
        raise BrokerUnreachableError("whether the caller's credential is alive cannot be found out at present")
    return None
