"""A store that does not stay this broker's alone, or not what it must be, while the broker runs.

| what happens                                 | then                                                                   |
|----------------------------------------------|------------------------------------------------------------------------|
| another broker comes, with a reason to claim | it is claimed already: adopted as it is, and nobody's credentials die  |
| it begins to evict                           | nothing is minted, nothing is said to be active; a rollback still acts |
| it has fewer replicas than are required      | it is said by readiness, and in the log once, what is missing          |
"""

from __future__ import annotations

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


def test_a_store_that_is_claimed_is_adopted_whatever_reason_there_is_to_claim_it(
    tmp_path: Path, store: StoreProcess
) -> None:
    first = BrokerProcess(tmp_path / "first", "--store", store.url)
    second = BrokerProcess(tmp_path / "second", "--store", store.url, policies=first.policies)
    try:
        first.start("--claim-unknown-store", "first")
        first.wire.serve("ticket.edit@1")
        credential = first.wire.mint()["access_token"]
        second.start("--claim-unknown-store", "second")

        assert first.is_ready()
        assert first.wire.is_active(credential)
        assert second.wire.exchange().status_code == 200  # what the first had published is there
        assert second.wire.command("ticket.edit@1", "rollback", force=True)["changed"]
        assert not first.wire.is_active(credential)
        assert first.wire.exchange().status_code == 400
        assert [record["reason"] for record in read_log(first) if record["type"] == "gen.claim"] == ["first"]
        assert [record for record in read_log(second) if record["type"] == "gen.claim"] == []
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


def test_a_store_with_too_few_replicas_is_not_ready_and_says_so(tmp_path: Path, store: StoreProcess) -> None:
    broker = BrokerProcess(tmp_path, "--store", store.url, "--required-replicas", "1")
    lacking = "acknowledged by 0 replicas, fewer than the 1 required"
    try:
        broker.launch()
        wait_until(lambda: lacking in broker.said(), seconds=40, what="the log says what is missing")
        assert lacking in store_check(broker)
        assert broker.stop() == 0
        assert broker.said().count(lacking) == 1
    finally:
        broker.remove()
