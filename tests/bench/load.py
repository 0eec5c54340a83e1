"""A closed loop of keep-alive connections: each sends a prepared request, reads the whole answer, sends the next."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import httptools


@dataclass(slots=True)
class Outcome:
    """seconds: of the whole load. latencies: seconds of each request. statuses: how often each status came."""

    requests: int = 0
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)
    first_bad: bytes = b""


class _Connection(asyncio.Protocol):
    def __init__(
        self,
        requests: Iterator[bytes],
        outcome: Outcome,
        until: float,
        done: asyncio.Future[None],
        keep: Callable[[bytes], None],
    ) -> None:
        self._requests = requests
        self._outcome = outcome
        self._until = until
        self._done = done
        self._keep = keep
        self._sent = 0.0
        self._body = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._next()

    def _next(self) -> None:
        request = next(self._requests, None) if time.perf_counter() < self._until else None
        if request is None:
            self._transport.close()
            if not self._done.done():
                self._done.set_result(None)
            return
        self._parser = httptools.HttpResponseParser(self)
        self._body = b""
        self._sent = time.perf_counter()
        self._transport.write(request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        outcome = self._outcome
        outcome.requests += 1
        outcome.latencies.append(time.perf_counter() - self._sent)
        status = self._parser.get_status_code()
        outcome.statuses[status] = outcome.statuses.get(status, 0) + 1
        if status == 200:
            self._keep(self._body)
        elif not outcome.first_bad:
            outcome.first_bad = self._body
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done.done():
            self._done.set_result(None)


async def run_load(
    port: int,
    requests: Iterator[bytes],
    *,
    connections: int,
    seconds: float,
    keep: Callable[[bytes], None] = lambda body: None,
) -> Outcome:
    """Keep `connections` busy for `seconds`, or until the requests run out. `keep` gets each successful body."""
    loop = asyncio.get_running_loop()
    outcome = Outcome()
    begun = time.perf_counter()
    done = [loop.create_future() for _ in range(connections)]
    for future in done:
        await loop.create_connection(
            lambda future=future: _Connection(requests, outcome, begun + seconds, future, keep), "127.0.0.1", port
        )
    await asyncio.gather(*done)
    outcome.seconds = time.perf_counter() - begun
    return outcome
