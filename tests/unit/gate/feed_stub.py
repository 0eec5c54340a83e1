"""A broker's feed that says what a test tells it to, over real HTTP: each stream, poll and lease as it comes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from broker.domain.revocation.feed import Event, Point, event_json, kind_of, spell_event

from broker_parts import free_port


@dataclass
class FeedStub:
    """script: what each stream that is opened begins with, the last one again and again. bytes go out as they are.

    since: what each stream and poll asked to resume from. leases: bodies of the requests. `lease` is what is granted; None: 503.
    """

    script: list[list[Event | bytes]] = field(default_factory=list)
    lease: Point | None = field(default_factory=lambda: Point(5, 10))
    lease_seconds: float = 2.0
    has_stream: bool = True
    ends_at_once: bool = False
    hold: asyncio.Event = field(default_factory=asyncio.Event)
    since: list[str | None] = field(default_factory=list)
    polls: list[str] = field(default_factory=list)
    polled: list[list[Event]] = field(default_factory=list)
    leases: list[dict[str, Any]] = field(default_factory=list)
    busy: int = 0
    most_at_once: int = 0
    streams: list[asyncio.Queue[bytes | None]] = field(default_factory=list)
    url: str = ""

    def __post_init__(self) -> None:
        self.hold.set()

    def say(self, *events: Event) -> None:
        """To the stream that was opened last."""
        for event in events:
            self.streams[-1].put_nowait(spell_event(event))

    def end(self) -> None:
        """The stream that was opened last."""
        self.streams[-1].put_nowait(None)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"]
        if path == "/revocations/lease":
            await self._lease(receive, send)
        elif path == "/revocations":
            self.polls.append(scope["query_string"].decode())
            if not self.polled:
                await asyncio.sleep(0.05)
            events = self.polled.pop(0) if self.polled else []
            listed = [{"event": kind_of(event), **event_json(event)} for event in events]
            await _answer(send, 200, {"v": 1, "events": listed})
        elif self.has_stream:
            await self._stream(scope, receive, send)
        else:
            await _answer(send, 404, {"error": "not_found"})

    async def _lease(self, receive: Any, send: Any) -> None:
        self.leases.append(json.loads((await receive())["body"]))
        self.busy += 1
        self.most_at_once = max(self.most_at_once, self.busy)
        await self.hold.wait()
        self.busy -= 1
        if self.lease is None:
            await _answer(send, 503, {"error": "temporarily_unavailable"})
            return
        point = self.lease
        await _answer(send, 200, {"v": 1, "gen": point.gen, "seq": point.seq, "lease_seconds": self.lease_seconds})

    async def _stream(self, scope: Any, receive: Any, send: Any) -> None:
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.since.append(headers.get("last-event-id"))
        first = self.script.pop(0) if len(self.script) > 1 else self.script[0] if self.script else []
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.streams.append(queue)
        kind = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": kind})
        begun = b"retry: 250\n\n" + b"".join(one if isinstance(one, bytes) else spell_event(one) for one in first)
        await send({"type": "http.response.body", "body": begun, "more_body": True})
        gone = asyncio.ensure_future(_gone(receive))
        try:
            while not self.ends_at_once:
                following = asyncio.ensure_future(queue.get())
                await asyncio.wait([gone, following], return_when=asyncio.FIRST_COMPLETED)
                if not following.done():
                    following.cancel()
                    return
                part = following.result()
                if part is None:
                    break
                await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            gone.cancel()


async def _gone(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _answer(send: Any, status: int, body: Any) -> None:
    content = json.dumps(body).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


@asynccontextmanager
async def stubbed(**options: Any) -> AsyncIterator[FeedStub]:
    stub = FeedStub(**options)
    config = uvicorn.Config(stub, host="127.0.0.1", port=free_port(), log_level="critical", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    task = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    stub.url = f"http://127.0.0.1:{config.port}"
    try:
        yield stub
    finally:
        stub.hold.set()
        for queue in stub.streams:
            queue.put_nowait(None)
        server.should_exit = True
        await task


async def until(condition: Callable[[], object], *, seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.002)
