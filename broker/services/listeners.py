"""Listeners of the feed: what each has missed, and what happens from then on.

1. A listener comes with the point that it has: it gets the steps since, or a snapshot where they are not all kept.
2. Every event is spelled once, for all of them; a snapshot, which may be large, also once for all who come at the same point. Who
   does not keep up is cut off (`subscription.py`).
3. A broker that knows nothing itself has nothing to tell: `StoreUnavailableError`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from typing import Final

from broker.domain.errors import StoreUnavailableError
from broker.domain.revocation.feed import Change, Event, Heartbeat, Point, Snapshot, spell_event
from broker.domain.revocation.view import RevocationView
from broker.services.subscription import Subscription

log: Final = logging.getLogger("broker.feed")
KEPT: Final = 1_024
MOST_MISSED: Final = 256  # who has missed more is served better by everything at once


class Listeners:
    """All of one process. view: what the process knows, which whoever publishes has brought up to date before."""

    def __init__(self, view: RevocationView) -> None:
        self._view = view
        self._kept: deque[Change] = deque(maxlen=KEPT)
        self._listening: set[Subscription] = set()
        self._spelled: tuple[Point, bytes] = (Point(0, 0), b"")
        self._moved = asyncio.Event()
        self._is_closed = False

    @property
    def point(self) -> Point | None:
        """Where the clock is, as far as this process knows; None while it knows nothing."""
        return None if self._view.is_lost else self._view.point

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._listening)

    def snapshot(self) -> Snapshot:
        """Everything that is known."""
        if self._view.is_lost:
            raise StoreUnavailableError("this broker does not know yet what is revoked")
        return Snapshot(self._view.gen, self._view.seq, self._view.marks, self._view.versions)

    def events_since(self, point: Point | None) -> list[Event]:
        """What a listener at a point has missed (rule 1)."""
        now = self.snapshot()
        if point is None or point.gen != now.gen or point.seq > now.seq:
            return [now]
        missed = [change for change in self._kept if change.seq > point.seq]
        return list(missed) if len(missed) == now.seq - point.seq <= MOST_MISSED else [now]

    def subscribe(self, point: Point | None) -> Subscription:
        """A listener that has got as far as `point`, None for nowhere."""
        subscription = Subscription()
        for event in self.events_since(point):
            subscription.push(event, self._spell(event))
        if self._is_closed:
            subscription.end()
        else:
            self._listening.add(subscription)
        return subscription

    def _spell(self, event: Event) -> bytes:
        if not isinstance(event, Snapshot):
            return spell_event(event)
        point, (known, spelled) = Point(event.gen, event.seq), self._spelled
        if known != point or not spelled:
            self._spelled = (point, spelled := spell_event(event))
        return spelled

    def unsubscribe(self, subscription: Subscription) -> None:
        """It does not listen any more."""
        self._listening.discard(subscription)

    async def wait_past(self, point: Point, *, seconds: float) -> None:
        """Return when the clock has moved past a point, or after that time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self._is_closed and self.point == point:
                    await self._moved.wait()

    def publish(self, event: Event) -> None:
        """Tell all. A snapshot is the end of what was kept before it."""
        match event:
            case Change():
                self._kept.append(event)
            case Snapshot():
                self._kept.clear()
        spelled = spell_event(event)
        for listener in list(self._listening):
            listener.push(event, spelled)
            if listener.is_over:
                log.warning("a listener of the feed does not keep up and is cut off")
                self._listening.discard(listener)
        if not isinstance(event, Heartbeat):
            moved, self._moved = self._moved, asyncio.Event()
            moved.set()

    def close(self) -> None:
        """The process ends: so does every stream, or it would keep the server from ending."""
        self._is_closed = True
        for listener in self._listening:
            listener.end()
        self._moved.set()
