"""Subject and actor tokens: whose token this is, if it can be believed (RFC 8693 §2.1, RFC 9068 §4, RFC 8725).

1. The issuer is one of `trust.yaml`, by exact `iss`.
2. Algorithm and `typ` are among those that the issuer is trusted with; the key is the issuer's, by `kid`.
3. Signature, then claims: the audience is the resource of the client that presents it, so that nobody exchanges a token
   that was captured elsewhere.
4. A caller comes with one token for many calls: a signature that was right is right again, with the same key. All else is
   looked at each time.
"""

from __future__ import annotations

from dataclasses import replace

from broker.domain.canonical import JsonObject
from broker.domain.errors import Reason, Refusal
from broker.domain.policy.document import IssuerTrust, Policy
from broker.domain.tokens.keys import VerificationKey
from broker.domain.tokens.subject import Actor, Subject, read_actor, read_subject
from broker.domain.tokens.verify import Expectation, check_header, verify_claims
from broker.ports.keys import KeySets
from broker.ports.system import Clock
from broker.ports.tokens import TokenReader, Unverified
from broker.services.remembered import Remembered


class Subjects:
    """Verifies the tokens that an exchange presents."""

    def __init__(self, *, reader: TokenReader, keys: KeySets, clock: Clock) -> None:
        self._reader = reader
        self._keys = keys
        self._clock = clock
        self._known: Remembered[tuple[Unverified, VerificationKey, JsonObject]] = Remembered()

    async def subject(
        self, unverified_subject: str, unverified_actor: str | None, *, audience: str, policy: Policy
    ) -> Subject | Refusal:
        """The subject of both tokens together."""
        believed = await self._verify(unverified_subject, audience=audience, policy=policy)
        if isinstance(believed, Refusal):
            return _under("subject_token", believed)
        actor: Actor | None = None
        if unverified_actor is not None:
            acting = await self._verify(unverified_actor, audience=audience, policy=policy)
            found = acting if isinstance(acting, Refusal) else read_actor(*acting)
            if isinstance(found, Refusal):
                return _under("actor_token", found)
            actor = found
        subject = read_subject(*believed, actor)
        return _under("subject_token", subject) if isinstance(subject, Refusal) else subject

    async def _verify(
        self, unverified: str, *, audience: str, policy: Policy
    ) -> tuple[JsonObject, IssuerTrust] | Refusal:
        known = self._known.get(unverified)
        token = known[0] if known else self._reader.read_unverified(unverified)
        if isinstance(token, Refusal):
            return token
        trust = policy.issuers.get(self._reader.unverified_issuer(token) or "")
        if trust is None:
            return Refusal(Reason.TOKEN_ISSUER_UNKNOWN, "a token of an issuer in trust.yaml was expected", where="iss")
        refused = check_header(token.header, algorithms=trust.algorithms, types=trust.types)
        if refused is not None:
            return refused
        key = await self._keys.find(trust.jwks, kid=token.header.kid, algorithm=token.header.algorithm)
        if isinstance(key, Refusal):
            return key
        if known and known[1] is key:
            claims = known[2]
        else:
            verdict = self._reader.verify(token, key)
            if isinstance(verdict, Refusal):
                return verdict
            claims = verdict
            self._known.keep(unverified, (token, key, claims))
        verified = verify_claims(
            claims,
            Expectation(
                issuer=trust.issuer,
                audiences=(audience,),
                leeway_seconds=policy.defaults.leeway_seconds,
                max_lifetime_seconds=trust.max_lifetime_seconds,
            ),
            now=self._clock.now(),
        )
        return verified if isinstance(verified, Refusal) else (claims, trust)


def _under(parameter: str, refusal: Refusal) -> Refusal:
    return replace(refusal, where=f"{parameter}/{refusal.where}" if refusal.where else parameter)
