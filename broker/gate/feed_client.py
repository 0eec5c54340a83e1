"""The feed's three calls, as a verifier makes them (the wire: `domain.revocation.feed`).

| call   | request                                    | gives                                                      |
|--------|--------------------------------------------|------------------------------------------------------------|
| renew  | `POST /revocations/lease`                  | the point and the seconds of a lease                       |
| listen | `GET /revocations/stream`                  | events, as they come; each within `silence_seconds`        |
| poll   | `GET /revocations?since=gen:seq&wait=…`    | the events since a point, after `wait` seconds with none   |

A renewal that succeeded is no news: at two a second, the HTTP client's line about each would fill a log.

Every failure is a `BrokerUnreachableError`; `MuteError` is the one where the broker answers, but no event comes through.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, cast

import httpx2

from broker.domain.canonical import JsonObject
from broker.domain.revocation.feed import Event, FeedError, Point, parse_event, spell_point
from broker.gate.broker_http import BrokerHttp, BrokerUnreachableError, refused, retry_after
from broker.gate.client_auth import ClientAuth

FORMAT: Final = 1
MAX_EVENT_BYTES: Final = 67_108_864  # a snapshot holds every mark and every version
MAX_LEASE_SECONDS: Final = 60.0
POLL_SECONDS: Final = 10  # the most that a broker waits
_LEASE_PATH: Final = "/revocations/lease"
_LEASE_DEADLINE_SECONDS: Final = 1.5  # what comes later leaves too little of a lease to be worth the work
_NO_STREAM: Final = frozenset({404, 405, 406, 501})


def _is_news(record: logging.LogRecord) -> bool:
    said = record.args if isinstance(record.args, tuple) else ()
    return not (len(said) > 3 and said[3] == 200 and str(said[1]).endswith(_LEASE_PATH))


logging.getLogger("httpx2").addFilter(_is_news)


class MuteError(BrokerUnreachableError):
    """Something answers, but it is no stream of events: a proxy that gathers them, or a broker without the endpoint.

    Raised: by `listen`.
    Wire:   none; the follower polls instead.
    Retry:  yes.
    """


@dataclass(frozen=True, slots=True)
class Granted:
    """A lease, as it was answered."""

    point: Point
    lease_seconds: float


class FeedClient:
    """The feed of one broker, for one client. Use it from one event loop."""

    def __init__(self, urls: Sequence[str], auth: ClientAuth, *, silence_seconds: float) -> None:
        self._auth = auth
        self._silence = silence_seconds
        # Two pools: a lease waits for no stream, and goes on at another address when a stream does.
        self._leases = BrokerHttp(urls, timeout_seconds=_LEASE_DEADLINE_SECONDS, max_connections=2)
        self._events = BrokerHttp(
            urls, timeout_seconds=POLL_SECONDS + 5.0, max_connections=4, max_answer_bytes=MAX_EVENT_BYTES
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._leases.aclose()
        await self._events.aclose()

    def pass_on(self) -> None:
        """What this address tells is of no use: listen at the next one."""
        self._events.pass_on()

    async def renew(self, verifier: str, applied: Point) -> Granted:
        """Ask for a lease, and say what has been applied."""
        said = {"v": FORMAT, "verifier": verifier, "gen": applied.gen, "applied": applied.seq}
        content = json.dumps(said, separators=(",", ":")).encode()

        def make(url: str) -> httpx2.Request:
            headers = {**self._auth.api_headers(), "Accept": "application/json", "Content-Type": "application/json"}
            return self._leases.client.build_request("POST", url + _LEASE_PATH, headers=headers, content=content)

        status, _, body = await self._leases.send(make, tries=2)
        if status != 200:
            raise _no(status, body)
        seconds = body.get("lease_seconds")
        if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 < seconds <= MAX_LEASE_SECONDS:
            raise BrokerUnreachableError("the broker's answer to a renewal has no lease_seconds")
        return Granted(_point(body), float(seconds))

    async def poll(self, since: Point | None) -> list[Event]:
        """The events since a point; a snapshot where there is none."""
        params = {"wait": str(POLL_SECONDS), **({} if since is None else {"since": spell_point(since)})}

        def make(url: str) -> httpx2.Request:
            headers = {**self._auth.api_headers(), "Accept": "application/json"}
            return self._events.client.build_request("GET", url + "/revocations", headers=headers, params=params)

        status, _, body = await self._events.send(make, tries=1)
        if status != 200:
            raise _no(status, body)
        listed = body.get("events")
        if body.get("v") != FORMAT or not isinstance(listed, list):
            raise BrokerUnreachableError("the broker's answer to a poll has no events")
        return [_read(item) for item in listed]

    async def listen(self, since: Point | None) -> AsyncGenerator[Event, None]:
        """Events from after a point; from a snapshot on where there is none. Ends with the stream; close it."""
        headers = {**self._auth.api_headers(), "Accept": "text/event-stream", "Cache-Control": "no-store"}
        if since is not None:
            headers["Last-Event-ID"] = spell_point(since)
        url = self._events.url
        request = self._events.client.build_request(
            "GET", url + "/revocations/stream", headers=headers, timeout=self._silence
        )
        try:
            async with asyncio.timeout(self._silence):
                answer = await self._events.client.send(request, stream=True)
            try:
                async with aclosing(self._heard(answer)) as events:
                    async for event in events:
                        yield event
            finally:
                await answer.aclose()
        except (httpx2.HTTPError, TimeoutError) as error:
            self._events.pass_on()
            raise BrokerUnreachableError(f"the stream of {url} failed: {type(error).__name__}") from None

    async def _heard(self, answer: httpx2.Response) -> AsyncGenerator[Event, None]:
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        if answer.status_code in _NO_STREAM or (answer.status_code == 200 and kind != "text/event-stream"):
            raise MuteError("there is no stream of events at this address")
        if answer.status_code != 200:
            self._events.pass_on()
            wait = retry_after(answer.headers)
            raise BrokerUnreachableError(
                f"{answer.request.url} answered {answer.status_code}", retry_after_seconds=wait
            )
        has_come = False
        source = httpx2.EventSource(answer, max_event_size=MAX_EVENT_BYTES)
        async with aclosing(cast("AsyncGenerator[httpx2.ServerSentEvent, None]", aiter(source))) as events:
            while True:
                try:
                    async with asyncio.timeout(self._silence):
                        found = await anext(events)
                except StopAsyncIteration:
                    if has_come:
                        return
                    raise MuteError("the stream ended before anything came") from None
                except (TimeoutError, httpx2.ReadTimeout):
                    if not has_come:
                        raise MuteError("the stream is open, and nothing comes") from None
                    raise
                if not found.data:
                    continue  # a `retry:` alone is no event (HTML §9.2.6)
                has_come = True
                try:
                    event = parse_event(found.event, found.data)
                except FeedError as error:
                    raise BrokerUnreachableError(f"the stream cannot be read: {error}") from None
                yield event


def _read(item: object) -> Event:
    kind = item.get("event") if isinstance(item, dict) else None
    try:
        return parse_event(kind if isinstance(kind, str) else "", item if isinstance(item, dict) else {})
    except FeedError as error:
        raise BrokerUnreachableError(f"an event of a poll cannot be read: {error}") from None


def _point(body: JsonObject) -> Point:
    gen, seq = body.get("gen"), body.get("seq")
    if body.get("v") != FORMAT or not isinstance(gen, int) or not isinstance(seq, int) or gen < 0 or seq < 0:
        raise BrokerUnreachableError("the broker's answer to a renewal has no gen and seq")
    return Point(gen, seq)


def _no(status: int, body: JsonObject) -> BrokerUnreachableError:
    """A refusal of this client is a mistake in the settings, not of the credentials: nothing may be accepted."""
    return BrokerUnreachableError(
        f"the broker refuses this client the feed: {refused(status, body).reason}; its trust.yaml must hold this client_id with "
        "this key or secret, and with introspect or exchange under `may`"
    )
