"""The broker's own lease on its store: proof that what it speaks to is still the store of everybody.

1. A beat is a write that the required replicas have acknowledged. It is good for `LEASE_SECONDS` from when it was *sent*, by
   the monotonic clock of this process.
2. Nothing is minted, and no credential is called active, without a good one. So a primary that was cut off, and does not know
   that another has taken its place, is of no use after that time.
3. Beats go out by themselves (`following.py`); who finds none that is good asks for one and waits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from broker.domain.revocation.feed import Point
from broker.domain.revocation.lease import LEASE_SECONDS
from broker.ports.feed import StoreFeed


class StoreLease:
    """One for a process."""

    def __init__(self, feed: StoreFeed, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._feed = feed
        self._monotonic = monotonic
        self._until = float("-inf")
        self._beating: asyncio.Task[Point] | None = None
        self.beats = 0
        """How many were sent."""

    @property
    def is_good(self) -> bool:
        return self._monotonic() < self._until

    async def check(self) -> None:
        """Return with a good lease. Raises `StoreUnavailableError`, or what else stands in the way of a beat."""
        if self._monotonic() >= self._until:
            await self.beat()

    async def beat(self) -> Point:
        """Renew the lease; where the store is. Who asks while a beat is under way waits for that one."""
        beating = self._beating
        if beating is None or beating.done():
            self._beating = beating = asyncio.get_running_loop().create_task(self._beat())
            beating.add_done_callback(_looked_at)
        return await asyncio.shield(beating)

    async def _beat(self) -> Point:
        self.beats += 1
        sent_at = self._monotonic()
        point = await self._feed.beat()
        self._until = sent_at + LEASE_SECONDS
        return point

    def drop(self) -> None:
        """The store is another incarnation; what it said before counts no longer."""
        self._until = float("-inf")


def _looked_at(beating: asyncio.Task[Point]) -> None:
    if not beating.cancelled():
        beating.exception()  # who asked may be gone by then; that is no mistake
