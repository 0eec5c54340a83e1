"""Bearer tokens at a protected API (RFC 6750): the token of a request, and what a no looks like on the wire."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from broker.domain.errors import REASONS, Reason, Refusal

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Denial:
    """A no: HTTP status, RFC 6750 error code (None: no credential was shown), our reason, words, scopes to ask for."""

    status: int
    error: str | None
    reason: str
    says: str
    scopes: tuple[str, ...] = ()
    retry_after_seconds: int | None = None


def bearer_token(scope: Scope) -> str | Denial:
    """The one token that a request brings."""
    found = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
    if len(found) > 1:
        return Denial(400, "invalid_request", "request_malformed", "more than one Authorization header was sent")
    scheme, _, token = (found[0] if found else b"").partition(b" ")
    if scheme.lower() != b"bearer":
        return Denial(401, None, "credential_missing", "send a credential of the broker as Authorization: Bearer")
    text = token.strip(b" ").decode("latin-1")
    if not text or " " in text or "," in text or "\t" in text:
        return Denial(401, "invalid_token", Reason.TOKEN_MALFORMED.value, "one token after Bearer was expected")
    return text


def invalid_token(refusal: Refusal) -> Denial:
    """The token is not acceptable."""
    return Denial(401, "invalid_token", refusal.reason.value, f"{refusal.wire.says}: {refusal.detail}")


def insufficient(reason: Reason, scopes: tuple[str, ...] = ()) -> Denial:
    """The token is good, for something else."""
    return Denial(403, "insufficient_scope", reason.value, REASONS[reason].says, scopes)


def unavailable(reason: str, *, retry_after_seconds: int) -> Denial:
    """The token may be good, and that cannot be found out; a 401 would send the caller through a whole login."""
    says = "whether the credential is still active cannot be found out at present"
    return Denial(503, "temporarily_unavailable", reason, says, retry_after_seconds=retry_after_seconds)


async def send_denial(denial: Denial, send: Send) -> None:
    """The no as a whole HTTP answer."""
    said = {"error": denial.error, "error_description": denial.says, "reason": denial.reason}
    body = json.dumps({name: value for name, value in said.items() if value is not None}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    if denial.retry_after_seconds is not None:
        headers.append((b"retry-after", str(denial.retry_after_seconds).encode()))
    else:
        headers.append((b"www-authenticate", _challenge(denial).encode("latin-1")))
    await send({"type": "http.response.start", "status": denial.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _challenge(denial: Denial) -> str:
    """RFC 6750 §3; no error code where no credential was shown."""
    if denial.error is None:
        return "Bearer"
    words = denial.says.encode("ascii", "replace").decode().replace("\\", "/").replace('"', "'")
    parts = [f'error="{denial.error}"', f'error_description="{words}"']
    if denial.scopes:
        parts.append(f'scope="{" ".join(denial.scopes)}"')
    return "Bearer " + ", ".join(parts)
