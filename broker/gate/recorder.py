"""Call records on their way to the broker's audit log.

| record | when                        | if it cannot be delivered                                            |
|--------|-----------------------------|----------------------------------------------------------------------|
| start  | before the tool runs        | the tool does not run                                                |
| end    | after it, waited for shortly | kept, and sent again with the next batch                             |
| deny   | after a refusal, not waited for | kept likewise; beyond `MAX_WAITING` the newest are dropped and counted |

What is waiting goes out together, at most `MAX_BATCH` in a request, one request at a time: many calls share one durable
write. Records that the broker refuses as malformed are dropped and said in the log, or they would be sent for ever.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from typing import Final

import anyio

from broker.domain.canonical import JsonObject, JsonValue
from broker.gate.broker_client import BrokerClient
from broker.gate.broker_http import BrokerUnreachableError, Refused

MAX_BATCH: Final = 256
MAX_WAITING: Final = 4_096

logger = logging.getLogger("broker.gate")


@dataclass(frozen=True, slots=True)
class CallFacts:
    """What every record of one call holds. None where unknown. act: the chain of actors, where it is one."""

    tool: str
    txn: str
    version: str | None = None
    contract: str | None = None
    task: str | None = None
    protocol_version: str | None = None
    application: str | None = None
    agent: str | None = None
    agent_issuer: str | None = None
    account: str | None = None
    account_issuer: str | None = None
    jti: str | None = None
    act: JsonObject | None = None

    def record(self, event: str, **more: JsonValue) -> JsonObject:
        """A record of the call, as `POST /calls` takes it."""
        facts: dict[str, JsonValue] = {name: getattr(self, name) for name in self.__slots__}
        return {"event": event, **{name: value for name, value in {**facts, **more}.items() if value is not None}}


@dataclass(eq=False, slots=True)
class _Waiting:
    record: JsonObject
    done: asyncio.Future[None]
    must: bool  # to be delivered now or not at all


class Recorder:
    """Delivers records in batches. Use it from one event loop."""

    def __init__(self, broker: BrokerClient) -> None:
        self._broker = broker
        self._waiting: deque[_Waiting] = deque()
        self._wake = asyncio.Event()
        self._sender: asyncio.Task[None] | None = None
        self.dropped = 0

    async def start(self, record: JsonObject) -> None:
        """Returns once the record is durable. Raises `BrokerUnreachableError`; it may be durable all the same."""
        await asyncio.shield(self._enqueue(record, must=True).done)

    async def end(self, record: JsonObject, *, deadline_seconds: float) -> None:
        """Returns once the record is durable, or at the deadline; then it is sent later."""
        with anyio.move_on_after(deadline_seconds):
            await asyncio.shield(self._enqueue(record, must=False).done)

    def deny(self, record: JsonObject) -> None:
        """Returns at once; the record goes out in the background."""
        self._enqueue(record, must=False)

    async def drain(self, *, deadline_seconds: float) -> None:
        """Wait for what is on its way, at the end of the process."""
        with anyio.move_on_after(deadline_seconds):
            while self._sender is not None and not self._sender.done():
                await asyncio.wait({self._sender})

    def _enqueue(self, record: JsonObject, *, must: bool) -> _Waiting:
        waiting = _Waiting(record, asyncio.get_running_loop().create_future(), must)
        waiting.done.add_done_callback(_looked_at)
        if len(self._waiting) >= MAX_WAITING:
            self.dropped += 1
            logger.warning("%d call records dropped: the broker takes none at present", self.dropped)
            waiting.done.set_exception(BrokerUnreachableError("too many call records are waiting"))
            return waiting
        self._waiting.append(waiting)
        self._wake.set()
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send_all(), name="broker-gate-recorder")
        return waiting

    async def _send_all(self) -> None:
        while self._waiting:
            self._wake.clear()
            batch = [self._waiting.popleft() for _ in range(min(MAX_BATCH, len(self._waiting)))]
            try:
                await self._deliver(batch)
            except BrokerUnreachableError as error:
                self._put_back(batch, error)
                with anyio.move_on_after(error.retry_after_seconds):
                    await self._wake.wait()

    async def _deliver(self, batch: list[_Waiting]) -> None:
        try:
            refused = await self._broker.report([waiting.record for waiting in batch])
        except (
            TypeError,
            ValueError,
        ) as error:  # no JSON: a mistake of ours, not the others'
            refused = Refused(status=400, error="invalid_request", reason="request_malformed", description=str(error))
        if refused is None:
            for waiting in batch:
                if not waiting.done.done():
                    waiting.done.set_result(None)
        elif refused.status == 400 and len(batch) > 1:
            for waiting in batch:
                await self._deliver([waiting])
        else:
            logger.error("the broker refuses %d call records: %s", len(batch), refused.reason)
            self.dropped += len(batch)
            _fail(batch, BrokerUnreachableError(f"the broker refuses call records: {refused.reason}"))

    def _put_back(self, batch: list[_Waiting], error: BrokerUnreachableError) -> None:
        """What must be delivered now fails; the rest is sent again, in its order."""
        unsent = [waiting for waiting in (*batch, *self._waiting) if not waiting.done.done()]
        _fail([waiting for waiting in unsent if waiting.must], error)
        self._waiting = deque(waiting for waiting in unsent if not waiting.must)
        logger.warning("the broker takes no call records at present; %d are waiting", len(self._waiting))


def _fail(batch: list[_Waiting], error: BrokerUnreachableError) -> None:
    for waiting in batch:
        if not waiting.done.done():
            waiting.done.set_exception(error)


def _looked_at(future: asyncio.Future[None]) -> None:
    if not future.cancelled():
        future.exception()  # nobody may be waiting any more; that is no mistake
