"""The feed's events on the wire: what is spelled is read again, and what is no event is not guessed at."""

from __future__ import annotations

import json

import pytest
from broker.domain.canonical import JsonObject
from broker.domain.ids import VersionId
from broker.domain.revocation.feed import (
    Change,
    Event,
    FeedError,
    Heartbeat,
    Point,
    Snapshot,
    event_json,
    kind_of,
    parse_event,
    parse_point,
    spell_event,
    spell_point,
)
from broker.domain.revocation.scopes import EVERYTHING, RevocationScope

VERSION = VersionId("db.query@3")
MARKS = {RevocationScope("version:db.query@3"): 4, EVERYTHING: 2}
EVENTS: list[Event] = [
    Snapshot(7, 4, MARKS, {VERSION: "rolled_back"}),
    Snapshot(7, 0),
    Change(7, 5, {EVERYTHING: 5}),
    Change(7, 6, {}, {VERSION: "canary"}),
    Change(7, 9, {EVERYTHING: 6}, {}, covered=6),
    Heartbeat(7, 9),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: f"{kind_of(event)} {event.seq}")
def test_what_is_spelled_is_read_again(event: Event) -> None:
    lines = spell_event(event).decode().removesuffix("\n\n").split("\n")
    said = dict(line.split(": ", 1) for line in lines)
    assert parse_event(said["event"], said["data"]) == event
    assert parse_event(said["event"], said["data"].encode()) == event
    assert parse_event(kind_of(event), event_json(event)) == event
    assert said.get("id") == (None if isinstance(event, Heartbeat) else f"{event.gen}:{event.seq}")


def test_the_bytes_on_the_wire_are_pinned() -> None:
    change = Change(1_700_000_000_000, 5, {EVERYTHING: 5}, {VERSION: "retired"}, covered=5)
    assert spell_event(change) == (
        b"event: change\nid: 1700000000000:5\n"
        b'data: {"v":1,"gen":1700000000000,"seq":5,"marks":{"all":5},"versions":{"db.query@3":"retired"},"covered":5}\n\n'
    )
    assert spell_event(Heartbeat(3, 4)) == b'event: heartbeat\ndata: {"v":1,"gen":3,"seq":4}\n\n'


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("message", {}),
        ("", {}),
        ("change", {"v": 2}),
        ("change", {"v": None}),
        ("change", {"gen": True}),
        ("change", {"gen": -1}),
        ("change", {"gen": 1.5}),
        ("change", {"seq": "5"}),
        ("change", {"seq": 2**53}),
        ("change", {"marks": []}),
        ("change", {"marks": {"all": "5"}}),
        ("change", {"versions": None}),
        ("change", {"versions": {"db.query@3": 1}}),
        ("change", {"covered": -1}),
        ("snapshot", {"marks": None}),
    ],
    ids=str,
)
def test_what_is_no_event_is_refused(kind: str, change: JsonObject) -> None:
    data: JsonObject = {"v": 1, "gen": 1, "seq": 5, "marks": {}, "versions": {}}
    assert parse_event("change", data) == Change(1, 5)
    with pytest.raises(FeedError):
        parse_event(kind, {**data, **change})


@pytest.mark.parametrize(
    "data", ['{"v":1,"gen":1,"seq":1,"seq":2,"marks":{},"versions":{}}', "[]", "", "{", '"\ud800"'], ids=repr
)
def test_data_with_two_readings_or_none_is_refused(data: str) -> None:
    with pytest.raises(FeedError):
        parse_event("change", data)


def test_a_point_is_two_counters() -> None:
    assert parse_point(spell_point(Point(17, 4))) == Point(17, 4)
    for text in (
        "",
        "1",
        ":",
        "1:",
        ":1",
        "1:2:3",
        "-1:2",
        "1:+2",
        " 1:2",
        "1:2 ",
        "1:²",
        "1:99999999999999999",
        "a:b",
    ):
        assert parse_point(text) is None, text


def test_points_are_ordered_by_gen_first() -> None:
    assert Point(2, 0) > Point(1, 9) > Point(1, 8)
    assert json.loads(json.dumps(event_json(Heartbeat(1, 2)))) == {"v": 1, "gen": 1, "seq": 2}
