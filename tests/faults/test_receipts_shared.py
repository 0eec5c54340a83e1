"""Receipts where a broker is several processes: any of them gives the receipt of what any other revoked.

| who revoked                             | who is asked             | then                                                     |
|-----------------------------------------|--------------------------|----------------------------------------------------------|
| one worker                              | any worker               | the receipt, with the command's record and its author    |
| a replica                               | another replica, at once | the receipt, by what it heard: that says not who it was  |
| a replica that is killed while it waits | another replica          | the receipt                                              |
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import jwt
import pytest

from broker_parts import BrokerProcess, Wire, assertion, basic, wait_until
from replica_parts import Replicas, serve_both
from store_parts import StoreProcess, valkey_program

WORKERS = 2


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Replicas]:
    store = StoreProcess(valkey_program()).start()
    made = Replicas(tmp_path, store.url, 2)
    try:
        made[0].start()
        serve_both(made[0])
        made[1].start()
        yield made
    finally:
        made.remove()
        store.remove()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    made = BrokerProcess(tmp_path, "--workers", str(WORKERS))
    try:
        made.start()
        wait_until(lambda: f"{WORKERS} workers serve" in made.said(), what="all workers serve")
        yield made
    finally:
        made.remove()


def lease(wire: Wire, verifier: str) -> None:
    told = {"v": 1, "verifier": verifier.ljust(16, "-"), "gen": 0, "applied": 0}
    answer = wire.http.post("/revocations/lease", json=told, headers={"authorization": basic("db-api")})
    assert answer.status_code == 200, answer.text


def claims_of(answer: httpx2.Response, keys: httpx2.Response) -> dict[str, Any]:
    """What the receipt says, once its signature is verified with the published keys."""
    assert answer.status_code == 200, answer.text
    text = answer.json()["receipt"]["statement"]
    kid = jwt.get_unverified_header(text)["kid"]
    key = next(key for key in jwt.PyJWKSet.from_dict(keys.json()).keys if key.key_id == kid)
    found: dict[str, Any] = jwt.decode(text, key.key, algorithms=["ES256"])
    return found


def test_any_worker_gives_the_receipt_of_what_another_revoked(broker: BrokerProcess) -> None:
    body = {"kind": "client", "names": {"client": "svc"}, "reason": "a test"}
    answer = broker.wire.admin("POST", "/revocations", body=body).json()
    given = set()
    with httpx2.Client(base_url=broker.url, limits=httpx2.Limits(max_keepalive_connections=0), timeout=15.0) as http:
        for _ in range(10):
            headers = {"authorization": f"Bearer {assertion('operator', broker.url)}"}
            asked = http.get(f"{answer['receipt_at']}?wait=true", headers=headers)
            claims = claims_of(asked, broker.wire.http.get("/jwks.json"))
            assert (claims["seq"], claims["revoked"], claims["by"]) == (answer["seq"], ["client:svc"], "operator")
            given.add(claims["jti"])
    assert 1 <= len(given) <= WORKERS, "each worker gives the same one again"


def test_another_replica_gives_the_receipt_at_once_and_of_one_that_was_killed_while_it_waited(two: Replicas) -> None:
    a, b = two
    body = {"kind": "client", "names": {"client": "svc"}, "reason": "a test"}
    first = a.wire.admin("POST", "/revocations", body=body).json()
    asked = b.wire.admin("GET", f"{first['receipt_at'].removeprefix('/admin')}?wait=true")
    claims = claims_of(asked, a.wire.http.get("/jwks.json"))
    assert (claims["seq"], claims["revoked"]) == (first["seq"], ["client:svc"])
    assert (claims["change"], claims["by"], claims["recorded"]) == (None, None, True)

    lease(a.wire, "silent")
    lost: list[Exception] = []

    def roll_back() -> None:
        try:
            a.wire.admin("POST", "/versions/db.query/4/rollback?wait=true", body={})
        except httpx2.TransportError as error:
            lost.append(error)

    waiting = threading.Thread(target=roll_back)
    waiting.start()
    path = f"/receipts/{first['gen']}/{first['seq'] + 1}"
    wait_until(lambda: b.wire.admin("GET", path).status_code == 202, what="the other replica heard of the rollback")
    a.stop(signal.SIGKILL)
    waiting.join()
    assert len(lost) == 1
    claims = claims_of(b.wire.admin("GET", f"{path}?wait=true"), b.wire.http.get("/jwks.json"))
    assert claims["revoked"] == ["version:db.query@4"]
    assert [each["verifier"] for each in claims["expired"]] == ["silent".ljust(16, "-")]
