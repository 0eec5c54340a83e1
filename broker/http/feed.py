"""The revocation feed (`domain/revocation/feed.py` says what the events are), for verifiers that authenticate.

| request                                        | answer                                                                        |
|------------------------------------------------|-------------------------------------------------------------------------------|
| `GET /revocations/stream`                      | server-sent events, on and on; `Last-Event-ID: gen:seq` resumes                |
| `GET /revocations?since=gen:seq&wait=seconds`  | `{"v":1,"events":[…]}`: what has come since, or a snapshot; waits for the first |
| `POST /revocations/lease`                      | `{"v":1,"gen":…,"seq":…,"lease_seconds":…}`                                    |

The lease's body is `{"v":1,"verifier":…,"gen":…,"applied":…}`: the verifier's own name, and how far it has got.

1. Plain ASGI, like the OAuth endpoints, since a lease is asked for twice a second by each verifier.
2. A listener that does not take what is sent to it within `SEND_SECONDS` is cut off; so is one that has too much waiting. After
   `STREAM_SECONDS` a stream ends, so that its listener proves anew who it is.
3. One client has at most `MOST_LISTENING` streams and waiting polls at one process: each holds a connection open.
4. Nothing is made up on the way: heartbeats come from beats of the store, and a broker that knows nothing answers 503.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl

import orjson

from broker.domain.canonical import JsonError, JsonObject, parse_json_object
from broker.domain.errors import BrokerError, DeadlineError, Reason, Refusal
from broker.domain.revocation.feed import Point, event_json, kind_of, parse_point
from broker.domain.tokens.client_auth import parse_header_credentials
from broker.http.errors import JSON, NO_STORE, Headers, render_bug, render_failure, render_refusal
from broker.http.form import Scope, header_values, read_body
from broker.ports.system import Entropy
from broker.services.listeners import Listeners
from broker.services.refusals import Attempt, Refusals
from broker.services.subscription import Subscription
from broker.services.verifiers import Verifiers

log: Final = logging.getLogger("broker.http")
SEND_SECONDS: Final = 5.0
STREAM_SECONDS: Final = 900.0
MAX_LEASE_BYTES: Final = 4_096
MOST_LISTENING: Final = 512
HANG_UP: Final = "broker.hang_up"
"""ASGI extension of the server: a function that ends the connection at once, whatever is still to be sent."""
MAX_WAIT_SECONDS: Final = 10.0
_RETRY: Final = b"retry: 250\n\n"
_STREAM: Final[Headers] = [(b"content-type", b"text/event-stream"), NO_STORE, (b"x-accel-buffering", b"no")]

Made: TypeAlias = "JsonObject | Refusal | Subscription | None"
Operation: TypeAlias = Callable[[Scope, Any], Awaitable[Made]]


class FeedEndpoints:
    """Answers the three paths. deadline_seconds: for all but waiting. trouble: told of every failure."""

    def __init__(
        self,
        *,
        issuer: str,
        listeners: Listeners,
        verifiers: Verifiers,
        refusals: Refusals,
        entropy: Entropy,
        deadline_seconds: float,
        trouble: Callable[[BrokerError], None],
    ) -> None:
        self._issuer = issuer
        self._listeners = listeners
        self._verifiers = verifiers
        self._refusals = refusals
        self._entropy = entropy
        self._deadline_seconds = deadline_seconds
        self._trouble = trouble
        self._listening: Counter[str] = Counter()
        self._operations: dict[str, tuple[str, Operation, float]] = {
            "/revocations/stream": ("GET", self._stream, deadline_seconds),
            "/revocations": ("GET", self._poll, deadline_seconds + MAX_WAIT_SECONDS),
            "/revocations/lease": ("POST", self._lease, deadline_seconds),
        }

    async def answered(self, scope: Scope, receive: Any, send: Any) -> bool:
        """Answer a request to one of the paths; False where it is to another."""
        found = self._operations.get(scope["path"])
        if found is None:
            return False
        outcome = await self._run(*found, scope, receive)
        if isinstance(outcome, Subscription):
            await self._send_events(outcome, scope, receive, send)
        elif outcome is not None:
            status, headers, body = outcome
            headers.append((b"content-length", b"%d" % len(body)))
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": body})
        return True

    async def _run(
        self, method: str, operation: Operation, seconds: float, scope: Scope, receive: Any
    ) -> tuple[int, Headers, bytes] | Subscription | None:
        request_id = self._entropy.token()
        try:
            async with asyncio.timeout(seconds):
                if scope["method"] != method:
                    made: Made = Refusal(Reason.METHOD_NOT_ALLOWED, f"expected: {method}", "method")
                else:
                    made = await operation(scope, receive)
                if isinstance(made, Refusal):
                    await self._refusals.record(made, Attempt(f"{method} {scope['path']}"), request_id=request_id)
        except TimeoutError:
            return render_failure(DeadlineError(), issuer=self._issuer, request_id=request_id)
        except BrokerError as error:
            self._trouble(error)
            return render_failure(error, issuer=self._issuer, request_id=request_id)
        except Exception:
            log.exception("request %s failed", request_id)
            return render_bug(issuer=self._issuer, request_id=request_id)
        if isinstance(made, Refusal):
            status, headers, body = render_refusal(made, issuer=self._issuer, request_id=request_id)
            allow = [(name, method.encode() if name == b"allow" else value) for name, value in headers]
            return status, allow, body
        if made is None or isinstance(made, Subscription):
            return made
        return 200, [JSON, NO_STORE, (b"x-request-id", request_id.encode())], orjson.dumps(made)

    async def _stream(self, scope: Scope, receive: Any) -> Made:
        client = await self._verifiers.authenticate(_credentials(scope))
        if isinstance(client, Refusal):
            return client
        if self._listening[client.client_id] >= MOST_LISTENING:
            return _too_many()
        # what cannot be read is as good as nothing: everything is sent then
        subscription = self._listeners.subscribe(parse_point(_one(header_values(scope, b"last-event-id"))))
        self._listening[client.client_id] += 1
        subscription.ended = lambda: self._leave(client.client_id)
        return subscription

    async def _poll(self, scope: Scope, receive: Any) -> Made:
        client = await self._verifiers.authenticate(_credentials(scope))
        if isinstance(client, Refusal):
            return client
        asked = _read_query(scope["query_string"])
        if isinstance(asked, Refusal):
            return asked
        since, seconds = asked
        if since is not None and seconds:
            if self._listening[client.client_id] >= MOST_LISTENING:
                return _too_many()
            self._listening[client.client_id] += 1
            try:
                await self._listeners.wait_past(since, seconds=seconds)
            finally:
                self._leave(client.client_id)
        events = [] if since is not None and since == self._listeners.point else self._listeners.events_since(since)
        return {"v": 1, "events": [{"event": kind_of(event), **event_json(event)} for event in events]}

    def _leave(self, client: str) -> None:
        self._listening[client] -= 1
        if not self._listening[client]:
            del self._listening[client]

    async def _lease(self, scope: Scope, receive: Any) -> Made:
        body = await read_body(receive, limit=MAX_LEASE_BYTES)
        if body is None:
            return None
        granted = await self._verifiers.renew(
            _credentials(scope), body if isinstance(body, Refusal) else _parse_body(body)
        )
        if isinstance(granted, Refusal):
            return granted
        point = granted.point
        return {"v": 1, "gen": point.gen, "seq": point.seq, "lease_seconds": granted.lease_seconds}

    async def _send_events(self, subscription: Subscription, scope: Scope, receive: Any, send: Any) -> None:
        """Rule 2. Ends when the listener goes away, is cut off, or the process ends."""
        gone = asyncio.ensure_future(_disconnected(receive))
        gone.add_done_callback(lambda _: subscription.end())
        ending = asyncio.get_running_loop().call_later(STREAM_SECONDS, subscription.end)
        try:
            await _send(send, {"type": "http.response.start", "status": 200, "headers": list(_STREAM)})
            await _send(send, {"type": "http.response.body", "body": _RETRY, "more_body": True})
            while events := await subscription.next():
                body = b"".join([spelled for _, spelled in events])
                await _send(send, {"type": "http.response.body", "body": body, "more_body": True})
            await _send(send, {"type": "http.response.body", "body": b""})
        except TimeoutError:
            log.warning("a listener of the feed does not take what is sent to it and is cut off")
            hang_up = scope.get("extensions", {}).get(HANG_UP)
            if hang_up is not None:
                hang_up()
                await gone
        finally:
            ending.cancel()
            self._listeners.unsubscribe(subscription)
            subscription.ended()
            gone.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await gone


async def _send(send: Any, message: Any) -> None:
    async with asyncio.timeout(SEND_SECONDS):
        await send(message)


async def _disconnected(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _too_many() -> Refusal:
    return Refusal(
        Reason.LISTENERS_TOO_MANY, f"at most {MOST_LISTENING} at once; one for each process that verifies is enough"
    )


def _credentials(scope: Scope) -> Any:
    return parse_header_credentials(header_values(scope, b"authorization"))


def _one(values: list[str]) -> str:
    return values[0] if len(values) == 1 else ""


def _parse_body(body: bytes) -> JsonObject | Refusal:
    try:
        return parse_json_object(body)
    except JsonError as error:
        return Refusal(Reason.REQUEST_MALFORMED, f"not acceptable JSON: {error}", "body")


def _read_query(query: bytes) -> tuple[Point | None, float] | Refusal:
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, strict_parsing=bool(query), max_num_fields=8)
    except ValueError:
        return Refusal(Reason.REQUEST_MALFORMED, "the query is not well formed", "query")
    given = dict(pairs)
    if len(given) != len(pairs) or not set(given) <= {"since", "wait"}:
        return Refusal(Reason.PARAMETER_INVALID, "expected: since and wait, each at most once", "query")
    since = parse_point(given["since"]) if "since" in given else None
    if "since" in given and since is None:
        return Refusal(Reason.PARAMETER_INVALID, "gen:seq was expected, two counters", "since")
    wait = given.get("wait", "0")
    if not (wait.isascii() and wait.isdecimal() and len(wait) <= 2 and int(wait) <= MAX_WAIT_SECONDS):
        return Refusal(Reason.PARAMETER_INVALID, f"whole seconds up to {MAX_WAIT_SECONDS:g} were expected", "wait")
    return since, float(wait)
