"""A client of the admin API: each request carries a fresh assertion, signed with the administrator's key (RFC 7523)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2

from broker.domain.errors import BrokerError, ConfigurationError
from broker.engines.jwk import load_private_pem, signing_algorithm
from broker.engines.jws import sign

LIFETIME_SECONDS: Final = 60
TIMEOUT_SECONDS: Final = 15.0


class RefusedError(BrokerError):
    """The broker refused a command.

    Raised: by `AdminClient.call`; the message is the broker's own.
    Wire:   none; the command exits with 1.
    Retry:  no.
    """


class AwayError(BrokerError):
    """The broker does not answer, or answers that it cannot serve at present.

    Raised: by `AdminClient.call`.
    Wire:   none; the command exits with 4.
    Retry:  yes, later.
    """


@dataclass(frozen=True, slots=True)
class AdminClient:
    """url: the broker's issuer URL. admin: the name in trust.yaml. key: PEM file with the private key."""

    url: str
    admin: str
    key: Path

    def call(
        self, method: str, path: str, *, body: Mapping[str, Any] | None = None, query: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """One request; the decoded answer. Raises `RefusedError`, `AwayError`, `ConfigurationError`."""
        headers = {"authorization": f"Bearer {self._assertion()}"}
        try:
            response = httpx2.request(
                method, f"{self.url}{path}", headers=headers, json=body, params=query, timeout=TIMEOUT_SECONDS
            )
        except httpx2.TransportError as error:
            raise AwayError(
                f"no broker answers at {self.url} ({type(error).__name__}); is `broker serve` running?"
            ) from None
        return _read(response)

    def _assertion(self) -> str:
        try:
            private = load_private_pem(self.key.read_bytes())
        except OSError as error:
            raise ConfigurationError(
                f"--key {self.key}: {error.strerror}; `broker keygen {self.admin}` makes one"
            ) from None
        algorithm = signing_algorithm(private) if private is not None else None
        if private is None or algorithm is None:
            raise ConfigurationError(f"--key {self.key}: a private key in PEM form was expected")
        now = int(time.time())
        claims = {
            "iss": self.admin,
            "sub": self.admin,
            "aud": self.url,
            "iat": now,
            "exp": now + LIFETIME_SECONDS,
            "jti": secrets.token_urlsafe(16),
        }
        return sign({"typ": "JWT"}, claims, private, algorithm=algorithm)  # type: ignore[arg-type]  # JSON values


def _read(response: httpx2.Response) -> dict[str, Any]:
    try:
        value = response.json()
    except ValueError:
        value = {}
    if not isinstance(value, dict):
        value = {}
    if response.is_success:
        return value
    said = value.get("error_description") or f"HTTP {response.status_code}"
    if response.status_code >= 500:
        raise AwayError(f"{said} (request {value.get('request_id', 'unknown')})")
    more = value.get("data", {}).get("problems", "")
    raise RefusedError(
        f"refused, {value.get('reason', value.get('error', response.status_code))}: {said}"
        + (f"\n\n{more}" if more else "")
    )
