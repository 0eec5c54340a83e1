"""How a gate or a verifier proves to the broker who it is (RFC 7523 §2.2, RFC 6749 §2.3.1).

1. With a key: a client assertion for each request; `iss` and `sub` are the client, `aud` is the issuer alone, it lives
   `ASSERTION_SECONDS`, its `jti` is random and never used again.
2. With a secret: Basic, both halves form-encoded first.
"""

from __future__ import annotations

import base64
import secrets
import time
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import quote_plus

from broker.domain.canonical import JsonObject
from broker.domain.errors import ConfigurationError
from broker.domain.tokens.client_auth import ASSERTION_TYPE
from broker.engines.jwk import load_private_pem, public_jwk, signing_algorithm
from broker.engines.jws import encode_header, sign_with_header

ASSERTION_SECONDS: Final = 60


class ClientAuth(Protocol):
    """One client's proof of identity, made anew for each request."""

    @property
    def client_id(self) -> str: ...

    def form(self) -> dict[str, str]:
        """Form members for an OAuth endpoint."""
        ...

    def headers(self) -> dict[str, str]:
        """Headers for an OAuth endpoint."""
        ...

    def api_headers(self) -> dict[str, str]:
        """Headers for an endpoint that takes no form."""
        ...


class ClientKey:
    """`private_key_jwt` with an ES256, RS256 or EdDSA key."""

    def __init__(self, client_id: str, pem: bytes, *, issuer: str, kid: str | None = None) -> None:
        """Raises `ConfigurationError` where the PEM holds no usable private key; `kid` is its thumbprint by default."""
        key = load_private_pem(pem)
        algorithm = signing_algorithm(key) if key is not None else None
        if key is None or algorithm is None:
            raise ConfigurationError(
                f"client {client_id}: an unencrypted PEM private key was expected: P-256, Ed25519, or RSA of 2048 bits"
            )
        self.client_id = client_id
        self._issuer = issuer
        self._key = key
        self._algorithm = algorithm
        name = kid if kid is not None else str(public_jwk(key, algorithm=algorithm)["kid"])
        self._header = encode_header({"alg": algorithm, "typ": "JWT", "kid": name})

    def form(self) -> dict[str, str]:
        return {"client_assertion_type": ASSERTION_TYPE, "client_assertion": self._assertion()}

    def headers(self) -> dict[str, str]:
        return {}

    def api_headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._assertion()}"}

    def _assertion(self) -> str:
        now = int(time.time())
        claims: JsonObject = {
            "iss": self.client_id,
            "sub": self.client_id,
            "aud": self._issuer,
            "iat": now,
            "exp": now + ASSERTION_SECONDS,
            "jti": secrets.token_urlsafe(16),
        }
        return sign_with_header(self._header, claims, self._key, algorithm=self._algorithm)

    def __repr__(self) -> str:
        return f"ClientKey({self.client_id!r})"


class ClientSecret:
    """`client_secret_basic`."""

    def __init__(self, client_id: str, secret: str) -> None:
        self.client_id = client_id
        pair = f"{quote_plus(client_id)}:{quote_plus(secret)}".encode()
        self._header = "Basic " + base64.b64encode(pair).decode("ascii")

    def form(self) -> dict[str, str]:
        return {}

    def headers(self) -> dict[str, str]:
        return {"Authorization": self._header}

    def api_headers(self) -> dict[str, str]:
        return self.headers()

    def __repr__(self) -> str:
        return f"ClientSecret({self.client_id!r})"


def load_client_auth(
    client_id: str,
    *,
    issuer: str,
    key: str | bytes | Path | None = None,
    kid: str | None = None,
    secret: str | None = None,
) -> ClientAuth:
    """The proof for one client: a key as PEM or as the path of a PEM file, or a secret; exactly one of them.

    kid: the key's name in the JWK Set that the broker knows; by default its thumbprint, as `broker keygen` has it.
    """
    if (key is None) == (secret is None):
        raise ConfigurationError(f"client {client_id}: give either its private key or its secret")
    if secret is not None:
        return ClientSecret(client_id, secret)
    if isinstance(key, str) and "-----BEGIN" in key:
        key = key.encode()
    if isinstance(key, str | Path):
        try:
            key = Path(key).read_bytes()
        except OSError as error:
            raise ConfigurationError(f"client {client_id}: its key file cannot be read: {error.strerror}") from None
    assert key is not None  # one of both was given
    return ClientKey(client_id, key, issuer=issuer, kid=kid)
