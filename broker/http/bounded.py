"""Bodies of all requests that FastAPI answers: read here, before anything is known about who sends them.

1. At most `MAX_BODY_BYTES` are kept, and a body is there within the deadline, or the request is refused unread.
2. What was read is handed on as one message; the framework never sees a stream it could collect without a bound.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from broker.domain.errors import DeadlineError, Refusal
from broker.http.errors import Headers, render_failure, render_refusal
from broker.http.form import read_body

MAX_BODY_BYTES: Final = 524_288


async def read_bounded(receive: Any, *, deadline_seconds: float) -> bytes | Refusal | DeadlineError | None:
    """The whole body, why it is not taken, or None where the client went away."""
    try:
        async with asyncio.timeout(deadline_seconds):
            return await read_body(receive, limit=MAX_BODY_BYTES)
    except TimeoutError:
        return DeadlineError()


def replay(body: bytes, receive: Any) -> Any:
    """A `receive` that gives the body first."""
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Any:
        return waiting.pop() if waiting else await receive()

    return next_message


async def send_no(outcome: Refusal | DeadlineError, send: Any, *, issuer: str, request_id: str) -> None:
    """Answer a request whose body is not taken; the connection cannot be used again, since the rest is still on it."""
    render = render_refusal if isinstance(outcome, Refusal) else render_failure
    status, headers, body = render(outcome, issuer=issuer, request_id=request_id)  # type: ignore[arg-type]
    closing: Headers = [(b"connection", b"close"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers + closing})
    await send({"type": "http.response.body", "body": body})
