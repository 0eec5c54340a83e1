"""What a server refuses without acting is sent once more, over a new connection; what it did is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from broker.adapters.redis.connection import dialer
from broker.adapters.redis.pipeline import Pipeline
from broker.adapters.redis.replies import failure_of
from broker.adapters.redis.topology import OneAddress
from broker.domain.errors import (
    BrokerError,
    StoreUnavailableError,
    StoreUnclaimedError,
    StoreUnsuitableError,
)
from redis.exceptions import ResponseError

HANG_UP = None


class Script:
    """A server that answers the requests of one connection after another with what stands in its script."""

    def __init__(self, *connections: list[bytes | None]) -> None:
        self.connections = list(connections)
        self.seen: list[list[bytes]] = []
        self.serving: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.serving.add(task)
        answers = self.connections.pop(0) if self.connections else []
        seen: list[bytes] = []
        self.seen.append(seen)
        for answer in answers:
            seen.append(await _request(reader))
            if answer is HANG_UP:
                break
            writer.write(answer + b"\r\n")
        await writer.drain()
        if answers and answers[-1] is not HANG_UP:
            await reader.read()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def _request(reader: asyncio.StreamReader) -> bytes:
    words = []
    for _ in range(int((await reader.readline())[1:])):
        size = int((await reader.readline())[1:])
        words.append((await reader.readexactly(size + 2))[:-2])
    return b" ".join(words)


@asynccontextmanager
async def asking(script: Script, *, replicas: int = 0) -> AsyncIterator[Pipeline]:
    async with await asyncio.start_server(script.serve, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        dial = dialer({"host": host, "port": port}, connect_seconds=1.0, protocol=2)
        pipeline = Pipeline(OneAddress(dial), call_seconds=2.0, queue_limit=10, replicas=replicas)
        yield pipeline
        await pipeline.close()
        if script.serving:
            await asyncio.wait(script.serving)


REFUSALS = {
    "READONLY": b"-READONLY You can't write against a read only replica.",
    "MASTERDOWN": b"-MASTERDOWN Link with MASTER is down",
    "LOADING": b"-LOADING the dataset is being loaded",
    "MOVED": b"-MOVED 1 127.0.0.1:1",
    "ASK": b"-ASK 1 127.0.0.1:1",
    "TRYAGAIN": b"-TRYAGAIN Multiple keys request during rehashing of slot",
    "CLUSTERDOWN": b"-CLUSTERDOWN The cluster is down",
    "NOSCRIPT": b"-NOSCRIPT No matching script.",
    "no function": b"-ERR Function not found",
    "a lost answer": HANG_UP,
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
async def test_what_was_refused_or_not_answered_is_sent_once_more_over_a_new_connection(refusal: bytes | None) -> None:
    script = Script([refusal], [b"+done"])
    async with asking(script) as pipeline:
        assert await pipeline.call("STEP") == b"done"
        assert script.seen == [[b"STEP"], [b"STEP"]]
        assert pipeline.calls == 2


@pytest.mark.parametrize(
    ("refusal", "failure"),
    [
        ("READONLY", StoreUnavailableError),
        ("MASTERDOWN", StoreUnavailableError),
        ("LOADING", StoreUnavailableError),
        ("MOVED", StoreUnsuitableError),  # at one address; `test_store_failover_cluster.py` has it in a cluster
        ("TRYAGAIN", StoreUnavailableError),
        ("CLUSTERDOWN", StoreUnavailableError),
        ("no function", StoreUnclaimedError),
        ("a lost answer", StoreUnavailableError),
    ],
)
async def test_what_is_refused_twice_fails_and_is_not_tried_a_third_time(
    refusal: str, failure: type[BrokerError]
) -> None:
    script = Script([REFUSALS[refusal]], [REFUSALS[refusal]], [b"+done"])
    async with asking(script) as pipeline:
        reply = await pipeline.call("STEP")
        assert type(failure_of(reply) if isinstance(reply, ResponseError) else reply) is failure
        assert script.seen == [[b"STEP"], [b"STEP"]]


async def test_of_a_batch_only_what_was_refused_is_sent_again() -> None:
    script = Script([b"+one", REFUSALS["READONLY"], b"-ERR no", b"+four"], [b"+two"])
    async with asking(script) as pipeline:
        replies = await asyncio.gather(*(pipeline.call(name) for name in ("A", "B", "C", "D")))
        assert [str(reply) for reply in replies] == [str(b"one"), str(b"two"), "no", str(b"four")]
        assert script.seen == [[b"A", b"B", b"C", b"D"], [b"B"]]


async def test_each_batch_ends_with_a_count_of_replicas_and_its_calls_have_it() -> None:
    script = Script([b"+one", b"+two", b":2", b"+three", b":0"])
    async with asking(script, replicas=2) as pipeline:
        assert await asyncio.gather(pipeline.call("A"), pipeline.call("B")) == [(b"one", 2), (b"two", 2)]
        assert await pipeline.call("C") == (b"three", 0)
        assert script.seen == [[b"A", b"B", b"WAIT 2 500", b"C", b"WAIT 2 500"]]


async def test_a_count_that_is_refused_is_no_count() -> None:
    script = Script([b"+one", b"-NOPERM this user has no permissions to run the 'wait' command"])
    async with asking(script, replicas=1) as pipeline:
        assert await pipeline.call("A") == (b"one", -1)


async def test_a_count_that_was_lost_is_asked_for_again_with_its_write() -> None:
    script = Script([b"+one", HANG_UP], [b"+again", b":1"])
    async with asking(script, replicas=1) as pipeline:
        assert await pipeline.call("A") == (b"again", 1)
        assert script.seen == [[b"A", b"WAIT 1 500"], [b"A", b"WAIT 1 500"]]
