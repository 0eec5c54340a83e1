"""The file of the log: one SQLite database in WAL mode, synced with every commit.

1. One process holds it: an flock on `<file>.lock`, kept until it is closed.
2. `insert` is one transaction; when it returns, the rows are on disk. One id is stored once.
3. After any error the database is not used again. It is opened anew, which folds the write-ahead log into the main
   file: after a failed sync the kernel may show pages that never reached the disk, and folding writes them once more.
4. Opening ends with a synced write, so what opens can also write.
5. The file is the one that was opened: a main file or write-ahead log that was removed or replaced is noticed.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias, cast

import apsw

from broker.adapters.auditlog.encode import Row
from broker.domain.canonical import JsonObject
from broker.domain.errors import AuditUnavailableError, ConfigurationError

FORMAT: Final = 1
_APPLICATION_ID: Final = 0x4D464C47  # "MFLG"
_BUSY_MILLISECONDS: Final = 1_000
_CHECKPOINT_PAGES: Final = 4_000
_PAGE_ROWS: Final = 500

Identity: TypeAlias = tuple[int, int]

_SCHEMA: Final = """
CREATE TABLE record (
    i INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, type TEXT NOT NULL, control INTEGER NOT NULL, bytes BLOB NOT NULL
) STRICT;
CREATE INDEX record_control ON record (i) WHERE control;
CREATE TABLE opened (k INTEGER PRIMARY KEY CHECK (k = 1), times INTEGER NOT NULL) STRICT;
INSERT INTO opened VALUES (1, 0);
"""
_INSERT: Final = "INSERT INTO record (i, id, type, control, bytes) VALUES (?, ?, ?, ?, ?)"


class LogFileLock:
    """Rule 1. Released by `release`, or by the end of the process."""

    def __init__(self, path: Path) -> None:
        lock = path.with_name(path.name + ".lock")
        self._descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise ConfigurationError(
                f"the audit log {path} is in use by another process: stop that one, or give this one its own folder"
            ) from None

    def release(self) -> None:
        os.close(self._descriptor)


class Database:
    """An open log file. Used by one thread at a time."""

    def __init__(self, path: Path, *, vfs: str | None = None) -> None:
        self._path = path
        self._connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs)
        try:
            self.count = self._prepare()
        except BaseException:
            self.close()
            raise
        self.identity: Final = identity_of(path)
        self._wal_identity: Final = identity_of(_wal(path))

    def _prepare(self) -> int:
        connection = self._connection
        connection.set_busy_timeout(_BUSY_MILLISECONDS)
        if connection.pragma("journal_mode", "wal") != "wal":
            raise apsw.CantOpenError("write-ahead logging is not possible there")
        connection.pragma("synchronous", "full")
        connection.wal_autocheckpoint(_CHECKPOINT_PAGES)
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        if connection.pragma("user_version") == 0 and not connection.execute("SELECT * FROM sqlite_schema").fetchall():
            with connection:
                connection.execute(_SCHEMA)
                connection.pragma("application_id", _APPLICATION_ID)
                connection.pragma("user_version", FORMAT)
        if connection.pragma("application_id") != _APPLICATION_ID:
            raise apsw.NotADBError("the file is not an audit log")
        if connection.pragma("user_version") != FORMAT:
            raise apsw.NotADBError(f"its format is {connection.pragma('user_version')}; this broker knows {FORMAT}")
        connection.execute("UPDATE opened SET times = times + 1")
        last = connection.execute("SELECT max(i) FROM record").fetchone()
        return 0 if last is None or last[0] is None else int(last[0]) + 1

    def insert(self, rows: Sequence[Row]) -> list[int]:
        """Store the rows durably; the index of each. Raises `apsw.Error`, after which nothing is known (rule 3)."""
        connection, first = self._connection, self.count
        connection.execute("BEGIN IMMEDIATE")
        try:
            values = [(first + n, row.id, row.type, int(row.control), row.bytes) for n, row in enumerate(rows)]
            connection.executemany(_INSERT, values)
            indexes, count = list(range(first, first + len(rows))), first + len(rows)
        except apsw.ConstraintError:
            connection.execute("ROLLBACK")
            connection.execute("BEGIN IMMEDIATE")
            indexes, count = self._insert_unless_there(rows)
        connection.execute("COMMIT")
        self.count = count
        return indexes

    def _insert_unless_there(self, rows: Sequence[Row]) -> tuple[list[int], int]:
        indexes: list[int] = []
        count = self.count
        for row in rows:
            there = self._connection.execute("SELECT i FROM record WHERE id = ?", (row.id,)).fetchone()
            if there is None:
                self._connection.execute(_INSERT, (count, row.id, row.type, int(row.control), row.bytes))
                indexes.append(count)
                count += 1
            else:
                indexes.append(int(there[0]))
        return indexes, count

    def is_in_place(self) -> bool:
        """Rule 5."""
        path = self._path
        return identity_of(path) == self.identity and identity_of(_wal(path)) == self._wal_identity

    def close(self) -> None:
        try:
            self._connection.close(force=True)
        except apsw.Error:
            pass  # what was committed is on disk; what was not is not promised to anybody


def open_log_file(path: Path, *, vfs: str | None = None) -> tuple[LogFileLock, Database]:
    """Lock and open the file, which is made where there is none. Raises `ConfigurationError`."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = LogFileLock(path)
        try:
            _create(path)
            return lock, Database(path, vfs=vfs)
        except BaseException:
            lock.release()
            raise
    except OSError as error:
        raise ConfigurationError(f"the audit log {path} cannot be used: {error.strerror}") from error
    except apsw.Error as error:
        raise ConfigurationError(f"the audit log {path} cannot be used: {error}") from error


def read_records(
    path: Path, *, start: int = 0, control_only: bool = False, vfs: str | None = None
) -> Iterator[tuple[int, JsonObject]]:
    """Index and record, in order, over a connection of its own that cannot write; no snapshot is held between pages.

    Raises `AuditUnavailableError` where the file, or a record in it, cannot be read.
    """
    wanted = "i >= ? AND control" if control_only else "i >= ?"
    query = f"SELECT i, bytes FROM record WHERE {wanted} ORDER BY i LIMIT {_PAGE_ROWS}"  # noqa: S608  # no outside text
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY, vfs=vfs)
        try:
            connection.set_busy_timeout(_BUSY_MILLISECONDS)
            while page := cast("list[tuple[int, bytes]]", connection.execute(query, (start,)).fetchall()):
                for index, data in page:
                    yield index, json.loads(data)
                start = page[-1][0] + 1
        finally:
            connection.close(force=True)
    except (apsw.Error, ValueError) as error:
        raise AuditUnavailableError(f"the audit log {path} cannot be read from record {start} on: {error}") from error


def _create(path: Path) -> None:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))  # SQLite gives its other files the same mode
    except FileExistsError:
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _wal(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def identity_of(path: Path) -> Identity | None:
    """Which file the name stands for now; None where there is none."""
    try:
        seen = os.stat(path)
    except OSError:
        return None
    return (seen.st_dev, seen.st_ino)
