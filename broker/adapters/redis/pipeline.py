"""Concurrent calls share one connection and one round trip.

1. A call joins the queue; a queue that is full is refused at once.
2. One pump sends everything that is waiting as one write, and reads exactly as many answers as it sent. Who has stopped
   waiting is passed over when the answer comes, so an answer never reaches another caller.
3. A batch has one deadline: that of the call that has waited longest. So no call waits longer than `call_seconds`.
4. A connection that breaks or does not answer is closed, never used again. What was broken off is sent once more within
   the deadline, which is safe because every call acts once for its id. Then all that wait fail.
5. What a server refused without acting, because it is not or no longer the one to ask (a replica, another slot's node, one
   that lacks the functions), is sent once more over a new connection, for which the topology is asked anew.
6. With `replicas`, each batch ends with WAIT, and an answer is a pair: the reply, and how many replicas have acknowledged
   the batch, -1 where that is unknown. Only what writes each time it is called may go this way: WAIT counts for the last
   write of its connection, and a repeat that writes nothing would be counted at once.
7. A connection belongs to one process and one event loop; after a fork, or in another loop, there is a new one.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from typing import Final

from hiredis import pack_command
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import AskError, RedisError, ResponseError, TryAgainError
from redis.exceptions import ConnectionError as BrokenError
from redis.exceptions import TimeoutError as SlowError

from broker.adapters.redis.replies import failure_of, is_elsewhere
from broker.adapters.redis.topology import Topology, closed
from broker.domain.errors import BrokerError, StoreUnavailableError

BATCH_CALLS: Final = 256
WAIT_SHARE: Final = 4
"""WAIT may take this part of a call's time: a call that queues behind a batch that waits in vain still has its own turn."""

_left_behind: list[object] = []
"""Connections of a parent process: closing them here would reach into the parent's event loop."""


class _Call:
    """One command on its way: when it joined, its bytes, who waits for it."""

    __slots__ = ("answer", "command", "joined")

    def __init__(self, joined: float, command: bytes, answer: asyncio.Future[object]) -> None:
        self.joined = joined
        self.command = command
        self.answer = answer


class Pipeline:
    """Sends commands and hands back replies; an error reply is handed back as a value.

    calls: how many commands were sent, repeats included. replicas: how many must have each batch (6).
    """

    def __init__(self, topology: Topology, *, call_seconds: float, queue_limit: int, replicas: int = 0) -> None:
        self.calls = 0
        self._topology = topology
        self._call_seconds = call_seconds
        wait: tuple[str | int, ...] = ("WAIT", replicas, int(call_seconds * 1000 / WAIT_SHARE))
        self._wait = pack_command(wait) if replicas else b""  # type: ignore[arg-type]
        self._replicas = replicas
        self._queue_limit = queue_limit
        self._queue: deque[_Call] = deque()
        self._connection: AbstractConnection | None = None
        self._pump: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0
        self._wake = asyncio.Event()

    def call(self, *command: bytes | str | int) -> asyncio.Future[object]:
        """The reply to come. Raises `StoreUnavailableError` at once where too many calls wait already."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop or self._pid != os.getpid() or self._pump is None or self._pump.done():
            self._begin(loop)
        if len(self._queue) >= self._queue_limit:
            raise StoreUnavailableError("too many calls wait for the store")
        answer: asyncio.Future[object] = loop.create_future()
        self._queue.append(_Call(loop.time(), pack_command(command), answer))  # type: ignore[arg-type]
        self._wake.set()
        return answer

    async def close(self) -> None:
        """Close the connection; calls still waiting fail."""
        pump, self._pump = self._pump, None
        if pump is None or self._pid != os.getpid() or self._loop is not asyncio.get_running_loop():
            return
        pump.cancel()
        await asyncio.wait([pump])
        await self._drop()
        self._fail("the broker is closing its connection to the store")

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._loop is not None and (self._pid != os.getpid() or loop is not self._loop):
            _left_behind.append((self._connection, self._pump, self._queue))
            self._connection, self._queue = None, deque()
        self._loop, self._pid, self._wake = loop, os.getpid(), asyncio.Event()
        self._pump = loop.create_task(self._run(), name="store pipeline")

    async def _run(self) -> None:
        queue = self._queue
        while True:
            if not queue:
                self._wake.clear()
                await self._wake.wait()
            batch: list[_Call] = []
            while queue and len(batch) < BATCH_CALLS:
                call = queue.popleft()
                if not call.answer.done():
                    batch.append(call)
            if batch:
                await self._serve(batch)

    async def _serve(self, batch: list[_Call]) -> None:
        """One batch, to its end: every call in it is answered or has failed (3, 4)."""
        try:
            async with asyncio.timeout_at(batch[0].joined + self._call_seconds):
                try:
                    refused = await self._exchange(batch)
                except (BrokenError, OSError):
                    refused = [call for call in batch if not call.answer.done()]
                if refused:
                    await self._drop()
                    await self._exchange(refused, again=True)
        except (TimeoutError, SlowError):
            await self._lose(batch, StoreUnavailableError(f"the store did not answer within {self._call_seconds:g} s"))
        except (BrokenError, OSError) as error:
            known = failure_of(error) if isinstance(error, RedisError) else None
            await self._lose(batch, known or StoreUnavailableError("the store cannot be reached"))
        except RedisError as error:  # while connecting: wrong password, rights
            await self._lose(batch, failure_of(error))
        except BrokerError as error:  # while the primary is looked for
            await self._lose(batch, error)
        except asyncio.CancelledError:
            await self._lose(batch, StoreUnavailableError("the broker is closing its connection to the store"))
            raise
        except Exception as error:
            # answers may be out of step from here on, so the connection goes as well
            await self._lose(
                batch, StoreUnavailableError(f"the store's answer is not understood ({type(error).__name__})")
            )

    async def _exchange(self, batch: list[_Call], *, again: bool = False) -> list[_Call]:
        """One round trip; the calls that were refused without acting (5), none when it is the second one."""
        connection = await self._connected()
        self.calls += len(batch)
        commands = [call.command for call in batch]
        await connection.send_packed_command(b"".join([*commands, self._wait]), check_health=False)
        refused: list[_Call] = []
        answers: list[tuple[_Call, object]] = []
        for call in batch:
            reply = await self._read(connection)
            if isinstance(reply, ResponseError) and is_elsewhere(reply):
                if not again:
                    refused.append(call)
                    continue
                if self._topology.can_move and isinstance(reply, AskError | TryAgainError):
                    reply = StoreUnavailableError("the tenant's slot is moving from one node of the cluster to another")
            if self._wait:
                answers.append((call, reply))
            elif not call.answer.done():
                call.answer.set_result(reply)
        if self._wait:
            counted = await self._read(connection)
            acknowledged = counted if type(counted) is int else -1
            for call, reply in answers:
                if not call.answer.done():
                    call.answer.set_result((reply, acknowledged))
            self._topology.look(soon=acknowledged < self._replicas)
        else:
            self._topology.look()
        return refused

    async def _connected(self) -> AbstractConnection:
        connection = self._connection
        if connection is not None and not self._topology.is_present(connection):
            await self._drop()
            connection = None
        if connection is None:
            self._connection = connection = await self._topology.open()
        return connection

    async def _read(self, connection: AbstractConnection) -> object:
        try:
            return await connection.read_response(disconnect_on_error=False)
        except BrokenError:
            raise
        except ResponseError as error:
            return error

    async def _lose(self, batch: list[_Call], failure: BrokerError) -> None:
        await self._drop()
        self._fail(failure, batch)

    def _fail(self, failure: BrokerError | str, batch: list[_Call] | None = None) -> None:
        said = StoreUnavailableError(failure) if isinstance(failure, str) else failure
        for call in [*(batch or ()), *self._queue]:
            if not call.answer.done():
                call.answer.set_result(said)
        self._queue.clear()

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await closed(connection)
