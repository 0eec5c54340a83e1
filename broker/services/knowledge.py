"""What this broker knows of the store by its own logs, and how it takes in more.

1. All logs of the broker are replayed, each by itself, and put together (`domain/audit/replay.py`).
2. What is learnt from elsewhere (the store, other replicas) goes into this process's own log as `heard` before it counts.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from broker.domain.audit.records import Heard
from broker.domain.audit.replay import Merged, Replayed, lacking, merge, put_mark, put_version, replay
from broker.domain.canonical import JsonObject
from broker.domain.errors import StoreUnsuitableError
from broker.domain.lifecycle.states import read_record, record_json
from broker.ports.audit import AuditLog, AuditLogs
from broker.ports.feed import Content
from broker.ports.system import Clock, Entropy

PORTION_BYTES: Final = 40_000
"""Of what was heard in one record, which takes 65 535."""
_size: Final = json.JSONEncoder(separators=(",", ":")).encode


class Knowledge:
    """One for a process. Reading takes place aside from the event loop."""

    def __init__(self, *, log: AuditLog, logs: AuditLogs, clock: Clock, entropy: Entropy) -> None:
        self._log = log
        self._logs = logs
        self._clock = clock
        self._entropy = entropy

    async def own(self) -> Merged:
        """What the logs say (rule 1). Raises `AuditUnavailableError`, `StoreUnsuitableError` for what cannot be read."""
        return await asyncio.to_thread(self._own)

    def _own(self) -> Merged:
        try:
            return merge([_as_stored(replay(history)) for history in self._logs.histories()])
        except ValueError as error:
            raise StoreUnsuitableError(f"the audit log holds a record that this broker cannot read: {error}") from None

    async def take_in(self, known: Replayed, wanted: Replayed) -> int:
        """Have the log say what is wanted, where it says `known` so far (rule 2); how many records that took."""
        records, marks = lacking(known, wanted)
        count = 0
        for some_records, some_marks in portions(records, marks):
            await self._log.append(
                Heard(
                    id=self._entropy.token(),
                    ts=self._clock.timestamp(),
                    gen=wanted.gen,
                    seq=wanted.seq,
                    records=some_records,
                    marks=some_marks,
                )
            )
            count += 1
        return count


def state_of(content: Content) -> Replayed:
    """What the store holds, as a replay would say it."""
    point = content.point
    state = Replayed(gen=point.gen, seq=point.seq)
    for record in content.versions.values():
        put_version(state, record_json(record), at=(point.gen, point.seq))
    for scope, seq in content.marks.items():
        put_mark(state, scope, seq, gen=point.gen)
    return state


def portions(
    records: Sequence[JsonObject], marks: Mapping[str, int]
) -> Iterator[tuple[tuple[JsonObject, ...], dict[str, int]]]:
    """Records, then marks, in portions that fit into an audit record each.

    In this order, since a log that knows of a revocation and not of what became of the version would say nothing of it.
    """
    some: list[JsonObject] = []
    size = 0
    for record in records:
        bytes_of = len(_size(record))
        if some and size + bytes_of > PORTION_BYTES:
            yield tuple(some), {}
            some, size = [], 0
        some.append(record)
        size += bytes_of
    few: dict[str, int] = {}
    for scope, seq in marks.items():
        bytes_of = len(_size(scope)) + 20
        if (some or few) and size + bytes_of > PORTION_BYTES:
            yield tuple(some), few
            some, few, size = [], {}, 0
        few[scope] = seq
        size += bytes_of
    if some or few:
        yield tuple(some), few


def _as_stored(state: Replayed) -> Replayed:
    """Version records spelled as the store has them, so that the two can be compared."""
    state.versions = {name: record_json(read_record(record)) for name, record in state.versions.items()}
    return state
