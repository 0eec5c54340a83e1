"""The audit log of this process: a queue, one writer thread, group commit.

1. `append` returns when its record is on disk, and never later than the deadline.
2. The writer takes all that waits, up to `MAX_BATCH`, into one transaction; while it syncs, the next batch gathers. It
   never lingers for company.
3. The queue is bounded: what does not fit is refused at once, not later.
4. A batch that fails is unknown: all its records are reported as failed, the file is opened anew and read before the
   next write. A failed sync is never tried again. The caller may repeat a record: its id is stored once.
5. A log whose file was removed or replaced refuses until the file is back: what goes into a file nobody finds is lost.
6. A child process made by fork has no writer, so it is refused.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final, TypeAlias

from broker.adapters.auditlog.database import Database, LogFileLock, identity_of, open_log_file, read_records
from broker.adapters.auditlog.encode import Row, encode_record
from broker.domain.audit.records import Record
from broker.domain.canonical import JsonObject
from broker.domain.errors import AuditUnavailableError

MAX_BATCH: Final = 1_024
DEADLINE_SECONDS: Final = 1.5
QUEUE_LIMIT: Final = 8_192
_RETRY_SECONDS: Final = 0.5
_CLOSE_SECONDS: Final = 10.0

_log: Final = logging.getLogger("broker.audit")
_Item: TypeAlias = "tuple[Row, asyncio.Future[int]]"


class _MissingError(Exception):
    def __str__(self) -> str:
        return "its file was removed or replaced"


class SqliteAuditLog:
    """`ports.audit.AuditLog` on one SQLite file. Open it with `SqliteAuditLog.open`; append from one event loop."""

    def __init__(
        self,
        path: Path,
        database: Database,
        lock: LogFileLock,
        *,
        deadline_seconds: float,
        queue_limit: int,
        vfs: str | None,
    ) -> None:
        self._path = path
        self._database: Database | None = database
        self._identity = database.identity
        self._lock = lock
        self._deadline_seconds = deadline_seconds
        self._queue_limit = queue_limit
        self._vfs = vfs
        self._process = os.getpid()
        self._queue: SimpleQueue[_Item | None] = SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting = 0
        self._is_late = False
        self._is_written = True
        self._is_closed = False
        self._thread = threading.Thread(target=self._write_until_closed, name="audit-log", daemon=True)
        self._thread.start()

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        deadline_seconds: float = DEADLINE_SECONDS,
        queue_limit: int = QUEUE_LIMIT,
        vfs: str | None = None,
    ) -> SqliteAuditLog:
        """Open or make the log. Blocks. Raises `ConfigurationError`. `vfs` names a registered SQLite VFS."""
        lock, database = open_log_file(path, vfs=vfs)
        return cls(path, database, lock, deadline_seconds=deadline_seconds, queue_limit=queue_limit, vfs=vfs)

    @property
    def count(self) -> int:
        """How many records are known to be in the log."""
        database = self._database
        return 0 if database is None else database.count

    async def append(self, record: Record) -> int:
        """Make a record durable; its index. Raises `AuditUnavailableError` when it cannot within the deadline."""
        self._refuse_where_hopeless()
        row = encode_record(record)
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._loop is not None:
                raise RuntimeError("an audit log is appended to from one event loop")
            self._loop = loop
        future: asyncio.Future[int] = loop.create_future()
        deadline = loop.call_later(self._deadline_seconds, self._expire, future)
        self._waiting += 1
        self._queue.put((row, future))
        try:
            return await future
        finally:
            deadline.cancel()

    def control_records(self) -> Iterator[JsonObject]:
        """The records that a replay reads, in order."""
        return (record for _, record in read_records(self._path, control_only=True, vfs=self._vfs))

    def records(self, *, start: int = 0) -> Iterator[tuple[int, JsonObject]]:
        """Index and record from `start`, in order."""
        return read_records(self._path, start=start, vfs=self._vfs)

    def is_healthy(self) -> bool:
        """Whether the last write succeeded in time and the file is still the one that was opened."""
        database = self._database
        if self._is_closed or self._is_late or not self._is_written or database is None:
            return False
        return os.getpid() == self._process and database.is_in_place()

    async def close(self) -> None:
        """Write what is queued, then close. Gives up on a disk that hangs."""
        if not self._is_closed:
            self._is_closed = True
            self._queue.put(None)
        await asyncio.to_thread(self._thread.join, _CLOSE_SECONDS)

    def _refuse_where_hopeless(self) -> None:
        if self._is_closed:
            raise AuditUnavailableError("the audit log is closed")
        if os.getpid() != self._process:
            raise AuditUnavailableError("the audit log belongs to the parent process")
        if self._waiting >= self._queue_limit:
            raise AuditUnavailableError("the audit log's queue is full")

    def _expire(self, future: asyncio.Future[int]) -> None:
        if not future.done():
            self._is_late = True
            future.set_exception(AuditUnavailableError(f"not on disk within {self._deadline_seconds:g} s"))

    # The rest runs in the writer thread, but for `_settle`, which the event loop runs.

    def _write_until_closed(self) -> None:
        is_open = True
        while is_open:
            batch: list[_Item] = []
            is_open = self._gather(batch)
            if batch:
                self._settle_soon(batch, self._write([row for row, _ in batch]))
            elif is_open:
                self._write([])  # the last write failed: find out whether writing works again
        if self._database is not None:
            self._database.close()
        self._lock.release()

    def _gather(self, batch: list[_Item]) -> bool:
        """Wait for records, take all there are; False once the log is to be closed."""
        try:
            item = self._queue.get(timeout=None if self._is_written else _RETRY_SECONDS)
            while item is not None:
                batch.append(item)
                if len(batch) == MAX_BATCH:
                    return True
                item = self._queue.get_nowait()
        except Empty:
            return True
        return False

    def _write(self, rows: list[Row]) -> list[int] | None:
        """The rows' indexes once they are on disk; None where that is unknown."""
        try:
            database = self._reopened()
            if not database.is_in_place():
                raise _MissingError
            indexes = database.insert(rows) if rows else []
            # Asked again, so that nothing is acknowledged that went into a file which was gone by then.
            if not database.is_in_place():
                raise _MissingError
        except Exception as error:  # whatever it was, the writer must live on to say so
            self._fail(error)
            return None
        self._is_written = True
        return indexes

    def _reopened(self) -> Database:
        if self._database is None:
            # Asked before it is opened: opening would fold this log's write-ahead log into the other file.
            if identity_of(self._path) != self._identity:
                raise _MissingError
            self._database = Database(self._path, vfs=self._vfs)
            _log.warning("the audit log %s can be written to again", self._path)
        return self._database

    def _fail(self, error: Exception) -> None:
        if self._is_written:
            _log.error("the audit log %s cannot be written to; what needs a record is refused: %s", self._path, error)
        self._is_written = False
        if not isinstance(error, _MissingError) and self._database is not None:
            self._database.close()
            self._database = None

    def _settle_soon(self, batch: list[_Item], indexes: list[int] | None) -> None:
        try:
            batch[0][1].get_loop().call_soon_threadsafe(self._settle, batch, indexes)
        except RuntimeError:
            pass  # the event loop is closed: nobody waits any more

    def _settle(self, batch: list[_Item], indexes: list[int] | None) -> None:
        self._waiting -= len(batch)
        self._is_late = False
        if indexes is None:
            for _, future in batch:
                if not future.done():
                    future.set_exception(AuditUnavailableError("the write to the audit log failed"))
            return
        for (_, future), index in zip(batch, indexes, strict=True):
            if not future.done():
                future.set_result(index)
