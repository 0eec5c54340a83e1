"""A listener that takes nothing is cut off, not waited for and not buffered; the others hear on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from broker.domain.revocation.feed import Heartbeat
from broker.http import feed
from broker.http.api import Api, make_api

from broker_parts import basic
from composed_broker import composed


def stream_request(hang_up: Callable[[], None]) -> dict[str, Any]:
    return {
        "type": "http",
        "method": "GET",
        "path": "/revocations/stream",
        "query_string": b"",
        "headers": [(b"authorization", basic("svc").encode())],
        "extensions": {feed.HANG_UP: hang_up},
    }


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


async def test_who_takes_nothing_is_hung_up_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "SEND_SECONDS", 0.2)
    async with composed(tmp_path) as (parts, _):
        api = make_api(parts.use_cases)
        assert isinstance(api, Api)
        await eventually(lambda: parts.following.point is not None)
        gone = asyncio.Event()
        heard: list[bytes] = []

        async def receive() -> Any:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def stuck(message: Any) -> None:
            if message["type"] == "http.response.body":
                await asyncio.Event().wait()

        async def taking(message: Any) -> None:
            heard.append(message.get("body", b""))

        async def listen(send: Callable[[Any], Awaitable[None]]) -> None:
            await api(stream_request(gone.set), receive if send is stuck else asyncio.Event().wait, send)

        slow, quick = asyncio.ensure_future(listen(stuck)), asyncio.ensure_future(listen(taking))
        await asyncio.wait_for(slow, 20)
        assert gone.is_set(), "the server was told to hang up"
        await eventually(lambda: parts.following.listeners.count == 1)
        count = len(heard)
        await eventually(lambda: len(heard) > count)
        assert not quick.done()
        parts.following.listeners.close()
        await asyncio.wait_for(quick, 20)
        assert heard[-1] == b"", "in order"


async def test_who_lets_too_much_wait_is_cut_off(tmp_path: Path) -> None:
    async with composed(tmp_path) as (parts, _):
        await eventually(lambda: parts.following.point is not None)
        subscription = parts.following.listeners.subscribe(None)
        for _ in range(600):  # as many beats as half an hour has, without one of them being taken
            at = parts.following.point or pytest.fail("it knows nothing")
            parts.following.listeners.publish(Heartbeat(at.gen, at.seq))
        assert subscription.is_over
        assert await subscription.next() == []
