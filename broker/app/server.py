"""`broker serve`: a running broker behind uvicorn.

1. The address is taken first, so that one in use is said before anything else is started.
2. SIGTERM and SIGINT drain: running requests end, new ones find no listener; then log and store are closed; exit 0. While
   the broker starts, they break that off, and what is open is closed.
3. SIGHUP loads the policy again; while the broker starts, once it has started.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import signal
import socket
import sys
from collections.abc import Callable
from typing import Final

import uvicorn

from broker.app.compose import Parts
from broker.app.connections import BoundedConnection
from broker.app.running import Running, say_loaded, tended
from broker.app.settings import Settings
from broker.domain.addresses import LOOPBACK
from broker.domain.errors import BrokerError, ConfigurationError
from broker.http.api import make_api

log: Final = logging.getLogger("broker.app")
GC_THRESHOLDS: Final = (10_000, 20, 100)
ENDS: Final = (signal.SIGTERM, signal.SIGINT)


def serve(settings: Settings) -> None:
    """Run until a signal. Raises `BrokerError` where the broker cannot start."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    settings.check()
    uvloop_run(_serve(settings))


def uvloop_run(main: object) -> None:
    try:
        import uvloop  # not on every platform
    except ImportError:
        asyncio.run(main)  # type: ignore[arg-type]
    else:
        uvloop.run(main)  # type: ignore[arg-type]


async def _serve(settings: Settings) -> None:
    listener = _listen(settings)
    running, ending = Running(settings), _Ending()
    try:
        parts = await _start(running, ending)
    except BaseException:
        listener.close()
        raise
    if parts is None:
        listener.close()
        return
    # What is there now stays: collecting it again and again costs requests a tenth of their time.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    async with tended(running):
        server = uvicorn.Server(
            uvicorn.Config(
                make_api(parts.use_cases),
                access_log=False,
                log_config=None,
                lifespan="off",
                server_header=False,
                proxy_headers=False,  # no decision looks at a peer address
                date_header=True,
                timeout_graceful_shutdown=settings.drain_seconds,
                http=BoundedConnection,
                ws="none",
            )
        )
        log.info("broker %s, policy %s", settings.public_issuer, parts.policy.current().digest)
        if settings.host not in LOOPBACK:
            log.info("listening beyond loopback: put TLS in front of it")
        # uvicorn drains, then raises the signal again under the handler that was there before: that one must not end
        # the process, since log and store are still open
        ending.server, ending.close_streams = server, parts.following.close
        for number in ENDS:
            signal.signal(number, ending)
        await server.serve(sockets=[listener])


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
        elif self.starting is not None:
            self.starting.cancel()


async def _start(running: Running, ending: _Ending) -> Parts | None:
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
    try:
        return await starting
    except asyncio.CancelledError:
        log.info("ended by a signal before it had started")
        return None


def _listen(settings: Settings) -> socket.socket:
    """Rule 1. Raises `ConfigurationError`."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        mend = "end what listens there, or name another --port" if error.errno == errno.EADDRINUSE else "name another"
        raise ConfigurationError(f"--host {settings.host} --port {settings.port}: {error.strerror}; {mend}") from None
    return listener


async def _reload(running: Running) -> None:
    parts = running.parts
    if parts is None:
        return
    try:
        loaded = await parts.policies.reload(by="SIGHUP")
    except BrokerError as error:
        log.error("policy not loaded, the last good one stays:\n%s", error)
    else:
        log.info("policy %s loaded", loaded.digest)
        say_loaded(loaded)
