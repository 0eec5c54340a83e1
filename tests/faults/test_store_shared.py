"""A store that does not stay this broker's, or not what it must be, while the broker runs.

| what happens                                   | then                                                                     |
|------------------------------------------------|--------------------------------------------------------------------------|
| another broker claims it, with a stated reason | the first says whose it is, mints nothing, and does not take it back      |
| both were given a reason                       | the same: a reason counts once, when its broker starts                    |
| it begins to evict                             | nothing is minted, nothing is said to be active; a rollback still acts    |
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_parts import BrokerProcess, read_log, wait_until
from store_parts import StoreProcess, valkey_program


@pytest.fixture
def store() -> Iterator[StoreProcess]:
    made = StoreProcess(valkey_program()).start()
    yield made
    made.remove()


def store_check(broker: BrokerProcess) -> str:
    return str(broker.wire.http.get("/readyz").json()["checks"]["store"])


def test_a_store_that_another_broker_has_claimed_is_not_taken_back(tmp_path: Path, store: StoreProcess) -> None:
    first = BrokerProcess(tmp_path / "first", "--store", store.url)
    second = BrokerProcess(tmp_path / "second", "--store", store.url, policies=first.policies)
    try:
        first.start("--claim-unknown-store", "first")
        first.wire.serve("ticket.edit@1")
        credential = first.wire.mint()["access_token"]
        second.start("--claim-unknown-store", "second")

        assert not first.is_ready(), "a probe notices at once"
        wait_until(lambda: "the store was last claimed as gen" in store_check(first), what="it says whose the store is")
        answer = first.wire.exchange()
        assert (answer.status_code, answer.json()["reason"]) == (503, "StoreUnknownError")
        assert first.wire.introspect(credential).status_code == 503

        second.wire.serve("ticket.edit@1")
        for _ in range(3):
            assert second.wire.exchange().status_code == 200
            assert not first.is_ready()
        assert [record["reason"] for record in read_log(first) if record["type"] == "gen.claim"] == ["first"]
        assert [record["reason"] for record in read_log(second) if record["type"] == "gen.claim"] == ["second"]
        assert re.search(r"INFO .*store claimed as gen \d+: second", second.said())
        wait_until(lambda: "StoreUnknownError: " in first.said(), what="the log says it")
        assert first.said().count("StoreUnknownError: ") == 1, "once, not every second"
    finally:
        first.remove()
        second.remove()


def test_a_store_that_begins_to_evict_mints_nothing_until_it_is_mended(tmp_path: Path, store: StoreProcess) -> None:
    broker = BrokerProcess(tmp_path, "--store", store.url)
    try:
        broker.start()
        broker.wire.serve("ticket.edit@1", "db.query@3")
        credential = broker.wire.mint()["access_token"]
        with store.admin() as admin:
            admin.config_set("maxmemory-policy", "allkeys-lru")
        wait_until(lambda: broker.wire.exchange().status_code == 503, what="the broker looks at its store by itself")
        assert broker.wire.exchange().json()["reason"] == "StoreUnsuitableError"
        assert broker.wire.introspect(credential).status_code == 503
        assert "noeviction" in store_check(broker)
        assert broker.wire.command("db.query@3", "rollback", force=True)["changed"]
        with store.admin() as admin:
            admin.config_set("maxmemory-policy", "noeviction")
        wait_until(broker.is_ready, what="the broker goes on by itself")
        assert broker.wire.is_active(credential)
        assert broker.wire.exchange().status_code == 200
        assert broker.stop() == 0
        assert "Traceback" not in broker.said()
    finally:
        broker.remove()
