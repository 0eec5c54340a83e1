"""Following the store: what every process of the broker knows of the logical clock, as it happens.

1. Steps are read in order, each once; a gap, another gen or a step too large to tell makes it read everything anew.
2. A step that another process made goes into this process's own log (`heard`), so that any survivor can rebuild the store.
3. Then, at once: the lifecycle view is read again, revoked signing keys are given up, listeners are told.
4. Every `RENEW_SECONDS` a beat renews the broker's lease on the store. Only after a beat that succeeded, and only with all that
   was before it told, listeners get a heartbeat.
"""

from __future__ import annotations

import asyncio
import logging
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from broker.domain.audit.records import Heard
from broker.domain.audit.replay import Replayed, lacking
from broker.domain.canonical import JsonObject
from broker.domain.errors import BrokerError, StoreUnavailableError
from broker.domain.lifecycle.states import record_json
from broker.domain.revocation.feed import Change, Heartbeat, Point, Snapshot
from broker.domain.revocation.lease import RENEW_SECONDS
from broker.domain.revocation.view import RevocationView, Taken
from broker.ports.feed import Content, Step, StoreFeed
from broker.ports.system import Clock, Entropy
from broker.services.knowledge import Knowledge, portions, state_of
from broker.services.lifecycle_cache import LifecycleCache
from broker.services.listeners import Listeners
from broker.services.recorder import Recorder
from broker.services.store_lease import StoreLease

log: Final = logging.getLogger("broker.feed")
READ_SECONDS: Final = 1.0
CATCH_UP_SECONDS: Final = 0.25
PAUSE_SECONDS: Final = 0.05
KEPT: Final = 1_024


class Following:
    """One for a process; `run` is its life. trouble: told of every failure. retire: gives up a revoked signing key."""

    def __init__(
        self,
        *,
        feed: StoreFeed,
        lease: StoreLease,
        cache: LifecycleCache,
        recorder: Recorder,
        knowledge: Knowledge,
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
        self._knowledge = knowledge
        self._clock = clock
        self._entropy = entropy
        self._trouble = trouble
        self._retire = retire
        self._monotonic = monotonic
        self._view = RevocationView()
        self._on_record = Point(0, 0)
        self._reached: deque[tuple[Point, float]] = deque(maxlen=KEPT)
        self._proved = (0, 0.0)
        self._lost = asyncio.Event()
        self.listeners = Listeners(self._view)

    @property
    def point(self) -> Point | None:
        """Where the clock is, as far as this process knows; None while it knows nothing."""
        return self.listeners.point

    def reached_at(self, point: Point) -> float | None:
        """When, by the monotonic clock, this process first knew of a point or a later one; None: not yet."""
        at = bisect_left(self._reached, point, key=lambda reached: reached[0])
        return self._reached[at][1] if at < len(self._reached) else None

    def gen_proved_since(self) -> float | None:
        """When this process first had a beat in the present gen acknowledged by the required replicas; None: not yet."""
        gen, since = self._proved
        return since if gen == self._view.gen else None

    @property
    def on_record(self) -> Point:
        """Up to where what other processes did stands in this process's log, or waits to be written there."""
        return self._on_record

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
            self._note_reached()
            self.listeners.publish(event)
        await self._hear_content(content)
        self._on_record = content.point
        await self._give_up_keys(event)
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
        self._note_reached()
        self.listeners.publish(event)  # before all else: the verifiers are waiting
        if not self._recorder.is_own(step.id):
            records = [record_json(record) for record in step.versions.values()]
            await self._hear(step.point, records, {str(scope): seq for scope, seq in step.marks.items()})
        self._on_record = step.point
        await self._give_up_keys(event)
        await self._refresh()
        return True

    def _note_reached(self) -> None:
        if not self._reached or self._reached[-1][0] < self._view.point:
            self._reached.append((self._view.point, self._monotonic()))

    async def _hear_content(self, content: Content) -> None:
        """Rule 2, for everything at once: what this broker's logs lack."""
        try:
            known = (await self._knowledge.own()).state
        except BrokerError as error:
            log.warning("what the audit log says already cannot be read, so all is written to it: %s", error)
            known = Replayed()
        records, marks = lacking(known, state_of(content))
        await self._hear(content.point, records, marks)

    async def _hear(self, point: Point, records: Sequence[JsonObject], marks: Mapping[str, int]) -> None:
        for some_records, some_marks in portions(records, marks):
            await self._recorder.append_heard(
                Heard(
                    id=self._entropy.token(),
                    ts=self._clock.timestamp(),
                    gen=point.gen,
                    seq=point.seq,
                    records=some_records,
                    marks=some_marks,
                )
            )

    async def _give_up_keys(self, event: Change | Snapshot) -> None:
        try:
            await self._retire(event)
        except BrokerError:
            self.lose()  # so that it is tried again with the content
            raise

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
            await self.listeners.wait_past(known or point, seconds=deadline - self._monotonic())
            if known is None:
                return
        if self.point is not None and self.point < point:
            self.lose()
        elif self.point == point:
            self.listeners.publish(Heartbeat(point.gen, point.seq))
