"""`broker serve`: a running broker behind uvicorn.

1. The address is taken first, so that one in use is said before anything else is started.
2. SIGTERM and SIGINT drain: running requests end, new ones find no listener; then log and store are closed; exit 0. While
   the broker starts, they break that off, and what is open is closed.
3. SIGHUP loads the policy again; while the broker starts, once it has started.
4. A replica that must wait for the others before it may claim the store answers them meanwhile (`doorway.py`).
5. The same process serves as a worker of several (`workers.py`): it is handed the address, and tells how far it is.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any, Final

import uvicorn

from broker.app.channel import LOADED, READY, UP, WorkerChannel
from broker.app.compose import Parts
from broker.app.connections import BoundedConnection, most_connections
from broker.app.doorway import Doorway
from broker.app.listener import listen
from broker.app.logs import log_to_stderr
from broker.app.running import Running, say_loaded, tended
from broker.app.settings import Settings
from broker.domain.addresses import LOOPBACK
from broker.domain.errors import BrokerError
from broker.http.api import make_api

log: Final = logging.getLogger("broker.app")
GC_THRESHOLDS: Final = (10_000, 20, 100)
HANG_UP: Final = "SIGHUP"
_PR_SET_PDEATHSIG: Final = 1
ENDS: Final = (signal.SIGTERM, signal.SIGINT)


def serve(settings: Settings) -> None:
    """Run until a signal. Raises `BrokerError` where the broker cannot start."""
    log_to_stderr()
    settings.check()
    uvloop_run(_serve(settings, listen(settings), None))


def serve_as_worker(descriptor: int) -> None:
    """Run as the worker at the other end of a channel, until a signal or the end of the broker (rule 5)."""
    channel = WorkerChannel(descriptor)
    log_to_stderr(f"[{channel.settings.worker}]")
    _die_with(channel.parent)
    uvloop_run(_serve(channel.settings, channel.listener, channel))


def _die_with(parent: int) -> None:
    """As the embedded store does: without its parent a worker would hold the log that the next one must write."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # it died before we could ask
            raise SystemExit(1)


def uvloop_run(main: object) -> None:
    try:
        import uvloop  # not on every platform
    except ImportError:
        asyncio.run(main)  # type: ignore[arg-type]
    else:
        uvloop.run(main)  # type: ignore[arg-type]


async def _serve(settings: Settings, listener: socket.socket, channel: WorkerChannel | None) -> None:
    tell = channel.tell if channel is not None else lambda line: None
    # what SIGHUP does, the parent has every worker do by itself
    running = Running(settings, reloaded=lambda by: tell(LOADED) if by != HANG_UP else None)
    ending = _Ending()
    if channel is not None:
        channel.watch(lambda: signal.raise_signal(signal.SIGTERM))
    doors = _Doors(settings, listener, running, ending)
    running.waiting = doors.open_early
    try:
        parts = await _start(running, ending, tell)
    except BaseException:
        await doors.close()
        raise
    if parts is None:
        await doors.close()
        return
    # What is there now stays: collecting it again and again costs requests a tenth of their time.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    async with tended(running):
        log.info("broker %s, policy %s", settings.public_issuer, parts.policy.current().digest)
        if settings.host not in LOOPBACK:
            log.info("listening beyond loopback: put TLS in front of it")
        await doors.serve(parts, lambda: tell(READY))


class _Doors:
    """The HTTP server: opened once the broker has started, or before, where it waits for other replicas."""

    def __init__(self, settings: Settings, listener: socket.socket, running: Running, ending: _Ending) -> None:
        self._settings = settings
        self._listener = listener
        self._running = running
        self._ending = ending
        self._doorway: Doorway | None = None
        self._serving: asyncio.Task[None] | None = None

    def open_early(self, parts: Parts) -> None:
        """Let other replicas ask; whoever else comes is told to come back."""
        if self._serving is None:
            self._doorway = Doorway(
                make_api(parts.use_cases),
                issuer=self._settings.public_issuer,
                why=lambda: parts.incarnation.failure,
                request_id=parts.entropy.token,
            )
            server = self._server(self._doorway, parts)
            self._serving = asyncio.ensure_future(server.serve(sockets=[self._listener]))

    async def serve(self, parts: Parts, serves: Callable[[], None]) -> None:
        """Serve until the server has drained."""
        if self._serving is None or self._doorway is None:
            server = self._server(make_api(parts.use_cases), parts)
            self._serving = asyncio.ensure_future(server.serve(sockets=[self._listener]))
        else:
            self._doorway.open()
        serves()
        await self._serving

    async def close(self) -> None:
        """The broker does not start after all."""
        if self._serving is not None and self._ending.server is not None:
            self._ending.server.should_exit = True
            await asyncio.wait([self._serving])
        self._listener.close()

    def _server(self, app: Any, parts: Parts) -> uvicorn.Server:
        BoundedConnection.most = most_connections()
        server = uvicorn.Server(
            uvicorn.Config(
                app,
                access_log=False,
                log_config=None,
                lifespan="off",
                server_header=False,
                proxy_headers=False,  # no decision looks at a peer address
                date_header=True,
                timeout_graceful_shutdown=self._settings.drain_seconds,
                http=BoundedConnection,
                ws="none",
            )
        )
        # uvicorn drains, then raises the signal again under the handler that was there before: that one must not end
        # the process, since log and store are still open
        self._ending.server, self._ending.close_streams = server, parts.following.listeners.close
        for number in ENDS:
            signal.signal(number, self._ending)
        return server


class _Ending:
    """What SIGTERM and SIGINT do: break the start off; once there is a server, have it drain."""

    def __init__(self) -> None:
        self.starting: asyncio.Future[Parts] | None = None
        self.server: uvicorn.Server | None = None
        self.close_streams: Callable[[], None] = lambda: None

    def __call__(self, *_: object) -> None:
        if self.server is not None:
            self.server.should_exit = True
            self.close_streams()
        if self.starting is not None:
            self.starting.cancel()  # which does nothing to a start that is over


async def _start(running: Running, ending: _Ending, tell: Callable[[str], None]) -> Parts | None:
    """The parts of a broker that has started; None where a signal broke that off."""
    loop = asyncio.get_running_loop()
    ending.starting = starting = asyncio.ensure_future(running.start())
    reloads: list[asyncio.Task[None]] = []

    async def reload() -> None:
        await asyncio.wait([starting])
        await _reload(running)

    def hang_up() -> None:
        reloads[:] = [task for task in reloads if not task.done()] + [loop.create_task(reload())]

    hup = getattr(signal, "SIGHUP", None)
    if hup is not None:
        loop.add_signal_handler(hup, hang_up)
    for number in ENDS:
        loop.add_signal_handler(number, ending)
    tell(UP)
    try:
        return await starting
    except asyncio.CancelledError:
        log.info("ended by a signal before it had started")
        return None


async def _reload(running: Running) -> None:
    parts = running.parts
    if parts is None:
        return
    try:
        loaded = await parts.policies.reload(by=HANG_UP)
    except BrokerError as error:
        log.error("policy not loaded, the last good one stays:\n%s", error)
    else:
        log.info("policy %s loaded", loaded.digest)
        say_loaded(loaded)
