"""After a tool call: the credential goes back, and the end goes on record, whatever ended the call.

Both go on by themselves when the caller is cancelled, and a caller waits for them no longer than `SETTLE_SECONDS`. A
credential that could not be given back dies at its `exp`, seconds later; the broker's refusal of it is no failure.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

import anyio

from broker.domain.canonical import JsonObject
from broker.gate.broker_client import BrokerClient
from broker.gate.broker_http import BrokerUnreachableError
from broker.gate.recorder import Recorder

SETTLE_SECONDS: Final = 2.0

logger = logging.getLogger("broker.gate")


class Settling:
    """Ends calls. Use it from one event loop."""

    def __init__(self, broker: BrokerClient, recorder: Recorder) -> None:
        self._broker = broker
        self._recorder = recorder
        self._tasks: set[asyncio.Task[None]] = set()

    async def settle(self, token: str, end: JsonObject | None) -> None:
        """Give the credential back and record the end; None where the start is not on record."""
        task = asyncio.create_task(self._both(token, end), name="broker-gate-settle")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # A scope that was cancelled would interrupt every await in it, over and over; the task is nobody's to interrupt.
        with anyio.move_on_after(SETTLE_SECONDS, shield=True):
            await asyncio.shield(task)

    async def drain(self) -> None:
        """Wait for what is under way, at the end of the process."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=SETTLE_SECONDS)

    async def _both(self, token: str, end: JsonObject | None) -> None:
        steps = [self._release(token)]
        if end is not None:
            steps.append(self._end(end))
        await asyncio.gather(*steps)

    async def _release(self, token: str) -> None:
        try:
            refused = await self._broker.release(token)
        except BrokerUnreachableError as error:
            logger.warning("a credential was not given back: %s", error)
            return
        if refused is not None:
            logger.warning("the broker does not take a credential back: %s", refused.reason)

    async def _end(self, end: JsonObject) -> None:
        try:
            await self._recorder.end(end, deadline_seconds=SETTLE_SECONDS)
        except BrokerUnreachableError as error:
            logger.warning("the end of a call is not on record: %s", error)
