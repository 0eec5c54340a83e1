"""Who is calling: clients and administrators (RFC 6749 §2.3, RFC 7523 §3).

1. The way they authenticate is the one that `trust.yaml` states for them, no other.
2. A secret is compared as its SHA-256, in constant time; an unknown client costs the same comparison.
3. An assertion: `iss` and `sub` are the client, `aud` is the issuer or the token endpoint alone, it lives at most
   `MAX_ASSERTION_SECONDS`, and its `jti` is used up in the store, in the same step as what it authenticates.
4. Up to the signature, every assertion is refused with the same words, so that nobody learns who is registered here.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from broker.domain.errors import Reason, Refusal
from broker.domain.ids import ClientId
from broker.domain.policy.document import AdminTrust, ClientTrust
from broker.domain.tokens.client_auth import AssertionText, ClientCredentials, Secret
from broker.domain.tokens.verify import Expectation, check_header, verify_claims
from broker.ports.keys import KeySets
from broker.ports.policy import PolicySource
from broker.ports.store import Assertion, CredentialStore
from broker.ports.system import Clock
from broker.ports.tokens import TokenReader

MAX_ASSERTION_SECONDS: Final = 3_600  # what common libraries state unasked; a used `jti` is kept that long at most
ASSERTION_ALGORITHMS: Final = ("ES256", "ES384", "RS256", "PS256", "EdDSA")
ASSERTION_TYPES: Final = ("JWT", "client-authentication+jwt")
_NOBODY: Final = "sha256:" + "0" * 64

Trust = TypeVar("Trust", ClientTrust, AdminTrust)


class Clients:
    """Authenticates. `audiences` are what an assertion may be addressed to: the issuer first, then the token endpoint."""

    def __init__(
        self, *, policy: PolicySource, reader: TokenReader, keys: KeySets, clock: Clock, audiences: Sequence[str]
    ) -> None:
        self._policy = policy
        self._reader = reader
        self._keys = keys
        self._clock = clock
        self._audiences = tuple(audiences)

    async def client(self, credentials: ClientCredentials | Refusal) -> tuple[ClientTrust, Assertion | None] | Refusal:
        """The client, and the assertion that is still to be used up."""
        return await self._authenticate(credentials, self._policy.current().clients)

    async def admin(self, credentials: ClientCredentials | Refusal) -> tuple[AdminTrust, Assertion | None] | Refusal:
        """The administrator, and the assertion that is still to be used up."""
        found = await self._authenticate(credentials, self._policy.current().admins)
        if isinstance(found, Refusal) and found.reason is not Reason.CLIENT_CREDENTIALS_MULTIPLE:
            return replace(found, reason=Reason.ADMIN_UNAUTHENTICATED)
        return found

    async def _authenticate(
        self, credentials: ClientCredentials | Refusal, known: Mapping[ClientId, Trust] | Mapping[str, Trust]
    ) -> tuple[Trust, Assertion | None] | Refusal:
        match credentials:
            case Refusal():
                return credentials
            case Secret():
                return _check_secret(credentials, known.get(credentials.client))
            case AssertionText():
                return await self._check_assertion(credentials, known)

    async def _check_assertion(
        self, text: AssertionText, known: Mapping[ClientId, Trust] | Mapping[str, Trust]
    ) -> tuple[Trust, Assertion | None] | Refusal:
        token = self._reader.read_unverified(text.unverified)
        if isinstance(token, Refusal):
            return _invalid(token)
        refused = check_header(token.header, algorithms=ASSERTION_ALGORITHMS, types=ASSERTION_TYPES)
        if refused is not None:
            return _invalid(refused)
        name = ClientId(self._reader.unverified_issuer(token) or "")
        if text.client not in (None, name):
            return _invalid(
                Refusal(Reason.TOKEN_CLAIM_INVALID, "client_id is not the assertion's iss", where="client_id")
            )
        trust = known.get(name)
        if trust is None or trust.jwks is None or trust.auth != "private_key_jwt":
            return _unknown("no client with private_key_jwt has this iss")
        key = await self._keys.find(trust.jwks, kid=token.header.kid, algorithm=token.header.algorithm)
        if isinstance(key, Refusal):
            return _unknown(key.detail)
        claims = self._reader.verify(token, key)
        if isinstance(claims, Refusal):
            return _unknown(claims.detail)
        leeway = self._policy.current().defaults.leeway_seconds
        verified = verify_claims(
            claims,
            Expectation(
                issuer=name,
                audiences=self._audiences,
                leeway_seconds=leeway,
                max_lifetime_seconds=MAX_ASSERTION_SECONDS,
                subject=name,
            ),
            now=self._clock.now(),
        )
        if isinstance(verified, Refusal):
            return _invalid(verified)
        return trust, Assertion(
            key=assertion_key(name, verified.jti or ""), expires_at=verified.expires_at + leeway + 1
        )


def assertion_key(client: str, jti: str) -> str:
    """Client and jti as a store key of a fixed length."""
    made = hashlib.sha256(f"{client}\x00{jti}".encode()).digest()[:18]
    return base64.urlsafe_b64encode(made).decode()


def _check_secret(credentials: Secret, trust: Trust | None) -> tuple[Trust, Assertion | None] | Refusal:
    found = "sha256:" + hashlib.sha256(credentials.secret.encode()).hexdigest()
    accepted = trust.secrets if trust is not None and trust.auth == credentials.method else (_NOBODY,)
    equal = [hmac.compare_digest(found, digest) for digest in accepted]
    if trust is None or not any(equal):
        return Refusal(
            Reason.CLIENT_CREDENTIALS_INVALID,
            "no client is registered with this identifier, secret and authentication method",
            where="Authorization" if credentials.method == "client_secret_basic" else "client_secret",
        )
    return trust, None


def _unknown(why: str) -> Refusal:
    return Refusal(
        Reason.CLIENT_ASSERTION_INVALID,
        "no key of a client with this iss made it; look at iss, kid, alg and at the registered keys",
        where="client_assertion",
        why=why,
    )


def _invalid(refusal: Refusal) -> Refusal:
    return Refusal(
        Reason.CLIENT_ASSERTION_INVALID,
        f"{refusal.wire.says}: {refusal.detail}",
        where="client_assertion",
        why=refusal.where,
    )


def replayed() -> Refusal:
    """The refusal for an assertion that the store has seen before."""
    return Refusal(Reason.CLIENT_ASSERTION_REPLAYED, "sign a new assertion for each request", where="client_assertion")


async def refuse_once(refusal: Refusal, assertion: Assertion | None, store: CredentialStore) -> Refusal:
    """The refusal, once the assertion that came with it is used up: who finds a refused request must not repeat it."""
    return refusal if assertion is None or await store.take(assertion) else replayed()
