"""Replay: what the log says the store must hold.

Fold over the control records, in order:
1. `version.*`, `policy.narrow`: each version record in it replaces the one known, if its `seq` is not older.
2. `version.rollback`, `version.retire`, `policy.narrow`, `revoke`: each revoked scope gets the greater of its marks.
3. `recover`: its intent counts as the record that was lost.
4. `gen.claim`: the greatest `gen` and `seq` are kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from broker.domain.canonical import JsonObject


@dataclass(slots=True)
class Replayed:
    """The fold's state. versions: id → record JSON. marks: scope → sequence."""

    gen: int = 0
    seq: int = 0
    gseq: int = 0
    versions: dict[str, JsonObject] = field(default_factory=dict)
    marks: dict[str, int] = field(default_factory=dict)


def replay(records: Iterable[JsonObject]) -> Replayed:
    """What the store must hold, after all control records of the log. Raises `ValueError` on an unreadable one."""
    state = Replayed()
    for record in records:
        if record.get("v") != 1:
            raise ValueError(f"an audit record of format {record.get('v')!r}; this broker knows format 1")
        fold(state, record)
    return state


def fold(state: Replayed, record: JsonObject) -> None:
    """Take one more control record into account."""
    if record.get("type") == "recover":
        intent = record.get("intent")
        if isinstance(intent, dict):
            fold(state, {**intent, **{name: record[name] for name in ("gen", "gseq", "seq")}})
        return
    gen, seq, gseq = record.get("gen"), record.get("seq"), record.get("gseq")
    if isinstance(gen, int):
        if gen > state.gen:
            state.gen, state.gseq = gen, 0
        if isinstance(gseq, int) and gen == state.gen:
            state.gseq = max(state.gseq, gseq)
    if not isinstance(seq, int):
        return
    state.seq = max(state.seq, seq)
    updates = record.get("records")
    for after in updates if isinstance(updates, list) else []:
        if isinstance(after, dict):
            key = f"{after['tool']}@{after['version']}"
            known = state.versions.get(key)
            if known is None or _seq(known) <= _seq(after):
                state.versions[key] = after
    revoked = record.get("revoked")
    for scope in revoked if isinstance(revoked, list) else []:
        if isinstance(scope, str):
            state.marks[scope] = max(state.marks.get(scope, 0), seq)


def _seq(record: JsonObject) -> int:
    value = record.get("seq")
    return value if isinstance(value, int) else 0
