"""One listener of the feed: events on their way to it, no more than it can take.

A listener that falls behind is cut off, never waited for and never buffered without a bound: it comes back, and gets what it
missed or everything.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from broker.domain.revocation.feed import Event

MAX_WAITING: Final = 512


class Subscription:
    """Events in order. `next` gives all that wait at once; an empty answer is the end. ended: called once it is let go of."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Event, bytes]] = deque()
        self._more = asyncio.Event()
        self.is_over = False
        self.ended: Callable[[], None] = lambda: None

    def push(self, event: Event, spelled: bytes) -> None:
        """Add an event; a listener that has too many waiting is cut off."""
        if len(self._waiting) >= MAX_WAITING:
            self.end()
        if not self.is_over:
            self._waiting.append((event, spelled))
            self._more.set()

    def end(self) -> None:
        """No more events; what waits is dropped."""
        self.is_over = True
        self._waiting.clear()
        self._more.set()

    async def next(self) -> list[tuple[Event, bytes]]:
        """What has come since; waits for the first. Empty: it is over."""
        await self._more.wait()
        taken = list(self._waiting)
        self._waiting.clear()
        if not self.is_over:
            self._more.clear()
        return taken
