"""Replay: what the logs say the store must hold.

Fold over the control records of one log, in order:
1. `version.*`, `policy.narrow`: each version record in it replaces the one known, if its `seq` is not older.
2. `version.rollback`, `version.retire`, `policy.narrow`, `revoke`: each revoked scope gets the greater of its marks.
3. `marks.compact`: the mark on everything is at least `covered`.
4. `recover`: its intent counts as the record that was lost.
5. `gen.claim`: the greatest `gen` and `seq` are kept.
6. `heard`: its version records count as in 1, its marks as in 2, each at its own sequence.

Several states (of logs, of replicas, of the store itself), in whatever order they come:
7. The greatest `gen`, `seq`, and mark of each scope count.
8. Who does not know of the last revocation of a version says nothing of that version: a store that lost a rollback may have
   been moved on by somebody who never heard of it. Who knows of it: who has its mark, or a later one on everything, or saw the
   version at or after it in the same gen. Of the others the record with the greatest `seq` counts.
9. A version where that set a newer record aside is *contested*: it must be put in place under a sequence that none has used,
   or the newer record would win wherever it is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from broker.domain.canonical import JsonObject, canonical_json

_EVERYTHING = "all"  # as `revocation.scopes` spells them, which is a sibling
_KEY = "key:"
_DEAD = ("rolled_back", "retired")


@dataclass(slots=True)
class Replayed:
    """The fold's state. versions: id → record JSON. marks: scope → sequence.

    seen: version → the latest `(gen, seq)` at which a record spoke of it. told: scope → the gen that its mark was told in.
    """

    gen: int = 0
    seq: int = 0
    gseq: int = 0
    versions: dict[str, JsonObject] = field(default_factory=dict)
    marks: dict[str, int] = field(default_factory=dict)
    seen: dict[str, tuple[int, int]] = field(default_factory=dict, compare=False)
    told: dict[str, int] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Merged:
    """state: what all of them say together. contested: see rule 9."""

    state: Replayed
    contested: frozenset[str] = frozenset()


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
    at = (gen if isinstance(gen, int) else 0, seq)
    updates = record.get("records")
    for after in updates if isinstance(updates, list) else []:
        if isinstance(after, dict):
            put_version(state, after, at=at)
    revoked = record.get("revoked")
    for scope in revoked if isinstance(revoked, list) else []:
        if isinstance(scope, str):
            put_mark(state, scope, seq, gen=at[0])
    marks = record.get("marks")
    for scope, mark in marks.items() if isinstance(marks, dict) else ():
        if isinstance(mark, int):
            put_mark(state, scope, mark, gen=at[0])
    covered = record.get("covered")
    if isinstance(covered, int):
        put_mark(state, _EVERYTHING, covered, gen=at[0])


def put_version(state: Replayed, after: JsonObject, *, at: tuple[int, int]) -> None:
    """Rule 1, for a record that was told at this point."""
    key = f"{after['tool']}@{after['version']}"
    known = state.versions.get(key)
    if known is None or _seq(known) < _seq(after) or (_seq(known) == _seq(after) and _rank(known) < _rank(after)):
        state.versions[key] = after
    state.seen[key] = max(state.seen.get(key, at), at)


def put_mark(state: Replayed, scope: str, seq: int, *, gen: int) -> None:
    """Rule 2, for a mark that was told in this gen."""
    known = (state.marks.get(scope, 0), state.told.get(scope, 0))
    state.marks[scope], state.told[scope] = max(known, (seq, gen))


def merge(states: Sequence[Replayed]) -> Merged:
    """What several states say together (rules 7 to 9)."""
    made = Replayed()
    for state in states:
        made.gen, made.gseq = max((made.gen, made.gseq), (state.gen, state.gseq))
        made.seq = max(made.seq, state.seq)
        for scope, mark in state.marks.items():
            put_mark(made, scope, mark, gen=state.told.get(scope, 0))
    contested = set()
    for name in sorted({name for state in states for name in state.versions}):
        speaking = [state for state in states if name in state.versions]
        last = f"version:{name}"
        informed = [
            state for state in speaking if _knows(state, name, mark=made.marks.get(last, 0), gen=made.told.get(last, 0))
        ]
        chosen = max((state.versions[name] for state in informed or speaking), key=_rank)
        made.versions[name] = chosen
        made.seen[name] = max(state.seen.get(name, (0, 0)) for state in informed or speaking)
        if any(_seq(state.versions[name]) > _seq(chosen) for state in speaking):
            contested.add(name)
    return Merged(made, frozenset(contested))


def settled(merged: Merged, *, gen: int, seq: int) -> Replayed:
    """What a claim puts in place under a gen and a sequence that none has used: rule 9, and no mark that says nothing."""
    state = merged.state
    versions = {
        name: {**record, "seq": seq} if name in merged.contested else record for name, record in state.versions.items()
    }
    return Replayed(gen=gen, seq=seq, versions=versions, marks=living(state.marks))


def living(marks: Mapping[str, int]) -> dict[str, int]:
    """The marks without those that the mark on everything covers; those of signing keys stay for ever."""
    everything = marks.get(_EVERYTHING, 0)
    return {
        scope: mark
        for scope, mark in marks.items()
        if mark > everything or scope == _EVERYTHING or scope.startswith(_KEY)
    }


def lacking(state: Replayed, wanted: Replayed) -> tuple[list[JsonObject], dict[str, int]]:
    """What a state would have to take in to say what is wanted: version records, and marks."""
    records = [record for name, record in wanted.versions.items() if state.versions.get(name) != record]
    everything = state.marks.get(_EVERYTHING, 0)
    marks = {
        scope: mark
        for scope, mark in living(wanted.marks).items()
        if mark > state.marks.get(scope, 0) and (mark > everything or scope.startswith(_KEY))
    }
    return records, marks


def _knows(state: Replayed, name: str, *, mark: int, gen: int) -> bool:
    if max(state.marks.get(f"version:{name}", 0), state.marks.get(_EVERYTHING, 0)) >= mark:
        return True
    seen_gen, seen_seq = state.seen.get(name, (0, 0))
    return seen_gen == gen and seen_seq >= mark


def _rank(record: JsonObject) -> tuple[int, bool, bytes]:
    return _seq(record), record.get("state") in _DEAD, canonical_json(record)


def _seq(record: JsonObject) -> int:
    value = record.get("seq")
    return value if isinstance(value, int) else 0
