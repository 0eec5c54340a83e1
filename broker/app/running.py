"""A running broker: opened in order, tended, closed in the reverse order.

1. Start: keys, policy and audit log are open; the store is started (embedded) and claimed, which may have to wait for other
   replicas; then the log says so.
2. Running: the store is followed (`services/following.py`). Every `TEND_SECONDS` unwritten records are written, the outbox is
   emptied, abandoned steps are recovered, the store is looked at, marks are compacted. A store that turns out to be another
   incarnation is claimed anew at once; while it is not what it must be, nothing is minted. What stands in the way is said when
   it begins, when it changes, and once a minute.
3. Stop: no new requests, running ones end, the log is closed, then the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from typing import Final

from broker.adapters.redis.connection import address
from broker.adapters.redis.embedded import EmbeddedServer
from broker.app.compose import Parts, compose
from broker.app.settings import EMBEDDED, Settings
from broker.domain.audit.records import LogClosed, LogOpened
from broker.domain.errors import BrokerError, StoreUnavailableError, StoreUnclaimedError
from broker.services.policies import Loaded

log: Final = logging.getLogger("broker.app")
TEND_SECONDS: Final = 1.0
LOOK_EVERY: Final = 5
COMPACT_EVERY: Final = 60
SAY_AGAIN_SECONDS: Final = 60.0
NOTED: Final = 50


class Running:
    """One broker process."""

    def __init__(self, settings: Settings, *, reloaded: Callable[[str], None] = lambda by: None) -> None:
        """reloaded: told who had the policy loaded again. waiting: told once, where the store waits for other replicas."""
        self._settings = settings
        self._embedded = EmbeddedServer(settings.data) if settings.store == EMBEDDED else None
        self._reclaim = asyncio.Event()
        self._reloaded = reloaded
        self.waiting: Callable[[Parts], None] = lambda parts: None
        self.parts: Parts | None = None
        self._said, self._said_at = "", 0.0

    def trouble(self, error: BrokerError) -> None:
        """Told of every failure of a request: a store that must be claimed anew is claimed anew, in the background."""
        if isinstance(error, StoreUnclaimedError):
            self._reclaim.set()

    async def start(self) -> Parts:
        """Open everything. Raises what stands in the way, with everything closed again."""
        url = await self._start_store()
        try:
            self.parts = parts = await self._compose(url)
            await self._open_store(parts, url)
            await self._announce(parts)
        except BaseException:
            await self.stop()
            raise
        return parts

    async def _compose(self, url: str) -> Parts:
        composing = asyncio.ensure_future(asyncio.to_thread(compose, self._settings, url, self.trouble, self._reloaded))
        try:
            return await asyncio.shield(composing)
        except asyncio.CancelledError:
            self.parts = await composing  # a thread cannot be broken off; what it opens is closed with the rest
            raise

    async def _open_store(self, parts: Parts, url: str) -> None:
        while True:
            try:
                await parts.incarnation.open()
            except StoreUnavailableError as error:
                raise StoreUnavailableError(f"{error} ({address(url)}); is it running, and is --store right?") from None
            except StoreUnclaimedError as error:
                if not self._settings.peers:
                    raise
                self.waiting(parts)
                self._say(str(error))
                await asyncio.sleep(TEND_SECONDS)
            else:
                say_claims(parts)
                return

    async def follow(self) -> None:
        """Runs until cancelled: follow the store."""
        assert self.parts is not None
        await self.parts.following.run()

    async def supervise(self) -> None:
        """Runs until cancelled: start the embedded store again when it dies."""
        if self._embedded is not None:
            await self._embedded.supervise()

    async def _start_store(self) -> str:
        if self._embedded is None:
            return self._settings.store
        await self._embedded.start()
        return self._embedded.url

    async def _announce(self, parts: Parts) -> None:
        now = parts.clock.timestamp()
        await parts.audit.append(
            LogOpened(id=parts.entropy.token(), ts=now, broker=self._settings.public_issuer, records=parts.audit.count)
        )
        await parts.signing_keys.record()
        loaded = await parts.policies.start()
        say_loaded(loaded)
        for warning in parts.store.warnings:
            log.warning("store: %s", warning)

    async def tend(self) -> None:
        """Runs until cancelled (rule 2)."""
        assert self.parts is not None
        parts, rounds = self.parts, 0
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._reclaim.wait(), TEND_SECONDS)
            rounds += 1
            try:
                if self._reclaim.is_set():
                    self._reclaim.clear()
                    if parts.incarnation.is_open:
                        parts.incarnation.lose()
                if not parts.incarnation.is_open:
                    await parts.incarnation.open()
                    parts.following.lose()
                say_claims(parts)
                doubts = parts.recorder.doubts
                if doubts:
                    await parts.incarnation.recover_changes()
                    await parts.cache.refresh()
                    parts.recorder.resolve(doubts)
                await parts.recorder.tend(parts.cache.view.gen)
                await parts.signing_keys.tend()
                if rounds % LOOK_EVERY == 0:
                    await parts.incarnation.recover_abandoned()
                    await parts.incarnation.look()
                    await parts.receipts.observe()
                if rounds % COMPACT_EVERY == 0:
                    await parts.compaction.tend()
                await parts.lease.check()  # last: it is said where there is none, and nothing else waits for it
            except BrokerError as error:
                self._say(f"{type(error).__name__}: {error}")
                if isinstance(error, StoreUnclaimedError) and parts.incarnation.is_open:
                    parts.incarnation.lose()  # where it is not open, it knows why, and /readyz says so
                await asyncio.sleep(0.1)  # a store that refuses at once is not asked in a tight loop
            except Exception:
                log.exception("tending the broker failed; it goes on")
                await asyncio.sleep(TEND_SECONDS)
            else:
                self._said = ""

    def _say(self, text: str) -> None:
        now = asyncio.get_running_loop().time()
        if text != self._said or now - self._said_at > SAY_AGAIN_SECONDS:
            log.warning("%s", text)
            self._said, self._said_at = text, now

    async def stop(self) -> None:
        """Close everything that is open (rule 3)."""
        parts, self.parts = self.parts, None
        if parts is not None:
            with contextlib.suppress(BrokerError):
                await parts.recorder.tend(parts.cache.view.gen)
            with contextlib.suppress(BrokerError):
                await parts.audit.append(LogClosed(id=parts.entropy.token(), ts=parts.clock.timestamp()))
            await parts.audit.close()
            await parts.store.close()
            await asyncio.to_thread(parts.arithmetic.close)
        if self._embedded is not None:
            await self._embedded.stop()


@contextlib.asynccontextmanager
async def tended(running: Running) -> AsyncIterator[None]:
    """Tend a started broker while the block runs, then stop it."""
    tasks = [
        asyncio.create_task(running.tend()),
        asyncio.create_task(running.follow()),
        asyncio.create_task(running.supervise()),
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await running.stop()


def say_claims(parts: Parts) -> None:
    """Say which claims were made: each made all credentials of before void."""
    for claim in parts.incarnation.take_claims():
        log.info("store claimed as gen %d: %s; credentials of before are void", claim.gen, claim.reason)


def say_loaded(loaded: Loaded) -> None:
    """Say what a loaded policy does to published versions, and what the rules note about them without refusing it."""
    for version in loaded.narrowed:
        log.info("%s: access was taken away; what was granted before is dead", version)
    for version in loaded.edited:
        log.warning("%s: the loaded policy is not the published one; the version is refused", version)
    for finding in loaded.report.findings[:NOTED]:
        log.warning("policy: %s: %s: %s: %s", finding.place, finding.rule, finding.severity, finding.what)
