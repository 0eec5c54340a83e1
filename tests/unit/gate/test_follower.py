"""The follower's steps, beside a feed that a test writes: resume, gaps, old stores, leases, silence, polls, what is kept."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from broker.domain.ids import ToolName, VersionId
from broker.domain.revocation.feed import Change, Heartbeat, Point, Snapshot
from broker.domain.revocation.lease import RENEW_SECONDS
from broker.domain.revocation.scopes import EVERYTHING, key_scope
from broker.gate.client_auth import ClientSecret
from broker.gate.feed_client import FeedClient
from broker.gate.feed_state import Seen, StateFile
from broker.gate.follower import Follower
from feed_stub import FeedStub, stubbed, until

V3 = VersionId("db.query@3")
START = Snapshot(5, 10, {}, {V3: "stable"})
SILENCE = 0.4


@asynccontextmanager
async def following(stub: FeedStub, **options: Any) -> AsyncIterator[Follower]:
    client = FeedClient([stub.url], ClientSecret("api", "secret"), silence_seconds=options.pop("silence", 5.0))
    follower = Follower(client, **{"state": None, "seen": Seen(), **options})
    follower.start()
    follower.start()
    try:
        yield follower
    finally:
        await follower.aclose()


async def test_it_is_fresh_once_it_has_a_snapshot_and_a_lease() -> None:
    async with stubbed(script=[[START]]) as stub, following(stub) as follower:
        await until(follower.is_fresh)
        assert follower.view.point == Point(5, 10)
        assert stub.since == [None]
        assert stub.leases[0]["v"] == 1
        assert len(stub.leases[0]["verifier"]) == 32


async def test_it_resumes_by_what_it_has_when_a_stream_ends() -> None:
    async with stubbed(script=[[START, Change(5, 11)], []]) as stub, following(stub) as follower:
        await until(lambda: follower.view.point == Point(5, 11))
        stub.end()
        await until(lambda: len(stub.since) == 2)
        assert stub.since == [None, "5:11"]
        stub.say(Change(5, 12, {EVERYTHING: 12}))
        await until(lambda: follower.view.point == Point(5, 12))
        assert not follower.view.is_lost


@pytest.mark.parametrize(
    "event", [Change(5, 12), Change(6, 11), Heartbeat(5, 11), Heartbeat(6, 0)], ids=["gap", "gen", "behind", "other"]
)
async def test_what_does_not_continue_makes_it_ask_for_everything(event: Any) -> None:
    async with stubbed(script=[[START], [Snapshot(6, 20)]]) as stub, following(stub) as follower:
        await until(lambda: not follower.view.is_lost)
        stub.say(event)
        await until(lambda: follower.view.point == Point(6, 20))
        assert stub.since == [None, None]


async def test_a_step_back_is_never_taken_and_is_said_loudly_when_it_stays(caplog: pytest.LogCaptureFixture) -> None:
    seen = Seen(Point(5, 11))
    async with stubbed(script=[[START]]) as stub, following(stub, seen=seen) as follower:
        await until(lambda: "old store" in caplog.text)
        assert follower.view.is_lost
        assert not follower.is_fresh()
        assert follower.view.floor == Point(5, 11)
        assert {body["gen"] for body in stub.leases} == {0}, "nothing is acknowledged while nothing is known"
    assert [record.levelno for record in caplog.records if "old store" in record.message] == [logging.ERROR]


async def test_a_replica_that_is_behind_for_a_moment_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    async with (
        stubbed(script=[[START], [Snapshot(5, 11)]]) as stub,
        following(stub, seen=Seen(Point(5, 11))) as follower,
    ):
        await until(lambda: not follower.view.is_lost)
    assert "old store" not in caplog.text


async def test_a_lease_is_renewed_in_time_and_never_twice_at_once() -> None:
    async with stubbed(script=[[START]]) as stub, following(stub) as follower:
        await until(lambda: len(stub.leases) == 3, seconds=3 * RENEW_SECONDS + 1)
        stub.hold.clear()
        await until(lambda: stub.busy)
        for seq in range(11, 20):
            stub.say(Change(5, seq, {EVERYTHING: seq}))
        await until(lambda: follower.view.seq == 19)
        stub.hold.set()
        await until(lambda: stub.leases[-1]["applied"] == 19)
        assert stub.most_at_once == 1


async def test_a_revocation_is_acknowledged_long_before_the_next_beat() -> None:
    async with stubbed(script=[[START]]) as stub, following(stub) as follower:
        for seq in range(11, 15):
            await until(lambda seq=seq: follower.view.seq == seq - 1 and stub.leases[-1]["applied"] >= 10)
            before = asyncio.get_running_loop().time()
            stub.say(Change(5, seq, {EVERYTHING: seq}))
            await until(lambda seq=seq: stub.leases[-1]["applied"] == seq)
            assert asyncio.get_running_loop().time() - before < RENEW_SECONDS


async def test_a_lease_of_a_point_that_was_not_reached_opens_nothing() -> None:
    async with stubbed(script=[[START]], lease=Point(5, 11)) as stub, following(stub) as follower:
        await until(lambda: len(stub.leases) > 2 and not follower.view.is_lost)
        assert not follower.is_fresh()
        stub.say(Change(5, 11))
        await until(follower.is_fresh)


async def test_a_lease_counts_from_when_it_was_asked_for_not_from_its_answer() -> None:
    now = 100.0
    async with stubbed(script=[[START]], lease_seconds=2.0) as stub:
        stub.hold.clear()
        async with following(stub, seconds=lambda: now) as follower:
            await until(lambda: stub.busy and not follower.view.is_lost)
            now = 101.9
            stub.hold.set()
            stub.hold.clear()  # lets through the one that waits
            await until(lambda: follower._granted)
            assert (follower._granted, follower.is_fresh()) == (1, True)
            now = 102.0
            assert not follower.is_fresh()


async def test_no_lease_no_freshness(caplog: pytest.LogCaptureFixture) -> None:
    async with stubbed(script=[[START]], lease=None) as stub, following(stub) as follower:
        await until(lambda: len(stub.leases) >= 2)
        assert not follower.view.is_lost
        assert not follower.is_fresh()
    assert caplog.text.count("no lease") == 1, "said once, not each time"


async def test_of_two_brokers_that_fail_in_turns_each_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    async with stubbed(script=[[START]], lease=None) as stub:
        client = FeedClient([stub.url, "http://127.0.0.1:1"], ClientSecret("api", "secret"), silence_seconds=5.0)
        follower = Follower(client, state=None, seen=Seen())
        follower.start()
        await until(lambda: len(stub.leases) >= 5)
        await follower.aclose()
    said = [record.message for record in caplog.records if "no lease" in record.message]
    assert len(said) == len(set(said)) == 2


async def test_a_stream_that_says_nothing_is_left_and_polls_take_its_place() -> None:
    async with stubbed(polled=[[START]]) as stub, following(stub, silence=SILENCE) as follower:
        await until(follower.is_fresh)
        assert stub.polls[0] == "wait=10"
        stub.polled.append([Change(5, 11, {EVERYTHING: 11})])
        await until(lambda: follower.view.seq == 11)
        await until(lambda: stub.polls[-1] == "wait=10&since=5%3A11")
        assert len(stub.since) >= 2


async def test_where_there_is_no_stream_it_polls() -> None:
    async with stubbed(has_stream=False, polled=[[START]]) as stub, following(stub) as follower:
        await until(follower.is_fresh)
        assert stub.polls


@pytest.mark.parametrize(
    "part",
    [
        b"event: change\ndata: {}\n\n",
        b"data: {}\n\n",
        b'event: news\ndata: {"v":1,"gen":5,"seq":11}\n\n',
        b"event: change\nid: 5:11\ndata: \xff\xfe\n\n",
    ],
    ids=["no members", "no name", "unknown", "no text"],
)
async def test_what_cannot_be_read_is_not_guessed_at(part: bytes) -> None:
    async with stubbed(script=[[START, part], [START]]) as stub, following(stub) as follower:
        await until(lambda: len(stub.since) == 2)
        await until(follower.is_fresh)
        assert follower.view.point == Point(5, 10)


async def test_comments_and_other_line_ends_are_read_over() -> None:
    spelled = b'event: change\r\nid: 5:11\r\ndata: {"v":1,"gen":5,"seq":11,\r\ndata: "marks":{},"versions":{}}\r\n\r\n'
    async with stubbed(script=[[START, b": a comment\n\n", spelled]]) as stub, following(stub) as follower:
        await until(lambda: follower.view.seq == 11)
        assert len(stub.since) == 1


async def test_an_event_that_was_cut_off_is_not_taken() -> None:
    cut = b'event: change\nid: 5:11\ndata: {"v":1,"gen":5,"seq":11,"marks":{},"versions":{}}\n'
    async with stubbed(script=[[START, cut], []]) as stub, following(stub) as follower:
        await until(lambda: not follower.view.is_lost)
        stub.end()
        await until(lambda: len(stub.since) == 2)
        assert stub.since[1] == "5:10"


async def test_only_what_is_written_down_is_acknowledged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A verifier that dies right after must still know."""
    state = StateFile(tmp_path / "state.json", issuer="https://b.example", client_id="api")
    async with stubbed(script=[[START]]) as stub, following(stub, state=state, seen=state.open()) as follower:
        await until(lambda: stub.leases and stub.leases[-1]["applied"] == 10)
        assert state.open().point == Point(5, 10)
        state.path.unlink()
        state.path.mkdir()  # it can no longer be written
        stub.say(Change(5, 11, {EVERYTHING: 11, key_scope("k"): 11}))
        await until(lambda: follower.view.seq == 11)
        count = len(stub.leases)
        await until(lambda: len(stub.leases) > count + 4)
        assert stub.leases[-1]["applied"] == 10
        assert len([record for record in caplog.records if "cannot be written down" in record.message]) == 1
        state.path.rmdir()
        await until(lambda: stub.leases[-1]["applied"] == 11)
        assert state.open() == Seen(Point(5, 11), frozenset({key_scope("k")}))


async def test_the_end_writes_down_what_was_seen_last(tmp_path: Path) -> None:
    state = StateFile(tmp_path / "state.json", issuer="https://b.example", client_id="api")
    async with stubbed(script=[[START, Change(5, 11)]]) as stub:
        async with following(stub, state=state, seen=state.open()) as follower:
            await until(lambda: follower.view.seq == 11)
        assert json.loads(state.path.read_text())["seq"] == 11


async def test_it_says_when_a_tool_s_versions_changed() -> None:
    tool, other = ToolName("db.query"), ToolName("db.other")
    async with stubbed(script=[[START]]) as stub, following(stub) as follower:
        await until(follower.is_fresh)
        before = follower.changed_at(tool)
        assert follower.changed_at(other) == before
        stub.say(Change(5, 11, {}, {V3: "deprecated"}))
        await until(lambda: follower.view.seq == 11)
        assert follower.changed_at(tool) > before
        assert follower.changed_at(other) == before


async def test_renewals_that_succeed_fill_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with stubbed(script=[[START]]) as stub, following(stub):
        await until(lambda: len(stub.leases) > 2)
    assert "/revocations/stream" in caplog.text
    assert "/revocations/lease" not in caplog.text


async def test_it_ends_without_leaving_anything_behind() -> None:
    async with stubbed(script=[[START]]) as stub:
        before = asyncio.all_tasks()
        async with following(stub) as follower:
            await until(follower.is_fresh)
        left = [task.get_name() for task in asyncio.all_tasks() - before]
        assert not [name for name in left if name.startswith("broker-gate")]
