"""Following the store: what every process of the broker knows of the logical clock, as it happens.

1. Steps are read in order, each once; a gap, another gen or a step too large to tell makes it read everything anew.
2. A step that another process made goes into this process's own log (`heard`), so that any survivor can rebuild the store.
3. Then, at once: the lifecycle view is read again, revoked signing keys are given up, listeners are told.
4. Every `RENEW_SECONDS` a beat renews the broker's lease on the store. Only after a beat that succeeded, and only with all that
   was before it told, listeners get a heartbeat.
5. A listener comes with the point that it has: it gets the steps since, or a snapshot where they are not all kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from broker.domain.audit.records import Heard
from broker.domain.canonical import JsonObject
from broker.domain.errors import BrokerError, StoreUnavailableError
from broker.domain.lifecycle.states import record_json, spell_record
from broker.domain.revocation.feed import Change, Event, Heartbeat, Point, Snapshot, spell_event
from broker.domain.revocation.lease import RENEW_SECONDS
from broker.domain.revocation.view import RevocationView, Taken
from broker.ports.feed import Content, Step, StoreFeed
from broker.ports.system import Clock, Entropy
from broker.services.lifecycle_cache import LifecycleCache
from broker.services.recorder import Recorder
from broker.services.store_lease import StoreLease
from broker.services.subscription import Subscription

log: Final = logging.getLogger("broker.feed")
READ_SECONDS: Final = 1.0
CATCH_UP_SECONDS: Final = 0.25
PAUSE_SECONDS: Final = 0.05
KEPT: Final = 1_024
PORTION_BYTES: Final = 40_000  # of what was heard in one record of the log, which takes 65 535
MOST_MISSED: Final = 256  # who has missed more is served better by everything at once


class Following:
    """One for a process; `run` is its life. trouble: told of every failure. retire: gives up a revoked signing key."""

    def __init__(
        self,
        *,
        feed: StoreFeed,
        lease: StoreLease,
        cache: LifecycleCache,
        recorder: Recorder,
        clock: Clock,
        entropy: Entropy,
        trouble: Callable[[BrokerError], None],
        retire: Callable[[Change | Snapshot], Awaitable[None]],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._feed = feed
        self._lease = lease
        self._cache = cache
        self._recorder = recorder
        self._clock = clock
        self._entropy = entropy
        self._trouble = trouble
        self._retire = retire
        self._monotonic = monotonic
        self._view = RevocationView()
        self._on_record = Point(0, 0)
        self._kept: deque[Change] = deque(maxlen=KEPT)
        self._reached: deque[tuple[Point, float]] = deque(maxlen=KEPT)
        self._proved = (0, 0.0)
        self._listeners: set[Subscription] = set()
        self._lost = asyncio.Event()
        self._moved = asyncio.Event()
        self._is_closed = False

    # what is known

    @property
    def point(self) -> Point | None:
        """Where the clock is, as far as this process knows; None while it knows nothing."""
        return None if self._view.is_lost else self._view.point

    def reached_at(self, point: Point) -> float | None:
        """When, by the monotonic clock, this process first knew of a point or a later one; None: not yet."""
        at = bisect_left(self._reached, point, key=lambda reached: reached[0])
        return self._reached[at][1] if at < len(self._reached) else None

    def gen_proved_since(self) -> float:
        """When this process first had a beat in the present gen acknowledged by the required replicas; now, if none was yet."""
        gen, since = self._proved
        return since if gen == self._view.gen else self._monotonic()

    @property
    def on_record(self) -> Point:
        """Up to where what other processes did stands in this process's log, or waits to be written there."""
        return self._on_record

    def snapshot(self) -> Snapshot:
        """Everything that is known. Raises `StoreUnavailableError` where nothing is."""
        if self._view.is_lost:
            raise StoreUnavailableError("this broker does not know yet what is revoked")
        return Snapshot(self._view.gen, self._view.seq, self._view.marks, self._view.versions)

    # listeners

    def events_since(self, point: Point | None) -> list[Event]:
        """What a listener at a point has missed; a snapshot alone where that is not all kept (rule 5)."""
        now = self.snapshot()
        if point is None or point.gen != now.gen or point.seq > now.seq:
            return [now]
        missed = [change for change in self._kept if change.seq > point.seq]
        return list(missed) if len(missed) == now.seq - point.seq <= MOST_MISSED else [now]

    def subscribe(self, point: Point | None) -> Subscription:
        """A listener that has got as far as `point`, None for nowhere. Raises `StoreUnavailableError`."""
        subscription = Subscription()
        for event in self.events_since(point):
            subscription.push(event, spell_event(event))
        if self._is_closed:
            subscription.end()
        else:
            self._listeners.add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        self._listeners.discard(subscription)

    def close(self) -> None:
        """The process ends: so does every stream, or it would keep the server from ending."""
        self._is_closed = True
        for listener in self._listeners:
            listener.end()
        self._moved.set()

    async def wait_past(self, point: Point, *, seconds: float) -> None:
        """Return when the clock has moved past a point, or after that time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self._is_closed and self.point == point:
                    await self._moved.wait()

    def _publish(self, event: Event) -> None:
        spelled = spell_event(event)
        for listener in list(self._listeners):
            listener.push(event, spelled)
            if listener.is_over:
                log.warning("a listener of the feed does not keep up and is cut off")
                self._listeners.discard(listener)
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    # following

    async def run(self) -> None:
        """Runs until cancelled."""
        await asyncio.gather(self._follow(), self._beat())

    def lose(self) -> None:
        """The store is another incarnation, or may be: read everything anew."""
        self._view.lose()
        self._lost.set()

    async def _follow(self) -> None:
        while True:
            try:
                if self._view.is_lost:
                    self._lost.clear()
                    await self._take_content(await self._feed.content())
                for step in await self._read():
                    if not await self._take_step(step):
                        break
            except BrokerError as error:
                self._trouble(error)
                await asyncio.sleep(PAUSE_SECONDS)
            except Exception:
                log.exception("following the store failed; it goes on")
                self._view.lose()
                await asyncio.sleep(PAUSE_SECONDS)

    async def _read(self) -> list[Step]:
        """The next steps; none where the view was lost meanwhile."""
        if self._view.is_lost:
            return []
        reading = asyncio.ensure_future(self._feed.steps(self._view.seq, wait_seconds=READ_SECONDS))
        losing = asyncio.ensure_future(self._lost.wait())
        try:
            await asyncio.wait([reading, losing], return_when=asyncio.FIRST_COMPLETED)
            return [] if not reading.done() else list(reading.result())
        finally:
            for waiting in (reading, losing):
                waiting.cancel()
            await asyncio.gather(reading, losing, return_exceptions=True)

    async def _take_content(self, content: Content) -> None:
        before = self._view.point
        event = Snapshot(
            content.point.gen,
            content.point.seq,
            content.marks,
            {name: record.state.value for name, record in content.versions.items()},
        )
        if self._view.take(event) is Taken.REGRESSED:
            raise StoreUnavailableError("the store is behind what this broker has seen of it")
        if content.point != before:
            self._kept.clear()
            self._note_reached()
            self._publish(event)
        await self._retire(event)
        # whether one of these was known does not matter: the same content twice is the same content
        await self._hear(Step(content.point, "", content.versions, content.marks))
        self._on_record = content.point
        await self._refresh()

    async def _take_step(self, step: Step) -> bool:
        if step.whole:
            self._view.lose()
            return False
        event = Change(
            step.point.gen,
            step.point.seq,
            step.marks,
            {name: record.state.value for name, record in step.versions.items()},
            step.covered,
        )
        taken = self._view.take(event)
        if taken is not Taken.APPLIED:
            return taken is Taken.REPEATED
        self._kept.append(event)
        self._note_reached()
        self._publish(event)  # before all else: the verifiers are waiting
        await self._retire(event)
        if not self._recorder.is_own(step.id):
            await self._hear(step)
        self._on_record = step.point
        await self._refresh()
        return True

    def _note_reached(self) -> None:
        if not self._reached or self._reached[-1][0] < self._view.point:
            self._reached.append((self._view.point, self._monotonic()))

    async def _hear(self, step: Step) -> None:
        for records, marks in _portions(step):
            await self._recorder.append_heard(
                Heard(
                    id=self._entropy.token(),
                    ts=self._clock.timestamp(),
                    gen=step.point.gen,
                    seq=step.point.seq,
                    records=records,
                    marks=marks,
                )
            )

    async def _refresh(self) -> None:
        if self._cache.is_known:
            await self._cache.refresh()

    async def _beat(self) -> None:
        while True:
            began = self._monotonic()
            try:
                await self._beat_once()
            except BrokerError as error:
                self._trouble(error)
            except Exception:
                log.exception("a beat failed; it goes on")
            await asyncio.sleep(max(PAUSE_SECONDS, RENEW_SECONDS - (self._monotonic() - began)))

    async def _beat_once(self) -> None:
        point = await self._lease.beat()
        if point.gen != self._proved[0]:
            self._proved = (point.gen, self._monotonic())
        deadline = self._monotonic() + CATCH_UP_SECONDS
        while (known := self.point) != point and self._monotonic() < deadline:
            if known is not None and known > point:
                return  # steps were made since
            await self.wait_past(known or point, seconds=deadline - self._monotonic())
            if known is None:
                return
        if self.point is not None and self.point < point:
            self.lose()
        elif self.point == point:
            self._publish_heartbeat(point)

    def _publish_heartbeat(self, point: Point) -> None:
        spelled = spell_event(heartbeat := Heartbeat(point.gen, point.seq))
        for listener in list(self._listeners):
            listener.push(heartbeat, spelled)


def _portions(step: Step) -> Iterator[tuple[tuple[JsonObject, ...], dict[str, int]]]:
    """What a step holds, in portions that fit into a record each."""
    records: list[JsonObject] = []
    size = 0
    for record in step.versions.values():
        size += len(spell_record(record))
        if records and size > PORTION_BYTES:
            yield tuple(records), {}
            records, size = [], len(spell_record(record))
        records.append(record_json(record))
    marks: dict[str, int] = {}
    for scope, seq in step.marks.items():
        size += len(scope) + 20
        if (records or marks) and size > PORTION_BYTES:
            yield tuple(records), marks
            records, marks, size = [], {}, len(scope) + 20
        marks[str(scope)] = seq
    if records or marks:
        yield tuple(records), marks
