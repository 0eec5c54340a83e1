"""A client of the admin API: each request carries a fresh assertion, signed with the administrator's key (RFC 7523)."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2

from broker.domain.addresses import base_url_problem, is_loopback
from broker.domain.errors import BrokerError, ConfigurationError, Reason
from broker.domain.policy.judgement import PolicyRefusedError
from broker.domain.policy.report_wire import read_report
from broker.engines.jwk import load_private_pem, signing_algorithm
from broker.engines.jws import sign

LIFETIME_SECONDS: Final = 60
_CHECKED: Final = ("/publish", "/reload")
LINES: Final = "application/x-ndjson"
TIMEOUT_SECONDS: Final = 15.0
CHECK_SECONDS: Final = 180.0
"""For commands that ask the rules about policy: a second or two, unless the policy is hostile."""


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


class Answer(dict[str, Any]):
    """A broker's answer; asked for a member that a broker's answer would have, another server's raises `AwayError`."""

    def __missing__(self, name: str) -> Any:
        raise AwayError(f"what answers there is no broker: its answer has no {name}; is --url right?")


@dataclass(frozen=True, slots=True)
class AdminClient:
    """url: where the broker is reached. admin: the name in trust.yaml. key: PEM file with the private key.

    issuer: the broker's issuer URL, where that is another one, as with a single replica. It is never asked for: what answers
    at a wrong `url` could name the right broker, and be handed an assertion that is good there.
    """

    url: str
    admin: str
    key: Path
    issuer: str | None = None

    def call(
        self, method: str, path: str, *, body: Mapping[str, Any] | None = None, query: Mapping[str, Any] | None = None
    ) -> Answer:
        """One request; the decoded answer. Raises `RefusedError`, `PolicyRefusedError`, `AwayError`, `ConfigurationError`."""
        with self._asking(path) as (http, headers):
            response = http.request(method, f"{self.url}{path}", headers=headers, json=body, params=query)
        return self._read(response)

    def follow(
        self, method: str, path: str, *, body: Mapping[str, Any] | None = None, query: Mapping[str, Any] | None = None
    ) -> Iterator[Answer]:
        """One request that is answered line by line, each as it comes; a broker that does not do so gives one answer.

        Raises as `call` does.
        """
        with self._asking(path) as (http, headers):
            url, accept = f"{self.url}{path}", {**headers, "accept": LINES}
            with http.stream(method, url, headers=accept, json=body, params=query) as response:
                if not response.is_success or response.headers.get("content-type", "").partition(";")[0] != LINES:
                    response.read()
                    yield self._read(response)
                    return
                for line in response.iter_lines():
                    yield _line(line, self.url)

    @contextmanager
    def _asking(self, path: str) -> Iterator[tuple[httpx2.Client, dict[str, str]]]:
        """A client, and headers with a fresh assertion; what goes wrong while they are used is said in its own words."""
        problem = base_url_problem(self.url)
        if problem is not None:
            raise ConfigurationError(f"--url {self.url!r}: {problem}")
        headers = {"authorization": f"Bearer {self._assertion()}"}
        try:
            # a proxy of the surroundings leads to other machines, never to this one
            seconds = CHECK_SECONDS if path.endswith(_CHECKED) else TIMEOUT_SECONDS
            timeout = httpx2.Timeout(seconds, connect=TIMEOUT_SECONDS)
            with httpx2.Client(timeout=timeout, trust_env=not is_loopback(self.url)) as http:
                yield http, headers
        except httpx2.TransportError as error:
            raise AwayError(
                f"no broker answers at {self.url} ({type(error).__name__}); is `broker serve` running, and --url right?"
            ) from None
        except (httpx2.InvalidURL, OSError, ValueError) as error:  # also of a proxy or a certificate file named outside
            raise ConfigurationError(f"--url {self.url}: cannot be asked ({type(error).__name__}: {error})") from None

    def _assertion(self) -> str:
        try:
            private = load_private_pem(self.key.read_bytes())
        except OSError as error:
            raise ConfigurationError(
                f"--key {self.key}: {error.strerror}; `broker keygen {self.admin}` makes one"
            ) from None
        algorithm = signing_algorithm(private) if private is not None else None
        if private is None or algorithm is None:
            raise ConfigurationError(
                f"--key {self.key}: a private key in PEM form was expected, unencrypted: P-256, Ed25519, or RSA of at least "
                f"2048 bits; `broker keygen {self.admin}` makes one"
            )
        now = int(time.time())
        claims = {
            "iss": self.admin,
            "sub": self.admin,
            "aud": self.issuer or self.url,
            "iat": now,
            "exp": now + LIFETIME_SECONDS,
            "jti": secrets.token_urlsafe(16),
        }
        return sign({"typ": "JWT"}, claims, private, algorithm=algorithm)  # type: ignore[arg-type]  # JSON values

    def _read(self, response: httpx2.Response) -> Answer:
        try:
            value = response.json()
        except ValueError:
            value = None
        known = isinstance(value, dict) and (response.is_success or "request_id" in value)
        if not known:
            raise AwayError(
                f"what answers at {self.url} is no broker, or not in its place (HTTP {response.status_code}); is --url right?"
            )
        if response.is_success:
            return Answer(value)
        said = value.get("error_description")
        if response.status_code >= 500:
            raise AwayError(f"{said} (request {value['request_id']})")
        if value.get("reason") == Reason.POLICY_REFUSED.value:
            report = read_report(value.get("data", {}).get("report"))
            if report is not None:
                raise PolicyRefusedError(report)
        reason, more = value.get("reason", value.get("error")), value.get("data", {}).get("problems", "")
        if reason == Reason.ADMIN_UNAUTHENTICATED.value:
            more = (
                f"asked as {self.admin!r} with {self.key} for {self.issuer or self.url}: trust.yaml must hold this administrator "
                "with the public half of this key, and the URL must be spelled like the broker's issuer (or --issuer say it)"
            )
        raise RefusedError(f"refused, {reason}: {said}" + (f"\n\n{more}" if more else ""))


def _line(text: str, url: str) -> Answer:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise AwayError(f"what answers at {url} is no broker, or was cut off; is --url right?")
    return Answer(value)
