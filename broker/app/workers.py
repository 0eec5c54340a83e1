"""`broker serve --workers N`: one broker, several processes.

1. The parent takes the address, starts the embedded store (if it is embedded) and the workers, and does nothing else. The
   workers accept on one socket.
2. The first worker starts alone: it makes keys, claims the store and has the policy judged, whose answers the others then find.
   A worker that cannot start at first ends the broker, with its exit code.
3. A worker that ends later is started again, after a pause that grows while it keeps ending.
4. SIGHUP goes to all workers; so does what an administrator had one of them do: load the policy again.
5. SIGTERM and SIGINT drain all workers, then the store is stopped; exit 0. A worker that takes too long is killed.
6. Workers die with the parent, whatever ends it.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from broker.adapters.redis.embedded import EmbeddedServer
from broker.app.channel import LOADED, READY, UP, spell_order
from broker.app.listener import listen
from broker.app.logs import log_to_stderr
from broker.app.settings import EMBEDDED, Settings

log: Final = logging.getLogger("broker.app")
FIRST_PAUSE_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 5.0
CLOSING_SECONDS: Final = 12.0
"""What a worker may take beside draining: to write its last records."""


class WorkerEndedError(Exception):
    """A worker ended before the broker had started. code: its exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Worker:
    """One worker process at a time, under one number."""

    def __init__(self, settings: Settings, listener: socket.socket, *, loaded: Callable[[Worker], None]) -> None:
        self._settings = settings
        self._listener = listener
        self._loaded = loaded
        self._process: asyncio.subprocess.Process | None = None
        self._is_up = False
        self._hang_up_soon = False
        self.ready = asyncio.Event()

    @property
    def number(self) -> int:
        return self._settings.worker

    async def run_once(self) -> int:
        """Start the process, hear what it says, wait for its end; its exit code."""
        ours, theirs = socket.socketpair()
        try:
            self._process = process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "broker.cli.main", "serve", "--worker", str(theirs.fileno())),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), self._listener.fileno()),
                start_new_session=True,  # Ctrl-C at the terminal is for the parent, which then ends the workers
            )
        finally:
            theirs.close()
        reader, writer = await asyncio.open_connection(sock=ours)
        # a stated reason counts once, and a restarted worker finds the store claimed
        writer.write(spell_order(self._settings, listener=self._listener.fileno()))
        self._settings = replace(self._settings, claim_unknown_store=None)
        hearing = asyncio.ensure_future(self._hear(reader))
        try:
            return await process.wait()
        finally:
            hearing.cancel()
            writer.close()
            self._is_up = self._hang_up_soon = False

    async def _hear(self, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):
            while line := (await reader.readline()).decode().strip():
                if line == UP:
                    self._is_up = True
                    if self._hang_up_soon:
                        self.hang_up()
                elif line == READY:
                    self.ready.set()
                elif line == LOADED:
                    self._loaded(self)

    def hang_up(self) -> None:
        """Have it load the policy again; one that cannot hear signals yet hears of it then."""
        self._hang_up_soon = not self._is_up
        if self._is_up:
            self._send(signal.SIGHUP)

    async def end(self, within_seconds: float) -> None:
        """End the process, by force if it takes longer than that."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        self._send(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), within_seconds)
        except TimeoutError:
            log.error("worker %d does not end; it is killed", self.number)
            self._send(signal.SIGKILL)
            await process.wait()

    def _send(self, number: signal.Signals) -> None:
        process = self._process
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                process.send_signal(number)


class Workers:
    """The parent's side of all of them."""

    def __init__(self, settings: Settings, listener: socket.socket) -> None:
        self._settings = settings
        self._stopping = asyncio.Event()
        self._lives: list[asyncio.Task[None]] = []
        self.all = [
            Worker(
                replace(settings, worker=number, claim_unknown_store=None if number else settings.claim_unknown_store),
                listener,
                loaded=self._others_follow,
            )
            for number in range(settings.workers)
        ]

    def stop(self) -> None:
        self._stopping.set()

    def hang_up(self) -> None:
        for worker in self.all:
            worker.hang_up()

    def _others_follow(self, who: Worker) -> None:
        for worker in self.all:
            if worker is not who:
                worker.hang_up()

    async def run(self) -> None:
        """Until `stop`. Raises `WorkerEndedError` (2)."""
        try:
            await self._start(self.all[:1])
            await self._start(self.all[1:])
            if not self._stopping.is_set():
                log.info("%d workers serve", len(self.all))
            await self._stopping.wait()
        finally:
            self._stopping.set()
            within = self._settings.drain_seconds + CLOSING_SECONDS
            await asyncio.gather(*(worker.end(within) for worker in self.all))
            for life in self._lives:
                life.cancel()
            await asyncio.gather(*self._lives, return_exceptions=True)

    async def _start(self, workers: list[Worker]) -> None:
        """Start these, and wait until all of them serve, or the broker is to stop."""
        if self._stopping.is_set() or not workers:
            return
        lives = [asyncio.ensure_future(self._keep(worker)) for worker in workers]
        self._lives += lives
        ready = asyncio.ensure_future(asyncio.gather(*(worker.ready.wait() for worker in workers)))
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            waited: list[asyncio.Future[Any]] = [ready, stopping, *lives]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            for life in lives:
                if life.done() and not self._stopping.is_set():
                    life.result()
        finally:
            ready.cancel()
            stopping.cancel()
            await asyncio.gather(ready, stopping, return_exceptions=True)

    async def _keep(self, worker: Worker) -> None:
        """Keep a worker running (3)."""
        loop = asyncio.get_running_loop()
        pause = FIRST_PAUSE_SECONDS
        while not self._stopping.is_set():
            since = loop.time()
            code = await worker.run_once()
            if self._stopping.is_set():
                return
            if not worker.ready.is_set():
                raise WorkerEndedError(code)
            log.error("worker %d ended with code %d; it is started again", worker.number, code)
            if loop.time() - since > LONGEST_PAUSE_SECONDS:
                pause = FIRST_PAUSE_SECONDS
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


def serve_workers(settings: Settings) -> None:
    """Run until a signal. Raises `BrokerError` where the broker cannot start, `SystemExit` where a worker says why."""
    log_to_stderr()
    settings.check()
    try:
        asyncio.run(_serve(settings))
    except WorkerEndedError as error:
        raise SystemExit(error.code if error.code > 0 else 1) from None


async def _serve(settings: Settings) -> None:
    listener = listen(settings)
    embedded = EmbeddedServer(settings.data) if settings.store == EMBEDDED else None
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    background: list[asyncio.Future[None]] = []
    try:
        if embedded is not None:
            await embedded.start()
            settings = replace(settings, store=embedded.url)
            background.append(asyncio.ensure_future(embedded.supervise()))
        workers = Workers(settings, listener)
        loop.add_signal_handler(signal.SIGHUP, workers.hang_up)
        background.append(asyncio.ensure_future(_after(stop, workers.stop)))
        await workers.run()
    finally:
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        listener.close()
        if embedded is not None:
            await embedded.stop()


async def _after(event: asyncio.Event, act: Callable[[], None]) -> None:
    await event.wait()
    act()
