"""The feed: what happened to the logical clock, in order, as values and on the wire. Format 1; grows only.

| event     | says                                                           | `id`      | data beside `v gen seq`                |
|-----------|----------------------------------------------------------------|-----------|----------------------------------------|
| snapshot  | everything as of `seq`: all marks, the states of all versions  | `gen:seq` | `marks`, `versions`                    |
| change    | the one step from `seq - 1` to `seq`                           | `gen:seq` | `marks`, `versions`, `covered` if any  |
| heartbeat | the store still takes writes; the feed is at `seq`             | none      | none                                   |

marks: revocation scope → sequence below which everything in it is dead. versions: `tool@version` → state.
covered: marks up to this sequence are void, since `all` covers them by now; marks of signing keys stay (see `compaction.py`).

On the wire: server-sent events (WHATWG HTML §9.2), one `data` line of JSON each.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from broker.domain.canonical import MAX_INTEGER, JsonError, JsonObject, JsonValue, parse_json_object
from broker.domain.ids import VersionId
from broker.domain.revocation.scopes import RevocationScope

FORMAT: Final = 1
_encode: Final = json.JSONEncoder(separators=(",", ":")).encode


class FeedError(ValueError):
    """What arrived is no event of this feed, or of a format that is not known here."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything as of `gen:seq`."""

    gen: int
    seq: int
    marks: Mapping[RevocationScope, int] = field(default_factory=dict)
    versions: Mapping[VersionId, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Change:
    """One step. marks, versions: what it put in place. covered: marks up to here are void, `all` has taken their place."""

    gen: int
    seq: int
    marks: Mapping[RevocationScope, int] = field(default_factory=dict)
    versions: Mapping[VersionId, str] = field(default_factory=dict)
    covered: int = 0


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The store took a replicated write, and this feed has said all up to `seq`."""

    gen: int
    seq: int


Event: TypeAlias = Snapshot | Change | Heartbeat


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """A point of the logical clock; later points are greater."""

    gen: int
    seq: int


def kind_of(event: Event) -> str:
    """The event's name on the wire."""
    match event:
        case Snapshot():
            return "snapshot"
        case Change():
            return "change"
        case Heartbeat():
            return "heartbeat"


def event_json(event: Event) -> JsonObject:
    """The event's data."""
    made: JsonObject = {"v": FORMAT, "gen": event.gen, "seq": event.seq}
    if isinstance(event, Heartbeat):
        return made
    made["marks"] = {str(scope): seq for scope, seq in event.marks.items()}
    made["versions"] = {str(version): state for version, state in event.versions.items()}
    if isinstance(event, Change) and event.covered:
        made["covered"] = event.covered
    return made


def spell_event(event: Event) -> bytes:
    """The event as server-sent bytes."""
    identity = "" if isinstance(event, Heartbeat) else f"id: {event.gen}:{event.seq}\n"
    return f"event: {kind_of(event)}\n{identity}data: {_encode(event_json(event))}\n\n".encode("ascii")


def parse_event(kind: str, data: str | bytes | JsonObject) -> Event:
    """An event from its name and data. Raises `FeedError`."""
    try:
        value = (
            data if isinstance(data, dict) else parse_json_object(data if isinstance(data, bytes) else data.encode())
        )
    except (JsonError, UnicodeError) as error:
        raise FeedError(f"the data of a {kind} is not JSON with one reading: {error}") from None
    if value.get("v") != FORMAT:
        raise FeedError(f"an event of format {value.get('v')!r}; format {FORMAT} is known here")
    gen, seq = _counter(value, "gen"), _counter(value, "seq")
    match kind:
        case "heartbeat":
            return Heartbeat(gen, seq)
        case "snapshot":
            return Snapshot(gen, seq, _marks(value), _versions(value))
        case "change":
            covered = _counter(value, "covered") if "covered" in value else 0
            return Change(gen, seq, _marks(value), _versions(value), covered)
    raise FeedError("an event of a kind that is not known here")


def spell_point(point: Point) -> str:
    """`gen:seq`, as in `id` and `Last-Event-ID`."""
    return f"{point.gen}:{point.seq}"


def parse_point(text: str) -> Point | None:
    """A point from `gen:seq`; None where the text is none."""
    gen, colon, seq = text.partition(":")
    if not colon or not all(part.isascii() and part.isdecimal() and len(part) <= 16 for part in (gen, seq)):
        return None
    point = Point(int(gen), int(seq))
    return point if point.gen <= MAX_INTEGER and point.seq <= MAX_INTEGER else None


def _counter(value: JsonObject, name: str) -> int:
    found = value.get(name)
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found <= MAX_INTEGER:
        raise FeedError(f"{name} is not a counter")
    return found


def _marks(value: JsonObject) -> dict[RevocationScope, int]:
    found = _object(value, "marks")
    return {RevocationScope(scope): _counter(found, scope) for scope in found}


def _versions(value: JsonObject) -> dict[VersionId, str]:
    found = _object(value, "versions")
    return {VersionId(name): _text(state) for name, state in found.items()}


def _object(value: JsonObject, name: str) -> JsonObject:
    found = value.get(name)
    if not isinstance(found, dict):
        raise FeedError(f"{name} is not an object")
    return found


def _text(value: JsonValue) -> str:
    if not isinstance(value, str):
        raise FeedError("a version's state is not a text")
    return value
