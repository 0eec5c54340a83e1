"""Records and logs for the audit tests, and a SQLite file system that fails on cue."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Any

import apsw
from broker.adapters.auditlog.log import SqliteAuditLog
from broker.domain.audit.records import Call, MintDenied, Released, Revoked

_numbers = itertools.count()


def released(name: str | None = None) -> Released:
    return Released(name or f"r{next(_numbers)}", "2026-11-30T00:00:00.000000Z", client="c", jti="j")


def revoked(name: str, *, seq: int) -> Revoked:
    return Revoked(
        name, "2026-11-30T00:00:00.000000Z", gen=1, gseq=seq, seq=seq, revoked=("tv:t@1",), by="b", reason="r"
    )


def denied(name: str, *, why: str) -> MintDenied:
    return MintDenied(name, "2026-11-30T00:00:00.000000Z", Call(tool="t"), reason="task_unknown", where=None, why=why)


def open_log(path: Path, **settings: Any) -> SqliteAuditLog:
    return SqliteAuditLog.open(path, **settings)


class FaultyDisk(apsw.VFS):
    """The real file system, but for what it was told.

    fail:  `sync` (after the bytes went out, as a dying disk does), `write` or None, on files whose name has `where`.
    held:  while it is not set, syncs wait.
    """

    def __init__(self, name: str) -> None:
        self.vfs_name = name
        self.fail: str | None = None
        self.where = "-wal"
        self.syncs = 0
        self.failed = 0
        self.held = threading.Event()
        self.held.set()
        super().__init__(name, base="")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return _FaultyFile(self, name, flags)


class _FaultyFile(apsw.VFSFile):
    def __init__(self, disk: FaultyDisk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        self._name = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        super().__init__("", name, flags)

    def xSync(self, flags: int) -> None:
        disk = self._disk
        disk.held.wait(30)
        if disk.where in self._name:
            disk.syncs += 1
            if disk.fail == "sync":
                disk.failed += 1
                raise apsw.IOError("the disk failed to sync")
        super().xSync(flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        disk = self._disk
        if disk.fail == "write" and disk.where in self._name:
            disk.failed += 1
            raise apsw.FullError("the disk is full")
        super().xWrite(data, offset)
