"""One place maps refusals and failures to the wire (RFC 6749 §5.2, RFC 9110 §15.6.4).

| outcome                       | status                | body                                                              |
|-------------------------------|-----------------------|-------------------------------------------------------------------|
| `Refusal`                     | as `REASONS` says     | error, error_description, error_uri, reason, where, data, request_id |
| `UnrecordedError` of a command| 503                   | `effective_not_recorded`: it took effect                          |
| `ReceiptUnavailableError` of one | 503                | `effective_without_receipt`: it took effect                       |
| any other `BrokerError`       | 503 and `Retry-After` | `temporarily_unavailable`                                         |
| anything else                 | 500                   | `server_error`, with the request id and nothing of the cause      |

A caller sees `detail`, never `why`.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeAlias

import orjson

from broker.domain.errors import BrokerError, Reason, ReceiptUnavailableError, Refusal, UnrecordedError

Headers: TypeAlias = list[tuple[bytes, bytes]]

NO_STORE: Final = (b"cache-control", b"no-store")
JSON: Final = (b"content-type", b"application/json")
_NOT_ALLOWED: Final = re.compile(r"[^\x20\x21\x23-\x5b\x5d-\x7e]")  # RFC 6749 §5.2, error_description
_SPELLED: Final = str.maketrans({"§": "section ", "–": "-", "…": "...", '"': "'", "`": "'", "\\": "/"})
_CHALLENGE: Final = b'Basic realm="broker", charset="UTF-8"'


def describe(text: str) -> str:
    """Text with only the characters that error_description may hold."""
    plain = text.translate(_SPELLED)
    return _NOT_ALLOWED.sub("?", plain)


def error_uri(issuer: str, reason: str) -> str:
    """The page that explains a reason."""
    return f"{issuer}/docs/errors#{reason}"


def render_refusal(refusal: Refusal, *, issuer: str, request_id: str) -> tuple[int, Headers, bytes]:
    """Status, headers and body of a refusal."""
    wire = refusal.wire
    where = f" ({refusal.where})" if refusal.where else ""
    body: dict[str, Any] = {
        "error": wire.error,
        "error_description": describe(f"{wire.says}{where}: {refusal.detail}"),
        "error_uri": error_uri(issuer, refusal.reason.value),
        "reason": refusal.reason.value,
        "request_id": request_id,
    }
    if refusal.where:
        body["where"] = refusal.where
    if refusal.data:
        body["data"] = dict(refusal.data)
    headers: Headers = [JSON, NO_STORE, (b"x-request-id", request_id.encode())]
    if wire.status == 401:
        headers.append((b"www-authenticate", _CHALLENGE))
    if refusal.reason is Reason.METHOD_NOT_ALLOWED:
        headers.append((b"allow", b"POST"))
    return wire.status, headers, orjson.dumps(body)


def render_failure(
    error: BrokerError, *, issuer: str, request_id: str, command: bool = False
) -> tuple[int, Headers, bytes]:
    """Status, headers and body of a failure. command: it was raised by a command, which may have taken effect."""
    name = type(error).__name__
    code, said = _EFFECTIVE.get(name, (None, "")) if command else (None, "")
    plain = FAILURES.get(name, "the broker cannot serve this at present")
    body: dict[str, object] = {
        "error": code or "temporarily_unavailable",
        "error_description": describe(said if code else f"{plain}; retry in {error.retry_after_seconds} s"),
        "error_uri": error_uri(issuer, name),
        "reason": name,
        "request_id": request_id,
    }
    if code and isinstance(error, UnrecordedError | ReceiptUnavailableError) and error.point is not None:
        gen, seq = error.point
        body["data"] = {"gen": gen, "seq": seq, "receipt_at": receipt_path(gen, seq)}
    headers: Headers = [
        JSON,
        NO_STORE,
        (b"retry-after", str(error.retry_after_seconds).encode()),
        (b"x-request-id", request_id.encode()),
    ]
    return 503, headers, orjson.dumps(body)


def receipt_path(gen: int, seq: int) -> str:
    """Where the receipt of a revocation can be asked for."""
    return f"/admin/receipts/{gen}/{seq}"


_EFFECTIVE: Final = {
    "UnrecordedError": (
        "effective_not_recorded",
        "the command took effect; its record is not written yet, and nothing is minted until it is",
    ),
    "ReceiptUnavailableError": (
        "effective_without_receipt",
        "the command took effect; its receipt cannot be given now, ask for it later",
    ),
}
FAILURES: Final = {
    "StoreUnavailableError": "the store does not answer",
    "StoreUnclaimedError": "the store is being claimed anew",
    "StoreFullError": "the store is full",
    "StoreUnsuitableError": "the store is not configured as it must be",
    "StoreUnknownError": "the store knows of revocations that this broker may not know",
    "AuditUnavailableError": "the audit log cannot be written",
    "UnrecordedError": "a change is not recorded yet",
    "ReceiptUnavailableError": "the receipt cannot be given at present",
    "SigningUnavailableError": "there is no key to sign with",
    "DeadlineError": "the request took too long",
}


def render_bug(*, issuer: str, request_id: str) -> tuple[int, Headers, bytes]:
    """Status, headers and body where something nobody foresaw was raised."""
    body = {
        "error": "server_error",
        "error_description": "something unforeseen happened; the log has it under this request id",
        "error_uri": error_uri(issuer, "server_error"),
        "request_id": request_id,
    }
    return 500, [JSON, NO_STORE, (b"x-request-id", request_id.encode())], orjson.dumps(body)
