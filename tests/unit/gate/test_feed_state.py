"""The state file: counters only grow, keys are only added, whoever writes; and what cannot be read stops the start."""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest
from broker.domain.errors import ConfigurationError
from broker.domain.revocation.feed import Point
from broker.gate.feed_state import MAX_BYTES, Seen, StateFile, default_path

ISSUER, CLIENT = "https://b.example", "api"


def state_at(path: Path) -> StateFile:
    return StateFile(path, issuer=ISSUER, client_id=CLIENT)


@pytest.fixture
def state(tmp_path: Path) -> StateFile:
    return state_at(tmp_path / "below" / "state.json")


def test_no_file_means_that_nothing_was_seen(state: StateFile) -> None:
    assert state.open() == Seen()
    assert state.path.parent.stat().st_mode & 0o777 == 0o700


def test_what_was_saved_is_there_again(state: StateFile) -> None:
    state.open()
    seen = Seen(Point(5, 11), frozenset({"key:a", "key:b"}))
    assert state.save(seen) == seen
    assert state_at(state.path).open() == seen
    text = '{"v": 1, "feed": "https://b.example api", "gen": 5, "seq": 11, "keys": ["key:a", "key:b"]}\n'
    assert state.path.read_text() == text


@pytest.mark.parametrize(
    ("later", "point"),
    [
        (Point(5, 10), Point(5, 11)),
        (Point(4, 99), Point(5, 11)),
        (Point(5, 12), Point(5, 12)),
        (Point(6, 0), Point(6, 0)),
    ],
)
def test_neither_counter_goes_back_and_no_key_is_forgotten(state: StateFile, later: Point, point: Point) -> None:
    state.open()
    state.save(Seen(Point(5, 11), frozenset({"key:a"})))
    merged = state.save(Seen(later, frozenset({"key:b"})))
    assert merged == Seen(point, frozenset({"key:a", "key:b"}))
    assert state_at(state.path).open() == merged


def _write(path: Path, number: int) -> None:
    state = state_at(path)
    state.open()
    for seq in range(15):
        state.save(Seen(Point(5, 10 * seq + number), frozenset({f"key:{number}:{seq}"})))


def test_several_processes_lose_nothing_of_each_other(state: StateFile) -> None:
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=_write, args=(state.path, number)) for number in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(30)
        assert process.exitcode == 0
    assert state.open() == Seen(
        Point(5, 142), frozenset(f"key:{number}:{seq}" for number in range(3) for seq in range(15))
    )


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '{"v":2,"feed":"https://b.example api","gen":1,"seq":1,"keys":[]}',
        '{"v":1,"feed":"https://other.example api","gen":1,"seq":1,"keys":[]}',
        '{"v":1,"feed":"https://b.example api","gen":-1,"seq":1,"keys":[]}',
        '{"v":1,"feed":"https://b.example api","gen":true,"seq":1,"keys":[]}',
        '{"v":1,"feed":"https://b.example api","gen":1,"seq":1,"seq":0,"keys":[]}',
        '{"v":1,"feed":"https://b.example api","gen":1,"seq":1,"keys":[1]}',
        '{"v":1,"feed":"https://b.example api","gen":1,"seq":1}',
        " " * (MAX_BYTES + 1),
    ],
    ids=range(12),
)
def test_a_file_that_cannot_be_read_stops_the_start_and_is_left_as_it_is(state: StateFile, content: str) -> None:
    state.path.parent.mkdir()
    state.path.write_text(content)
    with pytest.raises(ConfigurationError, match="state_file"):
        state.open()
    with pytest.raises(ConfigurationError):
        state.save(Seen(Point(9, 9)))
    assert state.path.read_text() == content


@pytest.mark.parametrize("name", ["api.lock", "api.new", "api"])
def test_any_name_will_do(tmp_path: Path, name: str) -> None:
    state = state_at(tmp_path / name)
    assert state.open() == Seen()
    seen = state.save(Seen(Point(5, 11)))
    assert state_at(tmp_path / name).open() == seen


def test_a_folder_that_cannot_be_made_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="state_file"):
        state_at(tmp_path / "file" / "state.json").open()


def test_a_write_that_breaks_leaves_what_was_there(state: StateFile, monkeypatch: pytest.MonkeyPatch) -> None:
    state.open()
    seen = state.save(Seen(Point(5, 11)))

    def broken(*arguments: Any) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", broken)
        with pytest.raises(OSError, match="no space"):
            state.save(Seen(Point(5, 12)))
    assert state.open() == seen


def test_each_broker_and_client_has_a_file_of_its_own_below_the_state_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    paths = {default_path(issuer=issuer, client_id=client) for issuer in ("https://a", "https://b") for client in "xy"}
    assert len(paths) == 4
    assert {path.parent for path in paths} == {tmp_path / "mayfly-broker"}
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_path(issuer="i", client_id="c").parent == tmp_path / ".local" / "state" / "mayfly-broker"
    assert json.loads(json.dumps(str(default_path(issuer="i", client_id="c")))).endswith(".json")
