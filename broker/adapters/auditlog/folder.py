"""The folder of a broker's audit logs: one file for each of its worker processes.

| file              | is                                                                  |
|-------------------|---------------------------------------------------------------------|
| `log.sqlite`      | the log of worker 0                                                 |
| `log-<i>.sqlite`  | the log of worker i; it stays when there are fewer workers later on |
| `claim.lock`      | locked by the worker that adopts or claims the store                |
| `replica`         | a random name, by which a replica knows itself among others         |

A worker writes its own log, and reads those of the others over connections that cannot write.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from broker.adapters.auditlog.database import read_records
from broker.domain.canonical import JsonObject
from broker.domain.errors import AuditUnavailableError, StoreUnclaimedError

CLAIM_SECONDS: Final = 10.0
_MAKING_SECONDS: Final = 1.0
_POLL_SECONDS: Final = 0.01
_LOG: Final = re.compile(r"log(?:-([1-9][0-9]{0,3}))?\.sqlite")


class AuditFolder:
    """`ports.audit.AuditLogs` on a folder."""

    def __init__(self, path: Path, *, claim_seconds: float = CLAIM_SECONDS) -> None:
        self._path = path
        self._claim_seconds = claim_seconds

    def path(self, worker: int) -> Path:
        """The log of a worker."""
        return self._path / ("log.sqlite" if worker == 0 else f"log-{worker}.sqlite")

    def replica(self) -> str:
        """The name of the replica whose logs these are, made once. Raises `AuditUnavailableError`."""
        file = self._path / "replica"
        made = self._path / f".replica-{os.getpid()}"
        try:
            if not file.exists():
                made.write_text(secrets.token_hex(16), "ascii")
                with suppress(FileExistsError):  # another worker was faster
                    os.link(made, file)
                made.unlink()
            return file.read_text("ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise AuditUnavailableError(f"{file} cannot be made or read: {error}") from None

    def logs(self) -> tuple[int, ...]:
        """The workers that have or had a log, in order. Raises `AuditUnavailableError`."""
        try:
            found = [_LOG.fullmatch(name) for name in os.listdir(self._path)]
        except OSError as error:
            raise AuditUnavailableError(f"the folder {self._path} cannot be read: {error.strerror}") from None
        return tuple(sorted(int(match[1] or 0) for match in found if match is not None))

    def records(self, log: int, *, start: int = 0) -> Iterator[tuple[int, JsonObject]]:
        """Index and record of one log from `start`, in order."""
        return read_records(self.path(log), start=start)

    def histories(self) -> Iterator[Iterator[JsonObject]]:
        """The control records of each log, in order."""
        for log in self.logs():
            yield iter(self._history(log))

    def _history(self, log: int) -> list[JsonObject]:
        """One log's; one that its worker is just making is waited for, since it cannot be told from one that is spoilt."""
        path, deadline = self.path(log), time.monotonic() + _MAKING_SECONDS
        while True:
            try:
                return [record for _, record in read_records(path, control_only=True)]
            except AuditUnavailableError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_SECONDS)

    @asynccontextmanager
    async def claiming(self) -> AsyncIterator[None]:
        """One worker at a time. Raises `StoreUnclaimedError` where another one takes too long."""
        try:
            lock = os.open(self._path / "claim.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise AuditUnavailableError(f"the folder {self._path} cannot be written to: {error.strerror}") from None
        try:
            deadline = asyncio.get_running_loop().time() + self._claim_seconds
            while not _lock(lock):
                if asyncio.get_running_loop().time() > deadline:
                    raise StoreUnclaimedError("another worker of this broker is still claiming the store")
                await asyncio.sleep(_POLL_SECONDS)
            yield
        finally:
            os.close(lock)  # which unlocks it


def _lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
