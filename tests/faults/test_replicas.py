"""Replicas of one broker: whichever of them is left knows what was revoked, and none mints what another rolled back.

| fault                                              | then                                                              |
|----------------------------------------------------|-------------------------------------------------------------------|
| a replica with an empty log comes to a live store  | it adopts it, and has on record what it found                     |
| A rolled back, A killed, the store's data lost     | B refills it: the version stays rolled back                       |
| A rolled back while B was down; A and data gone    | B claims nothing until a majority tells it                        |
| the store lost a rollback that a log knows of      | it is claimed anew, with the rollback, by who knows of it         |
| a signing key is revoked at A                      | B neither accepts nor publishes it, and both sign with one other  |
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_parts import read_log, unverified_claims, wait_until
from replica_parts import CANARY, STABLE, Replicas, refusal_of, serve_both
from store_parts import StoreProcess, valkey_program


@pytest.fixture
def store() -> Iterator[StoreProcess]:
    made = StoreProcess(valkey_program()).start()
    yield made
    made.remove()


@pytest.fixture
def two(tmp_path: Path, store: StoreProcess) -> Iterator[Replicas]:
    made = Replicas(tmp_path, store.url, 2)
    yield made
    made.remove()


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    """Two that serve, for tests that leave them so."""
    store = StoreProcess(valkey_program()).start()
    made = Replicas(tmp_path_factory.mktemp("pair"), store.url, 2)
    serve_both(made[0].start())
    made[1].start()
    yield made
    made.remove()
    store.remove()


@pytest.fixture
def three(tmp_path: Path, store: StoreProcess) -> Iterator[Replicas]:
    """Each named to the others, as it takes for a claim."""
    made = Replicas(tmp_path, store.url, 3, named=True)
    yield made
    made.remove()


def flush(store: StoreProcess) -> None:
    with store.admin() as admin:
        admin.flushall()


def heard(replica: Any) -> list[dict[str, Any]]:
    return [record for record in read_log(replica) if record["type"] == "heard"]


def knows_rollback(replica: Any, seq: int) -> bool:
    return any(record["marks"].get("version:db.query@4") == seq for record in heard(replica))


def test_what_one_replica_rolled_back_the_other_does_not_mint_when_it_alone_is_left_and_the_store_is_empty(
    two: Replicas, store: StoreProcess
) -> None:
    a, b = two[0].start(), two[1]
    serve_both(a)
    b.start()
    assert not [record for record in read_log(b) if record["type"] == "gen.claim"], "it adopts what is claimed"
    from_b = b.wire.mint(**CANARY)["access_token"]
    assert a.wire.is_active(from_b), "the keys are shared"
    rolled_back = a.wire.command("db.query@4", "rollback")
    assert "recorded_by" not in rolled_back, "nobody was named"
    seq = rolled_back["seq"]
    assert refusal_of(b.wire.exchange(**CANARY)) == "version_rolled_back"
    wait_until(lambda: knows_rollback(b, seq), what="the other replica has the rollback on record")
    a.stop(signal.SIGKILL)
    gen = unverified_claims(b.wire.mint(**STABLE)["access_token"])["gen"]
    flush(store)
    wait_until(lambda: b.wire.exchange(**STABLE).status_code == 200, what="it claims the empty store by what it heard")
    assert unverified_claims(b.wire.mint(**STABLE)["access_token"])["gen"] > gen
    assert refusal_of(b.wire.exchange(**CANARY)) == "version_rolled_back"
    assert not b.wire.is_active(from_b)


def test_a_replica_that_knows_of_a_lost_rollback_claims_the_store_anew_with_it(
    two: Replicas, store: StoreProcess
) -> None:
    a, b = two[0].start(), two[1].start()
    serve_both(a)
    wait_until(lambda: refusal_of(b.wire.exchange(**CANARY)) == "minted", what="both serve it")
    b.stop(signal.SIGKILL)  # before the rollback, of which it never hears
    a.wire.command("db.query@4", "rollback")
    a.stop(signal.SIGKILL)
    flush(store)
    b.start()  # nobody was named to it, so it cannot know better
    assert refusal_of(b.wire.exchange(**CANARY)) == "minted"
    on_lost = b.wire.mint(**CANARY)["access_token"]
    a.start()
    assert refusal_of(a.wire.exchange(**CANARY)) == "version_rolled_back"
    wait_until(lambda: refusal_of(b.wire.exchange(**CANARY)) == "version_rolled_back", what="both know of it again")
    wait_until(lambda: b.wire.introspect(on_lost).status_code == 200, what="it holds a lease on the store again")
    assert not b.wire.is_active(on_lost)
    reasons = [record["reason"] for record in read_log(a) if record["type"] == "gen.claim"]
    assert "lacks" in reasons[-1]


def test_what_a_majority_must_know_is_not_claimed_by_one_alone(three: Replicas, store: StoreProcess) -> None:
    a, b, c = three[0], three[1], three[2]
    for one in (a, b, c):
        one.launch()
    for one in (a, b, c):
        wait_until(one.is_ready, seconds=40, what="a majority of three is there")
    serve_both(a)
    wait_until(lambda: refusal_of(b.wire.exchange(**CANARY)) == "minted", what="all serve it")
    b.stop(signal.SIGKILL)  # before the rollback, of which it never hears
    rolled_back = a.wire.command("db.query@4", "rollback")
    assert rolled_back["recorded_by"] == {"replicas": 2, "of": 3}
    assert knows_rollback(c, rolled_back["seq"])
    for one in (a, c):
        one.stop(signal.SIGKILL)
    flush(store)
    b.launch()
    wait_until(lambda: "majority" in b.said(), what="it says what it waits for")
    wait_until(b.is_heard, what="it answers meanwhile")
    said = b.said()
    assert a.url in said
    assert c.url in said
    assert "--claim-unknown-store" in said
    answer = b.wire.exchange(**CANARY)
    assert answer.status_code == 503
    assert "majority" in b.checks()["store"]
    assert b.wire.http.get("/healthz").status_code == 200
    c.launch()
    wait_until(b.is_ready, seconds=40, what="two of three know enough")
    assert refusal_of(b.wire.exchange(**CANARY)) == "version_rolled_back"
    assert refusal_of(b.wire.exchange(**STABLE)) == "minted"
    c.stop(signal.SIGKILL)
    flush(store)  # once more, while it serves
    wait_until(lambda: c.url in b.checks()["store"], what="readiness names who is missing")
    assert b.wire.exchange(**STABLE).status_code == 503
    assert c.url in b.checks()["store"], "whatever is asked meanwhile"


def test_a_replica_that_was_named_to_itself_is_no_majority(tmp_path: Path, store: StoreProcess) -> None:
    alone = Replicas(tmp_path, store.url, 1)
    try:
        alone[0].options += ("--peer", alone[0].url)
        alone[0].launch()
        wait_until(lambda: "it is this replica itself" in alone[0].said(), seconds=40, what="it knows itself")
        assert not alone[0].is_ready()
    finally:
        alone.remove()


def test_a_replica_that_waits_for_the_others_ends_in_order(three: Replicas) -> None:
    alone = three[0]
    alone.launch()
    wait_until(alone.is_heard, seconds=40, what="it answers while it waits")
    assert alone.stop() == 0
    assert "Traceback" not in alone.said()


def test_who_cannot_sign_as_the_broker_is_told_nothing(pair: Replicas) -> None:
    a = pair[0]
    assert a.wire.http.get("/replicas/knowledge").status_code == 401
    credential = a.wire.http.get("/replicas/knowledge", headers={"authorization": "Bearer a.b.c"})
    assert credential.status_code == 401
    minted = a.wire.mint(**STABLE)["access_token"]
    shown = a.wire.http.get("/replicas/knowledge", headers={"authorization": f"Bearer {minted}"})
    assert (shown.status_code, shown.json()["reason"]) == (401, "client_assertion_invalid")


def test_a_signing_key_that_is_revoked_at_one_replica_is_dead_at_all(pair: Replicas) -> None:
    a, b = pair[0], pair[1]
    token = a.wire.mint(**STABLE)["access_token"]
    assert b.wire.is_active(token)
    (kid,) = {key["kid"] for key in a.wire.admin("GET", "/keys").json()["keys"] if key["state"] == "signs"}
    body = {"kind": "key", "names": {"kid": kid}, "reason": "it leaked"}
    assert a.wire.admin("POST", "/revocations", body=body).status_code == 200
    assert not a.wire.is_active(token)
    assert not b.wire.is_active(token)
    for one in (a, b):
        wait_until(lambda one=one: kid not in published(one), what="it is published no more")  # type: ignore[misc]
    successors = {
        key["kid"] for one in (a, b) for key in one.wire.admin("GET", "/keys").json()["keys"] if key["state"] == "signs"
    }
    assert len(successors) == 1
    assert kid not in successors
    assert b.wire.is_active(a.wire.mint(**STABLE)["access_token"])
    assert a.wire.is_active(b.wire.mint(**STABLE)["access_token"])
    wait_until(lambda: retired(a, b) != [], what="it is on record, where it was first written down")
    assert retired(a, b) == [(kid, successors.pop())]
    rotated = b.wire.admin("POST", "/keys/rotate").json()["kid"]
    fresh = b.wire.mint(**STABLE)["access_token"]
    assert a.wire.is_active(fresh)
    assert rotated in published(a)


def retired(*replicas: Any) -> list[tuple[str, str]]:
    records = [record for one in replicas for record in read_log(one) if record["type"] == "key.retire"]
    return [(record["kid"], record["successor"]) for record in records]


def published(replica: Any) -> set[str]:
    return {key["kid"] for key in replica.wire.http.get("/jwks.json").json()["keys"]}
