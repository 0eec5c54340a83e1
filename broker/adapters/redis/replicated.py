"""Steps that count once replicas have them: what a lease on the store rests on.

1. A step's function writes something each time it is called; WAIT then tells how many replicas have acknowledged it, and
   with it all that the store did before, over whichever connection.
2. With fewer than `required`, `step` fails. The step has acted all the same: nothing in the store is undone.
3. A primary that was cut off from its replicas, and goes on as if nothing had happened, is found out this way.
4. A revocation must act at once, whatever becomes of replicas: it goes the usual way, and `count` then tells how many have it.
5. With 0 required, nobody is waited for, and the count is unknown (-1).
"""

from __future__ import annotations

import asyncio
from typing import cast

from broker.adapters.redis.pipeline import Pipeline
from broker.adapters.redis.session import Session
from broker.domain.errors import BrokerError, StoreUnavailableError


class Replicated:
    """The tenant's session, over a connection of its own, so that no other call waits for replicas.

    pipeline: one made with `replicas=required`; None where none are required. count_seconds: how long `count` may take.
    """

    __slots__ = ("_count_seconds", "_pipeline", "_session", "required")

    def __init__(
        self, session: Session, pipeline: Pipeline | None, *, required: int, count_seconds: float = 0.5
    ) -> None:
        self._session = session
        self._pipeline = pipeline
        self._count_seconds = count_seconds
        self.required = required

    async def step(self, function: bytes, keys: tuple[bytes, ...], *arguments: bytes | str | int) -> list[object]:
        """One fenced call; its reply, once `required` replicas have it. Raises `StoreUnavailableError` with fewer."""
        reply, replicas = await self.counted(function, keys, *arguments)
        if self._pipeline is not None and replicas < self.required:
            raise StoreUnavailableError(
                f"the store's write was acknowledged by {max(replicas, 0)} replicas, fewer than the {self.required} required"
            )
        return reply

    async def counted(
        self, function: bytes, keys: tuple[bytes, ...], *arguments: bytes | str | int
    ) -> tuple[list[object], int]:
        """One fenced call; its reply, and how many replicas have it, -1 where that is unknown."""
        session = self._session
        if self._pipeline is None:
            return await session.step(function, keys, *arguments), -1
        answer = await self._pipeline.call(*session.fenced(function, keys, *arguments))
        if isinstance(answer, BrokerError):
            raise type(answer)(*answer.args)
        reply, replicas = cast("tuple[object, int]", answer)
        return session.reply(reply), replicas

    async def count(self) -> int:
        """How many replicas have all that the store did until now; -1 where that is not known in time. Never fails."""
        if self._pipeline is None:
            return -1
        try:
            async with asyncio.timeout(self._count_seconds):
                _, replicas = await self.counted(b"store_beat_1", (self._session.keys.control,))
        except (BrokerError, TimeoutError):
            return -1
        return replicas

    async def close(self) -> None:
        """Close the connection; calls that still wait fail."""
        if self._pipeline is not None:
            await self._pipeline.close()
