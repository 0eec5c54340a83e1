"""A reverse proxy before a broker that does to its feed what networks do: loses an event, gathers, goes silent, is slow.

`requests` counts what came through, by method and path. Everything else passes as it is.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx2
from gate_parts import running

_NOT_PASSED = {b"host", b"connection", b"transfer-encoding", b"content-length", b"accept-encoding"}
STREAM = "/revocations/stream"


@dataclass
class FeedProxy:
    """upstream: where it passes to; may be changed.

    lose: so many of the next `change` events are swallowed. gather: streams open, and nothing comes through. silent: streams
    that are open say nothing more. delay_seconds: each part of a stream comes so much later. refuse: answers of 502.
    """

    upstream: str
    url: str = ""
    lose: int = 0
    gather: bool = False
    silent: bool = False
    refuse: bool = False
    delay_seconds: float = 0.0
    requests: Counter[str] = field(default_factory=Counter)
    open_streams: int = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        path = scope["path"]
        self.requests[f"{scope['method']} {path}"] += 1
        if self.refuse:
            await _answer(send, 502, [], b"")
            return
        gone = asyncio.ensure_future(_gone(receive))
        passing = asyncio.ensure_future(self._pass(scope, body, send))
        try:
            await asyncio.wait([gone, passing], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (gone, passing):
                task.cancel()
            await asyncio.gather(gone, passing, return_exceptions=True)

    async def _pass(self, scope: Any, body: bytes, send: Any) -> None:
        query = scope["query_string"].decode()
        url = self.upstream + scope["path"] + (f"?{query}" if query else "")
        headers = [(name, value) for name, value in scope["headers"] if name not in _NOT_PASSED]
        async with httpx2.AsyncClient(timeout=30, trust_env=False) as client:
            request = client.build_request(scope["method"], url, headers=headers, content=body or None)
            try:
                answer = await client.send(request, stream=True)
            except httpx2.TransportError:
                await _answer(send, 502, [], b"")
                return
            try:
                kept = [(name, value) for name, value in answer.headers.raw if name.lower() not in _NOT_PASSED]
                if scope["path"] == STREAM and answer.status_code == 200:
                    await self._stream(answer, kept, send)
                else:
                    await _answer(send, answer.status_code, kept, await answer.aread())
            finally:
                await answer.aclose()

    async def _stream(self, answer: httpx2.Response, headers: Any, send: Any) -> None:
        self.open_streams += 1
        try:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            rest = b""
            with suppress(httpx2.TransportError):
                async for part in answer.aiter_raw():
                    *events, rest = (rest + part).split(b"\n\n")
                    for event in events:
                        if self.gather or self.silent:
                            continue
                        if self.lose and event.startswith(b"event: change"):
                            self.lose -= 1
                            continue
                        await asyncio.sleep(self.delay_seconds)
                        await send({"type": "http.response.body", "body": event + b"\n\n", "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            self.open_streams -= 1


async def _gone(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _answer(send: Any, status: int, headers: Any, body: bytes) -> None:
    sized = [*headers, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": sized})
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def proxied(upstream: str, **options: Any) -> AsyncIterator[FeedProxy]:
    """A proxy at work before a broker."""
    made = FeedProxy(upstream, **options)
    async with running(made, lifespan="off") as url:
        made.url = url
        yield made
