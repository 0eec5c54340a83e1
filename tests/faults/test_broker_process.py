"""A broker process whose surroundings fail: each fault has its clear answer, and nothing is handed out that is not recorded.

| fault                                   | then                                                                            |
|-----------------------------------------|---------------------------------------------------------------------------------|
| store killed, flushed, restored older   | 503 until it is claimed anew; old credentials dead; what was rolled back is so |
| store frozen                            | 503 within the deadline; goes on by itself                                      |
| SIGTERM                                 | running requests are answered, the log is closed, exit 0                        |
| SIGKILL                                 | every credential handed out has its record; the data directory works           |
| audit file away                         | 503; a rollback acts all the same, nothing is minted until it is recorded      |
| two brokers on one directory            | the second says who holds it                                                    |
| a restarted store that no log knows     | the broker does not start, and says how to                                      |
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_load import SLOWEST_SECONDS, Load, active, assert_unavailable
from broker_parts import (
    BrokerProcess,
    basic,
    detail,
    exchange_form,
    read_log,
    refused,
    spell_form,
    unverified_claims,
    wait_until,
)
from store_parts import StoreProcess, valkey_program

CANARY = {"authorization_details": detail("db.query", version="4", task="report", arguments={"query": "select 1"})}
STABLE = {"authorization_details": detail("db.query", version="3", task="report", arguments={"query": "select 1"})}


@pytest.fixture
def store() -> Iterator[StoreProcess]:
    """An outside store that keeps its data as the embedded one does."""
    made = StoreProcess(valkey_program(), "--appendonly", "yes", "--appendfsync", "always").start()
    yield made
    made.remove()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """With its embedded store; one for all tests, since each leaves it working, which is the point."""
    yield from serving(BrokerProcess(tmp_path_factory.mktemp("broker")))


@pytest.fixture
def outside(tmp_path: Path, store: StoreProcess) -> Iterator[BrokerProcess]:
    """On the outside store."""
    yield from serving(BrokerProcess(tmp_path, "--store", store.url))


def serving(made: BrokerProcess) -> Iterator[BrokerProcess]:
    try:
        made.start()
        made.wire.serve("ticket.edit@1", "db.query@3")
        made.wire.command("db.query@4", "publish")
        made.wire.command("db.query@4", "canary", weight_percent=100)
        yield made
        assert "Traceback" not in made.said(), made.said()
    finally:
        made.remove()


def minted(broker: BrokerProcess) -> dict[str, dict[str, Any]]:
    """jti → mint record. A step found in the outbox after a crash is recorded as `recover`, with its intent."""
    found = {}
    for record in read_log(broker):
        if record["type"] == "mint":
            found[record["jti"]] = record
        elif record["type"] == "recover" and record["intent"].get("type") == "mint":
            found[record["intent"]["jti"]] = record
    return found


def assert_all_recorded(broker: BrokerProcess, tokens: list[str]) -> None:
    known = minted(broker)
    assert [token for token in tokens if unverified_claims(token)["jti"] not in known] == []


def gen_of(token: str) -> int:
    return int(unverified_claims(token)["gen"])


def assert_only_the_new_incarnation_lives(broker: BrokerProcess, tokens: list[str]) -> None:
    """Nothing was minted in a gen before its claim stood in the log, and only the last gen's credentials are active."""
    last = gen_of(tokens[-1])
    first = gen_of(tokens[0])
    assert last > first
    old = [token for token in tokens if gen_of(token) < last]
    assert active(broker.wire, old[-50:]) == []
    assert active(broker.wire, tokens[-1:]) == tokens[-1:]
    claimed: set[int] = set()
    for record in read_log(broker):
        if record["type"] == "gen.claim":
            claimed.add(record["gen"])
        elif record["type"] == "mint":
            assert record["gen"] in claimed
    assert_all_recorded(broker, tokens)


def test_a_store_killed_under_load_comes_back_and_old_credentials_stay_dead(broker: BrokerProcess) -> None:
    with Load(broker) as load:
        for _ in range(2):
            load.wait_for_tokens(30)
            gen = gen_of(load.tokens[-1])
            os.kill(broker.store_pid(), signal.SIGKILL)
            wait_until(lambda gen=gen: gen_of(load.tokens[-1]) > gen, seconds=40, what=load.last_failure())  # type: ignore[misc]
        load.wait_for_tokens(10)
    load.check_failures()
    assert broker.is_ready()
    assert_only_the_new_incarnation_lives(broker, load.tokens)


def test_a_flushed_store_is_claimed_anew_and_what_was_rolled_back_stays_so(
    outside: BrokerProcess, store: StoreProcess
) -> None:
    on_canary = outside.wire.mint(**CANARY)["access_token"]
    outside.wire.command("db.query@4", "rollback")
    with Load(outside) as load:
        load.wait_for_tokens(30)
        gen = gen_of(load.tokens[-1])
        with store.admin() as admin:
            admin.flushall()
        wait_until(lambda: gen_of(load.tokens[-1]) > gen, seconds=40, what=load.last_failure())
        load.wait_for_tokens(10)
    load.check_failures()
    assert_only_the_new_incarnation_lives(outside, load.tokens)
    assert not outside.wire.is_active(on_canary)
    assert refused(outside.wire.exchange(**CANARY))[2] == "version_rolled_back"
    outside.wire.command("db.query@4", "canary", weight_percent=100)
    assert not outside.wire.is_active(on_canary)
    assert outside.wire.is_active(outside.wire.mint(**CANARY)["access_token"])


def test_an_older_copy_of_the_store_brings_nothing_back(
    outside: BrokerProcess, store: StoreProcess, tmp_path: Path
) -> None:
    on_canary = outside.wire.mint(**CANARY)["access_token"]
    on_stable = outside.wire.mint(**STABLE)["access_token"]
    store.freeze()
    shutil.copytree(store.folder / "appendonlydir", tmp_path / "copy")
    store.thaw()
    outside.wire.command("db.query@4", "rollback")
    outside.wire.command("db.query@3", "retire", emergency="a test")
    store.stop(signal.SIGKILL)
    assert_unavailable(outside.wire.exchange())
    shutil.rmtree(store.folder / "appendonlydir")
    shutil.copytree(tmp_path / "copy", store.folder / "appendonlydir")
    store.start()
    wait_until(outside.is_ready, seconds=40, what="the broker claims the restored store")
    assert refused(outside.wire.exchange(**CANARY))[2] == "version_rolled_back"
    assert refused(outside.wire.exchange(**STABLE))[2] == "version_retired"
    assert active(outside.wire, [on_canary, on_stable]) == []
    fresh = outside.wire.mint()["access_token"]
    assert_only_the_new_incarnation_lives(outside, [on_canary, fresh])


def test_a_frozen_store_is_a_503_in_time_on_every_road(outside: BrokerProcess, store: StoreProcess) -> None:
    live = outside.wire.mint()["access_token"]
    store.freeze()
    try:
        wire = outside.wire
        for ask in (
            wire.exchange,
            lambda: wire.introspect(live),
            lambda: wire.revoke(live),
            lambda: wire.exchange(client="key-mcp"),
            lambda: wire.admin("POST", "/versions/db.query/4/rollback", body={}),
            lambda: wire.admin("GET", "/versions"),
        ):
            began = time.monotonic()
            answer = ask()
            assert_unavailable(answer)
            assert time.monotonic() - began < SLOWEST_SECONDS / 2
        ready = wire.http.get("/readyz")
        assert (ready.status_code, ready.headers["retry-after"]) == (503, "1")
        assert ready.json()["checks"]["store"] != "ok"
        assert wire.http.get("/healthz").status_code == 200
    finally:
        store.thaw()
    wait_until(outside.is_ready, what="it goes on by itself")
    assert outside.wire.exchange().status_code == 200
    assert_all_recorded(outside, [live])


def test_sigterm_answers_what_is_running_then_ends_in_order(outside: BrokerProcess, store: StoreProcess) -> None:
    body = spell_form(exchange_form())
    head = f"POST /token HTTP/1.1\r\nhost: x\r\nauthorization: {basic('svc')}\r\ncontent-length: {len(body)}\r\n"
    request = f"{head}content-type: application/x-www-form-urlencoded\r\n\r\n".encode() + body
    lines = [socket.create_connection(("127.0.0.1", outside.port), timeout=10) for _ in range(20)]
    for line in lines:  # so that each is accepted before the listener goes
        line.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert read_answer(line).startswith(b"HTTP/1.1 200")
    before = len(minted(outside))
    store.freeze()
    for line in lines:
        line.sendall(request)
    process = outside.process
    assert process is not None
    process.send_signal(signal.SIGTERM)
    store.thaw()  # at once, since the store has a second to answer
    answers = [read_answer(line) for line in lines]
    for line in lines:
        line.close()
    assert process.wait(20) == 0
    assert "Shutting down" in outside.said()
    statuses = {answer[9:12] for answer in answers}
    assert statuses <= {b"200", b"503"}
    granted = sum(answer[9:12] == b"200" for answer in answers)
    assert granted > 0
    assert len(minted(outside)) - before >= granted
    assert read_log(outside)[-1]["type"] == "log.close"


def read_answer(line: socket.socket) -> bytes:
    read = b""
    while b"\r\n\r\n" not in read:
        part = line.recv(65_536)
        assert part, read
        read += part
    head, _, rest = read.partition(b"\r\n\r\n")
    length = next(int(row[15:]) for row in head.lower().split(b"\r\n") if row.startswith(b"content-length:"))
    while len(rest) < length:
        rest += line.recv(65_536)
    return head


def test_a_caller_that_sends_half_a_body_is_answered_at_the_deadline(broker: BrokerProcess) -> None:
    head = f"POST /token HTTP/1.1\r\nhost: x\r\nauthorization: {basic('svc')}\r\ncontent-length: 500\r\n"
    with socket.create_connection(("127.0.0.1", broker.port), timeout=10) as line:
        line.sendall(f"{head}content-type: application/x-www-form-urlencoded\r\n\r\ngrant_type=".encode())
        began = time.monotonic()
        answer = read_answer(line)
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"retry-after: 1" in answer
        assert time.monotonic() - began < SLOWEST_SECONDS
    with socket.create_connection(("127.0.0.1", broker.port), timeout=10) as line:  # and one that goes away meanwhile
        line.sendall(f"{head}content-type: application/x-www-form-urlencoded\r\n\r\ngrant_type=".encode())
    assert broker.wire.exchange().status_code == 200


def test_sigkill_at_any_point_loses_no_record_of_what_was_handed_out(broker: BrokerProcess) -> None:
    chance = random.Random(20_26)
    handed_out: list[str] = []
    for _ in range(5):
        with Load(broker, callers=4) as load:
            load.wait_for_tokens(chance.randrange(5, 60))
            broker.stop(signal.SIGKILL)
        handed_out += load.tokens
        broker.start()
        assert_all_recorded(broker, handed_out)
    gens = [record["gen"] for record in read_log(broker) if record["type"] == "gen.claim"]
    assert gens == sorted(set(gens))
    assert len(gens) >= 6
    assert active(broker.wire, handed_out[-20:]) == []
    steps = {(record["gen"], record["gseq"]) for record in read_log(broker) if "gseq" in record}
    for gen in gens[:-1]:
        numbers = sorted(gseq for of, gseq in steps if of == gen)
        assert numbers == list(range(1, len(numbers) + 1)), "a step of the store stands nowhere in the log"


def test_with_the_audit_file_away_a_rollback_acts_and_nothing_is_minted_until_it_is_recorded(
    broker: BrokerProcess,
) -> None:
    wire = broker.wire
    on_canary = wire.mint(**CANARY)["access_token"]
    on_stable = wire.mint(**STABLE)["access_token"]
    away = broker.audit_path.with_name("elsewhere")
    broker.audit_path.rename(away)
    answer = wire.exchange()
    assert_unavailable(answer)
    assert answer.json()["reason"] == "AuditUnavailableError"
    rollback = wire.admin("POST", "/versions/db.query/4/rollback", body={})
    assert (rollback.status_code, rollback.json()["error"]) == (503, "effective_not_recorded")
    assert active(wire, [on_canary, on_stable]) == [on_stable]
    assert wire.http.get("/readyz").json()["checks"]["records"] != "ok"
    answer = wire.exchange(**STABLE)
    assert_unavailable(answer)
    assert answer.json()["reason"] == "UnrecordedError"
    away.rename(broker.audit_path)
    wait_until(broker.is_ready, what="the rollback is recorded")
    assert [record["version"] for record in read_log(broker) if record["type"] == "version.rollback"] == ["4"]
    assert wire.exchange(**STABLE).status_code == 200
    assert refused(wire.exchange(**CANARY))[2] == "version_rolled_back"


def test_an_audit_folder_that_cannot_be_written_at_start_is_said_so(tmp_path: Path) -> None:
    made = BrokerProcess(tmp_path)
    (made.data / "audit").mkdir(parents=True)
    (made.data / "audit" / "log.sqlite").write_bytes(b"something else" * 100)
    try:
        process = made.launch()
        assert process.wait(20) == 3
        assert "audit log" in made.said()
        assert "Traceback" not in made.said()
    finally:
        made.remove()


def test_a_second_broker_on_the_data_directory_is_refused_and_the_first_goes_on(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    second = BrokerProcess(tmp_path / "second", policies=broker.policies)
    second.data = broker.data
    try:
        assert second.launch().wait(20) == 3
        assert f"another broker (process {broker.pid}) uses it" in second.said()
    finally:
        second.remove()
    assert broker.wire.exchange().status_code == 200


def test_two_brokers_on_one_log_with_an_outside_store_are_one_too_many(
    outside: BrokerProcess, store: StoreProcess, tmp_path: Path
) -> None:
    second = BrokerProcess(tmp_path / "second", "--store", store.url, policies=outside.policies)
    second.data = outside.data
    try:
        assert second.launch().wait(20) == 3
        assert "in use by another process" in second.said()
    finally:
        second.remove()
    assert outside.wire.exchange().status_code == 200


def test_a_port_in_use_is_said_before_anything_is_started(broker: BrokerProcess, tmp_path: Path) -> None:
    second = BrokerProcess(tmp_path / "second", policies=broker.policies)
    second.port = broker.port
    try:
        assert second.launch().wait(20) == 3
        assert f"--port {broker.port}" in second.said()
        assert not second.data.exists()
    finally:
        second.remove()


def test_a_lost_store_that_the_log_does_not_know_is_claimed_only_with_a_stated_reason(
    outside: BrokerProcess, store: StoreProcess, tmp_path: Path
) -> None:
    old = outside.wire.mint()["access_token"]
    assert outside.stop() == 0
    store.stop()
    store.start()
    stranger = BrokerProcess(tmp_path / "stranger", "--store", store.url, policies=outside.policies)
    try:
        assert stranger.launch().wait(20) == 4
        assert "--claim-unknown-store" in stranger.said()
        stranger.start("--claim-unknown-store", "the old log is lost")
        claims = [record for record in read_log(stranger) if record["type"] == "gen.claim"]
        assert [claim["reason"] for claim in claims] == ["the old log is lost"]
        assert claims[0]["gen"] > gen_of(old)
        # what the new log does not know is not served
        assert refused(stranger.wire.exchange())[2] == "tool_unknown"
    finally:
        stranger.remove()


def test_a_store_that_evicts_is_refused_by_name(tmp_path: Path) -> None:
    evicting = StoreProcess(valkey_program(), "--maxmemory-policy", "allkeys-lru").start()
    made = BrokerProcess(tmp_path, "--store", evicting.url)
    try:
        assert made.launch().wait(20) == 4
        assert "noeviction" in made.said()
    finally:
        made.remove()
        evicting.remove()
