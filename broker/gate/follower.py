"""The follower: keeps a verifier's view of the feed, and its lease (`domain.revocation.view`, `…lease`).

Three things go on at once, each as often as it must and no more:

| task   | does                                                                                                      |
|--------|-----------------------------------------------------------------------------------------------------------|
| listen | takes events from the stream, resumes by what it has; a gap, another gen, a step back: resync by a snapshot |
| renew  | asks for a lease every `RENEW_SECONDS`, and soon after a revocation was applied, so that receipts are quick |
| keep   | writes down how far it got; only what is on disk is reported as applied (a restart must not forget it)      |

1. A lease counts from before its request was sent, by a clock that goes on while the machine sleeps. No two requests are under
   way at once.
2. A stream that is silent for `SILENCE_SECONDS` is left. Where streams bring nothing but leases come (a proxy that gathers
   what it passes on), it polls, and tries a stream again every `PROBE_SECONDS`.
3. Failures are followed by a pause that grows up to `MAX_PAUSE_SECONDS`, and by the next address where there are several.
4. What a broker says from before `floor` is not taken: an old broker, or one on an old store. That is said as an error.
5. It never raises and never gives up: without it nothing is accepted.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from typing import Any, Final

from broker.domain.errors import ConfigurationError
from broker.domain.ids import ToolName
from broker.domain.revocation.feed import Change, Event, Heartbeat, Point, Snapshot, spell_point
from broker.domain.revocation.lease import RENEW_SECONDS, Leases
from broker.domain.revocation.view import START, RevocationView, Taken
from broker.gate.broker_http import BrokerUnreachableError
from broker.gate.feed_client import FeedClient, MuteError
from broker.gate.feed_state import Seen, StateFile
from broker.gate.seconds import elapsed_seconds

SILENCE_SECONDS: Final = 1.5
PROBE_SECONDS: Final = 30.0
ACKNOWLEDGE_SECONDS: Final = 0.05
MAX_PAUSE_SECONDS: Final = 2.0
_FIRST_PAUSE_SECONDS: Final = 0.05
_MUTE_STREAMS: Final = 2
_SAVE_AGAIN_SECONDS: Final = 1.0
_BEHIND_SECONDS: Final = 1.0

logger = logging.getLogger("broker.gate")


class _ResyncError(Exception):
    """What came does not continue what is known."""


class Follower:
    """Follows one broker's feed for one client. Use it from one event loop.

    state: where it remembers what it saw; None: nowhere, and a restarted verifier starts from what it is told then.
    """

    def __init__(
        self,
        client: FeedClient,
        *,
        state: StateFile | None,
        seen: Seen,
        seconds: Callable[[], float] = elapsed_seconds,
    ) -> None:
        """seen: what `state` held. seconds: a clock that only goes forward."""
        self.verifier = secrets.token_hex(16)
        self.view = RevocationView(floor=seen.point, revoked_kids=set(seen.keys))
        self.leases = Leases()
        self.started_at = seconds()
        self.has_been_fresh = False
        self._client = client
        self._state = state
        self._saved = seen
        self._seconds = seconds
        self._due = asyncio.Event()
        self._unsaved = asyncio.Event()
        self._urgent = START
        self._acknowledged = START
        self._moved = asyncio.Event()
        self._granted = 0
        self._changed: dict[str, float] = {}
        self._resynced_at = self.started_at
        self._poller: asyncio.Task[None] | None = None
        self._complaints: dict[str, set[str]] = {}
        self._heard = 0
        self._regressed_at: float | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin; again is nothing."""
        if not self._tasks:
            works = [("listen", self._follow()), ("renew", self._renew())]
            if self._state is not None:
                works.append(("keep", self._keep(self._state)))
            self._tasks = [_spawn(name, work) for name, work in works]

    async def aclose(self) -> None:
        """End, and write down what is not written yet."""
        tasks = [*self._tasks, *([self._poller] if self._poller is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._state is not None and self._tasks and self._unsaved.is_set():
            await self._save(self._state)
        await self._client.aclose()

    def is_fresh(self) -> bool:
        """Whether something may be accepted now."""
        fresh = self.leases.is_fresh(self.view, now=self._seconds())
        if fresh and not self.has_been_fresh:
            self.has_been_fresh = True
        return fresh

    async def moved(self, *, within_seconds: float) -> bool:
        """Whether anything about view or lease changes within that time."""
        try:
            async with asyncio.timeout(within_seconds):
                await self._moved.wait()
        except TimeoutError:
            return False
        return True

    def changed_at(self, tool: ToolName) -> float:
        """When the feed last said something of a tool's versions, by the clock that it was given."""
        return max(self._resynced_at, self._changed.get(tool, 0.0))

    async def _follow(self) -> None:
        """Listen, for ever."""
        pause, mute, granted = _FIRST_PAUSE_SECONDS, 0, 0
        while True:
            begun, heard = self._seconds(), self._heard
            try:
                await self._listen()
            except _ResyncError:
                pass
            except MuteError as error:
                self._complain("events", str(error))
                mute += self._granted > granted  # it is the stream, not the broker, that does not come through
                granted = self._granted
            except BrokerUnreachableError as error:
                self._complain("events", str(error))
            except Exception:
                logger.exception("listening to the broker's revocations broke")
            if self._heard > heard:
                mute = 0
            if self._seconds() - begun > MAX_PAUSE_SECONDS:
                pause = _FIRST_PAUSE_SECONDS
            if mute >= _MUTE_STREAMS:
                if self._poller is None or self._poller.done():
                    self._poller = _spawn("poll", self._poll())
                await asyncio.sleep(PROBE_SECONDS)
            else:
                await asyncio.sleep(_spread(pause))
                pause = min(2 * pause, MAX_PAUSE_SECONDS)

    async def _listen(self) -> None:
        since = None if self.view.is_lost else self.view.point
        async with aclosing(self._client.listen(since)) as events:
            async for event in events:
                self._heard += 1
                if self._poller is not None:
                    self._poller.cancel()
                    self._poller = None
                self._take(event)

    async def _poll(self) -> None:
        """Take what polls bring, where streams bring nothing."""
        logger.warning("no stream of revocations comes through from the broker; polling instead")
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                for event in await self._client.poll(None if self.view.is_lost else self.view.point):
                    self._take(event)
                pause = _FIRST_PAUSE_SECONDS
                continue
            except _ResyncError:
                pass
            except BrokerUnreachableError as error:
                self._complain("events", str(error))
            except Exception:
                logger.exception("polling for the broker's revocations broke")
            await asyncio.sleep(_spread(pause))
            pause = min(2 * pause, MAX_PAUSE_SECONDS)

    def _take(self, event: Event) -> None:
        """Fold one event in. Raises `_ResyncError` where the feed must be taken up anew."""
        was_lost = self.view.is_lost
        match self.view.take(event):
            case Taken.APPLIED:
                self._note(event)
                self._complaints.pop("events", None)
                self._regressed_at = None
                if was_lost:
                    logger.info("the feed is known up to %s", spell_point(self.view.point))
                self._tell()
            case Taken.REPEATED:
                pass
            case Taken.GAP:
                self._tell()
                logger.warning("the feed has a gap after %s; taking it up anew", spell_point(self.view.point))
                raise _ResyncError
            case Taken.REGRESSED:
                self._client.pass_on()
                self._regressed(Point(event.gen, event.seq))
                raise _ResyncError

    def _regressed(self, told: Point) -> None:
        """Rule 4. A replica that is behind for a moment is not worth an error; one that stays behind is."""
        now = self._seconds()
        if self._regressed_at is None:
            self._regressed_at = now
        elif now - self._regressed_at >= _BEHIND_SECONDS:
            self._complain(
                "events",
                f"the broker's feed is at {spell_point(told)}, before {spell_point(self.view.floor)}, which was seen already: "
                "it stands on an old store. Nothing is accepted",
                level=logging.ERROR,
            )

    def _note(self, event: Event) -> None:
        """What follows from an event that was applied."""
        now = self._seconds()
        match event:
            case Snapshot():
                self._resynced_at = now
                self._changed.clear()
            case Change():
                self._changed.update((version.partition("@")[0], now) for version in event.versions)
                if not event.marks:
                    self._unsaved.set()
                    return  # nobody waits for the acknowledgement of a step that revokes nothing
            case Heartbeat():
                return
        self._unsaved.set()
        self._urgent = self.view.point
        if self._state is None:
            self._acknowledge()

    def _acknowledge(self) -> None:
        """Soon, not now: acknowledgements must not get in the way of the news to those who have not heard it."""
        asyncio.get_running_loop().call_later(_spread(ACKNOWLEDGE_SECONDS), self._due.set)

    async def _renew(self) -> None:
        """Rule 1, for ever."""
        # The beat goes on whatever is asked beside it; so verifiers that hear the same event do not stay in step after it.
        beat = self._seconds() - RENEW_SECONDS * random.random()  # noqa: S311  # spread, not secret
        failures = 0
        while True:
            self._due.clear()
            sent_at = self._seconds()
            while beat <= sent_at:
                beat += RENEW_SECONDS
            applied = self._applied()
            failures += 1
            try:
                granted = await self._client.renew(self.verifier, applied)
            except BrokerUnreachableError as error:
                self._complain("lease", f"no lease: {error}")
            except Exception:
                logger.exception("asking the broker for a lease broke")
            else:
                failures = 0
                self._complaints.pop("lease", None)
                self._granted += 1
                self._acknowledged = applied
                self.leases.grant(granted.point, sent_at=sent_at, lease_seconds=granted.lease_seconds, view=self.view)
                self._tell()
            if failures:  # many that ask a broker that cannot keep up ever again would keep it from ever keeping up
                await asyncio.sleep(_spread(min(2**failures * RENEW_SECONDS, MAX_PAUSE_SECONDS)))
                continue
            try:
                async with asyncio.timeout(max(0.0, beat - self._seconds())):
                    await self._due.wait()
            except TimeoutError:
                pass

    def _applied(self) -> Point:
        """What to report as applied: what would still be known after a restart."""
        if self.view.is_lost:
            return START
        return self.view.point if self._state is None else min(self.view.point, self._saved.point)

    async def _keep(self, state: StateFile) -> None:
        """Write down how far the feed has got, for ever; what comes meanwhile goes with the next write."""
        while True:
            await self._unsaved.wait()
            if not await self._save(state):
                await asyncio.sleep(_SAVE_AGAIN_SECONDS)

    async def _save(self, state: StateFile) -> bool:
        self._unsaved.clear()
        seen = Seen(self.view.floor, frozenset(self.view.revoked_kids))
        try:
            self._saved = await asyncio.to_thread(state.save, seen)
        except (OSError, ConfigurationError) as error:
            said = f"what the feed said cannot be written down, so it is not acknowledged: {error}"
            self._complain("state", said, level=logging.ERROR)
            self._unsaved.set()
            return False
        except asyncio.CancelledError:
            self._unsaved.set()  # the thread goes on, and may yet fail
            raise
        self._complaints.pop("state", None)
        self.view.revoked_kids |= self._saved.keys  # a process beside this one may have heard of more
        if self._acknowledged < self._urgent:
            self._acknowledge()
        return True

    def _tell(self) -> None:
        """Wake those who wait."""
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    def _complain(self, of: str, what: str, *, level: int = logging.WARNING) -> None:
        """Say it once until it is mended, not every half second: several addresses may fail in turns, each in its way."""
        said = self._complaints.setdefault(of, set())
        if what not in said:
            said.add(what)
            logger.log(level, "following the broker's revocations: %s", what)


def _spawn(name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    return asyncio.create_task(work, name=f"broker-gate-{name}")


def _spread(seconds: float) -> float:
    """So that many that lost the same broker do not come back at once."""
    return seconds * random.uniform(0.5, 1.0)  # noqa: S311
