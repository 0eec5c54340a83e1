"""What a replica knows of the store, as another one is told it. Format 1; grows only.

| member     | is                                                                |
|------------|-------------------------------------------------------------------|
| `gen seq`  | the greatest that its logs know of                                |
| `versions` | tool@version → version record, whole                              |
| `marks`    | revocation scope → sequence                                       |
| `seen`     | tool@version → `[gen, seq]` at which a record spoke of it         |
| `told`     | revocation scope → the gen that its mark was told in              |
| `replica`  | the name of who tells; put in where it is told                    |
"""

from __future__ import annotations

from broker.domain.audit.replay import Replayed
from broker.domain.canonical import MAX_INTEGER, JsonObject, JsonValue

FORMAT = 1


def knowledge_json(state: Replayed) -> JsonObject:
    """A state as it goes to another replica."""
    return {
        "v": FORMAT,
        "gen": state.gen,
        "seq": state.seq,
        "versions": dict(state.versions),
        "marks": dict(state.marks),
        "seen": {name: [gen, seq] for name, (gen, seq) in state.seen.items()},
        "told": dict(state.told),
    }


def read_knowledge(value: JsonObject) -> Replayed:
    """A state as it came from another replica. Raises `ValueError` where it is none: half of one must not count as all."""
    if value.get("v") != FORMAT:
        raise ValueError(f"knowledge of format {value.get('v')!r}; format {FORMAT} is known here")
    state = Replayed(gen=_counter(value.get("gen")), seq=_counter(value.get("seq")))
    for name, record in _object(value, "versions").items():
        if not isinstance(record, dict) or name != f"{record.get('tool')}@{record.get('version')}":
            raise ValueError("a version record is not that of its version")
        state.versions[name] = record
    state.marks = {scope: _counter(mark) for scope, mark in _object(value, "marks").items()}
    state.told = {scope: _counter(gen) for scope, gen in _object(value, "told").items()}
    for name, at in _object(value, "seen").items():
        if not isinstance(at, list) or len(at) != 2:
            raise ValueError("a point is not a gen and a sequence")
        state.seen[name] = (_counter(at[0]), _counter(at[1]))
    return state


def _object(value: JsonObject, name: str) -> JsonObject:
    found = value.get(name)
    if not isinstance(found, dict):
        raise ValueError(f"{name} is not an object")
    return found


def _counter(value: JsonValue) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_INTEGER:
        raise ValueError("not a counter")
    return value
