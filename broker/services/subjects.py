"""Subject and actor tokens: whose token this is, if it can be believed (RFC 8693 §2.1, RFC 9068 §4, RFC 8725).

1. The issuer is one of `trust.yaml`, by exact `iss`. Of this broker itself a subject token may be, never an actor token: a
   credential says who acts for whom, it is nobody's identity.
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
from broker.domain.policy.document import ClientTrust, IssuerTrust, Policy
from broker.domain.tokens.claims import KnownCredential
from broker.domain.tokens.delegation import read_delegated
from broker.domain.tokens.keys import VerificationKey
from broker.domain.tokens.subject import Actor, Presenter, Subject, read_actor, read_subject
from broker.domain.tokens.target import canonical_target
from broker.domain.tokens.verify import Expectation, check_header, verify_claims
from broker.ports.keys import KeySets
from broker.ports.system import Clock
from broker.ports.tokens import TokenReader, Unverified
from broker.services.credentials import Credentials
from broker.services.remembered import Remembered


class Subjects:
    """Verifies the tokens that an exchange presents."""

    def __init__(self, *, reader: TokenReader, keys: KeySets, credentials: Credentials, clock: Clock) -> None:
        self._reader = reader
        self._credentials = credentials
        self._keys = keys
        self._clock = clock
        self._known: Remembered[tuple[Unverified, VerificationKey, JsonObject]] = Remembered()

    async def subject(
        self, unverified_subject: str, unverified_actor: str | None, *, client: ClientTrust, policy: Policy
    ) -> Subject | Refusal:
        """The subject of both tokens together, presented by this client."""
        audience = client.resource
        if audience is None:
            return Refusal(Reason.CLIENT_NOT_PERMITTED, "this client has no resource", where="subject_token")
        believed = await self._believe(unverified_subject, audience=audience, policy=policy)
        if isinstance(believed, Refusal):
            return _under("subject_token", believed)
        actor: Actor | None = None
        if unverified_actor is not None:
            acting = await self._believe(unverified_actor, audience=audience, policy=policy)
            if isinstance(acting, KnownCredential):
                acting = Refusal(
                    Reason.TOKEN_ISSUER_UNKNOWN, "a credential of this broker is no actor token", where="iss"
                )
            found = acting if isinstance(acting, Refusal) else read_actor(*acting)
            if isinstance(found, Refusal):
                return _under("actor_token", found)
            actor = found
        if isinstance(believed, KnownCredential):
            subject = read_delegated(believed, actor)
        else:
            presenter = Presenter(self._credentials.issuer, client.client_id)
            subject = read_subject(*believed, actor, presenter=presenter)
        return _under("subject_token", subject) if isinstance(subject, Refusal) else subject

    async def _believe(
        self, unverified: str, *, audience: str, policy: Policy
    ) -> KnownCredential | tuple[JsonObject, IssuerTrust] | Refusal:
        known = self._known.get(unverified)
        token = known[0] if known else self._reader.read_unverified(unverified)
        if isinstance(token, Refusal):
            return token
        issuer = self._reader.unverified_issuer(token)
        if issuer == self._credentials.issuer:
            return self._own(unverified, audience=audience, policy=policy)
        trust = policy.issuers.get(issuer or "")
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

    def _own(self, unverified: str, *, audience: str, policy: Policy) -> KnownCredential | Refusal:
        """A credential of this broker; whether it is alive is for the store to say, in the step that mints."""
        found = self._credentials.read(unverified, leeway_seconds=policy.defaults.leeway_seconds)
        if isinstance(found, Refusal):
            return found
        if canonical_target(found.credential.audience) != canonical_target(audience):
            return Refusal(Reason.TOKEN_AUDIENCE_MISMATCH, "the token is meant for another audience", where="aud")
        return found


def _under(parameter: str, refusal: Refusal) -> Refusal:
    return replace(refusal, where=f"{parameter}/{refusal.where}" if refusal.where else parameter)
