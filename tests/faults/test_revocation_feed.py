"""The feed of a real broker: what listeners hear, what leases say, and what happens when the store is not there."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker_parts import BrokerProcess, read_log, refused, wait_until
from feed_parts import Listener, poll, renew, revoke


@contextmanager
def serving(folder: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(folder)
    try:
        process.start()
        process.wire.serve("db.query@3")
        process.wire.command("db.query@4", "publish")
        process.wire.command("db.query@4", "canary", weight_percent=100)
        yield process
        assert "Traceback" not in process.said(), process.said()
    finally:
        process.remove()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with serving(tmp_path_factory.mktemp("feed")) as process:
        yield process


def test_a_listener_gets_everything_and_then_each_step_in_order(broker: BrokerProcess) -> None:
    with Listener(broker.wire) as listener:
        snapshot = listener.wait_for("snapshot")
        assert snapshot.data["versions"] == {"db.query@3": "stable", "db.query@4": "canary"}
        rolled_back = broker.wire.command("db.query@4", "rollback")
        change = listener.wait_for("change")
        assert change.data == {
            "v": 1,
            "gen": rolled_back["gen"],
            "seq": rolled_back["seq"],
            "marks": {"version:db.query@4": rolled_back["seq"]},
            "versions": {"db.query@4": "rolled_back"},
        }
        assert change.identity == f"{rolled_back['gen']}:{rolled_back['seq']}"
        seqs = [revoke(broker.wire, f"account-{number}") for number in range(5)]
        listener.wait_for("change", 6)
        assert [event.data["seq"] for event in listener.of("change")] == [rolled_back["seq"], *seqs]
        assert [event.data["seq"] - snapshot.data["seq"] for event in listener.of("change")] == [1, 2, 3, 4, 5, 6]


def test_who_comes_back_gets_what_it_missed_and_everything_where_that_cannot_be_told(broker: BrokerProcess) -> None:
    with Listener(broker.wire) as listener:
        at = listener.wait_for("snapshot").identity
    missed = [revoke(broker.wire, "a"), revoke(broker.wire, "b")]
    with Listener(broker.wire, after=at) as listener:
        listener.wait_for("change", 2)
        assert [event.data["seq"] for event in listener.of("change")] == missed
        assert not listener.of("snapshot")
    gen, _, seq = str(at).partition(":")
    for elsewhere in (f"{int(gen) - 1}:{seq}", f"{gen}:{int(seq) + 100}", "nonsense", f"{gen}:1"):
        with Listener(broker.wire, after=elsewhere) as listener:
            assert listener.wait_for("snapshot").data["seq"] == missed[-1]


def test_heartbeats_and_leases_end_with_the_store_and_come_back_with_it(broker: BrokerProcess) -> None:
    with Listener(broker.wire) as listener:
        listener.wait_for("heartbeat", 2)
        granted = renew(broker.wire)
        assert granted.status_code == 200
        assert granted.json() | {"gen": 0, "seq": 0} == {"v": 1, "gen": 0, "seq": 0, "lease_seconds": 2.0}
        os.kill(broker.store_pid(), signal.SIGSTOP)
        try:
            frozen = time.monotonic()
            answer = renew(broker.wire)
            assert answer.status_code == 503
            assert answer.json()["reason"] in ("StoreUnavailableError", "DeadlineError")
            wait_until(lambda: broker.wire.exchange().status_code == 503, what="nothing is minted")
            late = [event for event in listener.of("heartbeat") if event.at > frozen + 0.2]
            assert not late, "a heartbeat without a write"
        finally:
            os.kill(broker.store_pid(), signal.SIGCONT)
        thawed = time.monotonic()
        wait_until(lambda: renew(broker.wire).status_code == 200, what="leases again")
        wait_until(lambda: any(event.at > thawed for event in listener.of("heartbeat")), what="heartbeats again")


def test_a_store_that_is_claimed_anew_is_told_as_a_whole_under_a_later_gen(broker: BrokerProcess) -> None:
    with Listener(broker.wire) as listener:
        before = listener.wait_for("snapshot").data
        at = revoke(broker.wire, "a")
        os.kill(broker.store_pid(), signal.SIGKILL)
        after = listener.wait_for("snapshot", 2).data
        assert after["gen"] > before["gen"]
        assert after["seq"] > at
        assert after["versions"] == before["versions"]
        assert after["marks"]["account:https%3A%2F%2Fidp.test|a"] == at
        assert revoke(broker.wire, "b") == after["seq"] + 1
        listener.wait_for("change", 2)


def test_polling_says_the_same_as_streaming(broker: BrokerProcess) -> None:
    everything = poll(broker.wire).json()
    (snapshot,) = everything["events"]
    assert (everything["v"], snapshot["event"]) == (1, "snapshot")
    at = f"{snapshot['gen']}:{snapshot['seq']}"
    assert poll(broker.wire, since=at).json() == {"v": 1, "events": []}
    seq = revoke(broker.wire, "a")
    (change,) = poll(broker.wire, since=at, wait=5).json()["events"]
    assert (change["event"], change["seq"], list(change["marks"].values())) == ("change", seq, [seq])
    began = time.monotonic()
    assert poll(broker.wire, since=f"{snapshot['gen']}:{seq}", wait=1).json()["events"] == []
    assert time.monotonic() - began >= 0.9


@pytest.mark.parametrize(
    ("query", "where"),
    [
        ({"since": "1"}, "since"),
        ({"since": "1:-2"}, "since"),
        ({"since": f"1:{2**60}"}, "since"),
        ({"wait": "99"}, "wait"),
        ({"wait": "x"}, "wait"),
        ({"until": "1:1"}, "query"),
    ],
)
def test_a_query_that_cannot_be_meant_is_refused(broker: BrokerProcess, query: dict[str, str], where: str) -> None:
    answer = poll(broker.wire, **query)
    assert refused(answer)[0] == 400
    assert answer.json()["where"] == where


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"v": 2}, "v"),
        ({"verifier": "short"}, "verifier"),
        ({"verifier": "x" * 65}, "verifier"),
        ({"verifier": "with|a|stroke|in|it"}, "verifier"),
        ({"gen": -1}, "gen"),
        ({"applied": True}, "applied"),
        ({"applied": 2**60}, "applied"),
        ({"more": 1}, "more"),
    ],
)
def test_a_lease_that_is_asked_for_wrongly_is_refused(
    broker: BrokerProcess, body: dict[str, object], where: str
) -> None:
    answer = renew(broker.wire, **body)
    assert refused(answer)[0] == 400
    assert answer.json()["where"] == where


def test_the_feed_is_for_verifiers_alone(broker: BrokerProcess) -> None:
    wire = broker.wire
    for path in ("/revocations", "/revocations/stream"):
        assert wire.http.get(path).status_code == 401
        assert wire.http.post(path).status_code == 405
        answer = wire.http.get(path, headers={"authorization": "Basic bm9ib2R5Om5vdGhpbmc="})
        assert answer.status_code == 401
    assert wire.http.post("/revocations/lease", json={}).status_code == 401
    assert wire.http.get("/revocations/lease").status_code == 405
    denied = [record for record in read_log(broker) if record["type"] == "request.deny"]
    assert {"GET /revocations/stream", "GET /revocations", "POST /revocations/lease"} <= {d["endpoint"] for d in denied}


def test_a_broker_that_is_to_end_does_not_wait_for_its_listeners(tmp_path: Path) -> None:
    with serving(tmp_path) as broker, Listener(broker.wire) as listener:
        listener.wait_for("snapshot")
        began = time.monotonic()
        assert broker.stop() == 0
        wait_until(lambda: listener.is_over, what="the stream ends")
        assert time.monotonic() - began < 8, "it waited for the drain to be over"
