"""How a client says who it is (RFC 6749 §2.3, RFC 7521 §4.2, RFC 7523 §2.2).

1. Exactly one way a request: the Basic header, client_id and client_secret in the form, or a client assertion.
   More than one is `invalid_request`, and so is a client_id in the form that is not the header's.
2. Basic: one header; base64; split at the first colon; each half form-decoded (RFC 6749 §2.3.1 and Appendix B).
3. Assertion: client_assertion_type says jwt-bearer; the client is the assertion's subject; a client_id beside it agrees.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias
from urllib.parse import unquote_plus

from broker.domain.errors import Reason, Refusal
from broker.domain.ids import ClientId, parse_client_id

ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_BAD_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True)
class Secret:
    """A client identifier with its secret. method: `client_secret_basic` or `client_secret_post`."""

    client: ClientId
    secret: str
    method: str

    def __repr__(self) -> str:  # a secret never reaches a log
        return f"Secret(client={self.client!r}, method={self.method!r})"


@dataclass(frozen=True, slots=True)
class AssertionText:
    """A client assertion, unverified. client: what the form says beside it, if anything."""

    unverified: str
    client: ClientId | None

    def __repr__(self) -> str:
        return f"AssertionText(client={self.client!r})"


ClientCredentials: TypeAlias = Secret | AssertionText


def parse_client_credentials(authorization: Sequence[str], form: Mapping[str, str]) -> ClientCredentials | Refusal:
    """What a request says about its client. `authorization` holds the values of all Authorization headers."""
    has_assertion = "client_assertion" in form or "client_assertion_type" in form
    ways = len(authorization) + has_assertion + ("client_secret" in form)
    if ways > 1:
        return Refusal(Reason.CLIENT_CREDENTIALS_MULTIPLE, "authenticate in exactly one way", where="Authorization")
    if authorization:
        return _basic(authorization[0], form)
    if has_assertion:
        return _assertion(form)
    if "client_secret" in form:
        client = parse_client_id(form.get("client_id"))
        if client is None:
            return Refusal(Reason.PARAMETER_MISSING, "client_id is sent beside client_secret", where="client_id")
        return Secret(client=client, secret=form["client_secret"], method="client_secret_post")
    return Refusal(
        Reason.CLIENT_UNAUTHENTICATED,
        "authenticate with private_key_jwt, client_secret_basic or client_secret_post",
        where="Authorization",
    )


def _basic(header: str, form: Mapping[str, str]) -> ClientCredentials | Refusal:
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return Refusal(Reason.CLIENT_UNAUTHENTICATED, "the Basic scheme was expected", where="Authorization")
    pair = decode_basic(encoded.strip())
    if pair is None:
        return Refusal(
            Reason.CLIENT_CREDENTIALS_INVALID,
            "form-encode identifier and secret, join them with a colon, then base64 (RFC 6749 §2.3.1)",
            where="Authorization",
        )
    client, secret = pair
    if form.get("client_id", client) != client:
        return Refusal(Reason.CLIENT_CREDENTIALS_MULTIPLE, "client_id is not the header's client", where="client_id")
    return Secret(client=client, secret=secret, method="client_secret_basic")


def decode_basic(encoded: str) -> tuple[ClientId, str] | None:
    """Identifier and secret in a Basic credential, form-decoded, or None where it holds none."""
    if len(encoded) % 4:  # which the decoder lets pass where there is padding to spare
        return None
    try:
        text = base64.b64decode(encoded, validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None
    left, colon, right = text.partition(":")
    if not colon or _BAD_PERCENT.search(text):
        return None
    try:
        client, secret = unquote_plus(left, errors="strict"), unquote_plus(right, errors="strict")
    except UnicodeDecodeError:
        return None
    found = parse_client_id(client)
    return (found, secret) if found is not None and secret else None


def _assertion(form: Mapping[str, str]) -> ClientCredentials | Refusal:
    if form.get("client_assertion_type") != ASSERTION_TYPE:
        return Refusal(Reason.PARAMETER_INVALID, f"{ASSERTION_TYPE} was expected", where="client_assertion_type")
    if "client_assertion" not in form:
        return Refusal(Reason.PARAMETER_MISSING, "expected: a signed JWT", where="client_assertion")
    client: ClientId | None = None
    if "client_id" in form:
        client = parse_client_id(form["client_id"])
        if client is None:
            return Refusal(Reason.PARAMETER_INVALID, "a client identifier was expected", where="client_id")
    return AssertionText(unverified=form["client_assertion"], client=client)


def parse_header_credentials(authorization: Sequence[str]) -> ClientCredentials | Refusal:
    """What the Authorization header says, where there is no form: Basic, or a client assertion as Bearer.

    The assertion is the one of RFC 7523 §2.2; it is used once, for one request.
    """
    if len(authorization) != 1:
        reason = Reason.CLIENT_CREDENTIALS_MULTIPLE if authorization else Reason.CLIENT_UNAUTHENTICATED
        return Refusal(reason, "exactly one Authorization header was expected", where="Authorization")
    scheme, _, value = authorization[0].partition(" ")
    if scheme.lower() == "bearer":
        return AssertionText(unverified=value.strip(), client=None)
    return _basic(authorization[0], {})
