"""The audit log: durable before anything is answered (DESIGN §6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from broker.domain.audit.records import Record
from broker.domain.canonical import JsonObject


class AuditLog(Protocol):
    """One append-only log for this process.

    1. When `append` returns, the record is on disk, synced.
    2. One id is stored once, whatever the number of repeats.
    3. Records are never changed or removed; their index is dense from 0.
    4. A failed sync is never tried again: what was in that batch is unknown, the log reopens from disk before it goes on.
    """

    async def append(self, record: Record) -> int:
        """Make a record durable; its index. Raises `AuditUnavailableError` when it cannot within the deadline."""
        ...

    def control_records(self) -> Iterator[JsonObject]:
        """The records whose type is in `records.CONTROL`, in order. Reads; blocks for as long as that takes."""
        ...

    def records(self, *, start: int = 0) -> Iterator[tuple[int, JsonObject]]:
        """Index and record from `start`, in order. Reads; blocks for as long as that takes."""
        ...

    def is_healthy(self) -> bool:
        """Whether the last write succeeded and the file is still the one that was opened."""
        ...

    async def close(self) -> None:
        """Write what is queued, then close."""
        ...


class AuditLogs(Protocol):
    """All logs of this broker: of this process, and of its other workers, present and former. Reads block as long as they take."""

    def logs(self) -> Sequence[int]:
        """The numbers of the workers that have a log, in order. Raises `AuditUnavailableError`, as reading does."""
        ...

    def records(self, log: int, *, start: int = 0) -> Iterator[tuple[int, JsonObject]]:
        """Index and record of one log from `start`, in order."""
        ...

    def histories(self) -> Iterator[Iterator[JsonObject]]:
        """Of each log the records whose type is in `records.CONTROL`, in order."""
        ...

    def claiming(self) -> AbstractAsyncContextManager[None]:
        """Held by one worker of the broker at a time; given back when its process ends, whatever way."""
        ...
