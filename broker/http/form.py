"""Form bodies (RFC 6749 Appendix B): what is read, and what is refused before anything looks at it.

1. POST, `application/x-www-form-urlencoded`, UTF-8, at most `MAX_BODY_BYTES`, no query string: tokens do not belong in URLs.
2. Every pair has one reading: valid percent-encoding, valid UTF-8, at most `MAX_PAIRS` pairs, no parameter twice.
"""

from __future__ import annotations

import binascii
import re
from typing import Any, Final, TypeAlias

from broker.domain.errors import Reason, Refusal
from broker.domain.tokens.exchange_request import unique_parameters

Scope: TypeAlias = dict[str, Any]

MAX_BODY_BYTES: Final = 131_072
MAX_PAIRS: Final = 64
FORM: Final = b"application/x-www-form-urlencoded"
_BAD_PERCENT: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")


# The names of every request, decoded once.
_KNOWN: Final = {
    name.encode(): name
    for name in (
        *("grant_type", "subject_token", "subject_token_type", "actor_token", "actor_token_type", "scope"),
        *("requested_token_type", "resource", "audience", "authorization_details", "client_id", "client_secret"),
        *("client_assertion", "client_assertion_type", "token", "token_type_hint", "use"),
    )
}


async def read_body(receive: Any, *, limit: int = MAX_BODY_BYTES) -> bytes | Refusal | None:
    """The whole body, a refusal where it is too large, None where the client went away."""
    message = await receive()
    if message["type"] != "http.request":
        return None
    body: bytes = message.get("body", b"")
    if message.get("more_body"):
        parts, size = [body], len(body)
        while message.get("more_body"):
            message = await receive()
            if message["type"] != "http.request":
                return None
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > limit:
                break
        body = b"".join(parts)
    if len(body) > limit:
        return Refusal(Reason.REQUEST_TOO_LARGE, f"at most {limit} bytes are read", where="body")
    return body


def header_values(scope: Scope, name: bytes) -> list[str]:
    """All values of a header."""
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def check_form_request(scope: Scope) -> Refusal | None:
    """Whether the request is a form POST (rule 1)."""
    if scope["method"] != "POST":
        return Refusal(Reason.METHOD_NOT_ALLOWED, "POST was expected", where="method")
    if scope["query_string"]:
        return Refusal(Reason.REQUEST_MALFORMED, "send parameters in the body, not in the URL", where="query")
    types = [value for key, value in scope["headers"] if key == b"content-type"]
    if len(types) != 1 or types[0].partition(b";")[0].strip().lower() != FORM:
        return Refusal(Reason.REQUEST_MALFORMED, f"{FORM.decode()} was expected", where="Content-Type")
    return None


def parse_form(body: bytes) -> dict[str, str] | Refusal:
    """The parameters of a form body, empty ones left out (rule 2)."""
    pairs: list[tuple[str, str]] = []
    for part in body.split(b"&") if body else ():
        if not part:
            continue
        if len(pairs) == MAX_PAIRS:
            return Refusal(Reason.REQUEST_MALFORMED, f"at most {MAX_PAIRS} parameters are read", where="body")
        name, _, value = part.partition(b"=")
        try:
            pairs.append((_KNOWN.get(name) or _decode(name), _decode(value)))
        except (UnicodeDecodeError, ValueError):
            return Refusal(
                Reason.REQUEST_MALFORMED, "percent-encoded UTF-8 was expected (RFC 6749 Appendix B)", where="body"
            )
    return unique_parameters(pairs)


def _decode(text: bytes) -> str:
    if text.isalnum():
        return text.decode("ascii")
    if b"+" in text:
        text = text.replace(b"+", b" ")
    if b"%" in text:
        if _BAD_PERCENT.search(text):
            raise ValueError
        # Quoted-printable is percent-encoding with another sign, and the standard library decodes it in C: a fifteenth
        # of the time of `urllib.parse`, which a property test holds it to.
        text = binascii.a2b_qp(text.replace(b"=", b"%3D").replace(b"%", b"="))
    return text.decode("utf-8")
