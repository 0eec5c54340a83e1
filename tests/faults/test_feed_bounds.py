"""What one client can do to the feed: not speak for another's verifier, and not take more than its share."""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from broker.domain.revocation.feed import Point
from broker.ports.feed import Renewal

from broker_parts import BrokerProcess, basic, wait_until
from feed_parts import renew
from store_parts import StoreProcess, claim, claimed_store, new_tenant, valkey_program

MOST_LISTENING = 512
MOST_NAMES = 2048


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path_factory.mktemp("bounds"))
    try:
        process.start()
        yield process
        assert "Traceback" not in process.said(), process.said()
    finally:
        process.remove()


class Caller:
    """One connection, spoken to without a client library: thousands of requests in a second or two."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.socket = socket.create_connection(("127.0.0.1", broker.port), timeout=10)
        self.file = self.socket.makefile("rb")

    def ask(self, method: str, path: str, *, client: str, body: bytes = b"") -> int:
        """The status of the answer; what follows its head is read where it has a length."""
        head = f"{method} {path} HTTP/1.1\r\nhost: b\r\nauthorization: {basic(client)}\r\ncontent-length: {len(body)}\r\n\r\n"
        self.socket.sendall(head.encode() + body)
        status = int(self.file.readline().split()[1])
        length = 0
        while (line := self.file.readline().strip().lower()) != b"":
            if line.startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        self.file.read(length)
        return status

    def renew(self, name: str, *, client: str) -> int:
        body = json.dumps({"v": 1, "verifier": name, "gen": 0, "applied": 0}).encode()
        return self.ask("POST", "/revocations/lease", client=client, body=body)

    def close(self) -> None:
        self.file.close()
        self.socket.close()


def receipt_of(broker: BrokerProcess, account: str) -> dict[str, Any]:
    body = {"kind": "account", "names": {"issuer": "https://idp.test", "account": account}, "reason": "a test"}
    answer = broker.wire.admin("POST", "/revocations?wait=true", body=body)
    assert answer.status_code == 200, answer.text
    found = answer.json()["receipt"]
    assert isinstance(found, dict)
    return found


def test_nobody_says_for_another_clients_verifier_that_it_has_applied_a_revocation(broker: BrokerProcess) -> None:
    name = secrets.token_hex(16)
    granted = renew(broker.wire, client="tools-api", verifier=name).json()
    stolen = renew(broker.wire, client="stranger", verifier=name, gen=granted["gen"], applied=granted["seq"] + 1)
    assert (stolen.status_code, stolen.json()["reason"]) == (409, "verifier_taken")
    given = receipt_of(broker, "stolen")
    assert [holder["client"] for holder in given["expired"] if holder["verifier"] == name] == ["tools-api"]
    assert name not in [holder["verifier"] for holder in given["acknowledged"]]


def test_who_says_to_be_further_than_the_store_has_applied_nothing(broker: BrokerProcess) -> None:
    name = secrets.token_hex(16)
    gen = renew(broker.wire, verifier=name).json()["gen"]
    for at in ({"gen": gen, "applied": 2**53 - 1}, {"gen": 2**53 - 1, "applied": 0}):
        assert renew(broker.wire, verifier=name, **at).status_code == 200
        given = receipt_of(broker, "further")
        assert {"verifier": name, "client": "svc", "applied": "0:0"} in given["expired"]


async def test_two_grants_never_leave_the_same_row_also_not_over_a_claim() -> None:
    """A row that has stayed the same is of a verifier whose lease ran out; one that renewed must not look like it."""
    server = StoreProcess(valkey_program()).start()
    store = await claimed_store(server.url, new_tenant())
    try:
        rows = []
        for _ in range(2):
            assert isinstance(await store.feed.renew(Renewal("a-verifier-of-tests", "svc", Point(0, 0))), Point)
            rows += [holder.row for holder in await store.feed.holders()]
            await claim(store)
        assert len(set(rows)) == 2
    finally:
        await store.close()
        server.remove()


@pytest.mark.parametrize("body", ['{"\\ud800":1}', '{"v":true}', '{"v":1.0}', '{"v":1,"\\u0000\\n":2}'])
def test_no_member_of_a_lease_is_more_than_the_broker_can_answer(broker: BrokerProcess, body: str) -> None:
    members = json.loads(body)
    asked = {"v": 1, "verifier": secrets.token_hex(16), "gen": 0, "applied": 0, **members}
    answer = broker.wire.http.post(
        "/revocations/lease", content=json.dumps(asked), headers={"authorization": basic("svc")}
    )
    assert (answer.status_code, answer.json()["reason"]) == (400, "parameter_invalid")


def test_a_client_that_opens_stream_after_stream_takes_none_from_others(broker: BrokerProcess) -> None:
    files = Path(f"/proc/{broker.pid}/fd")
    before = len(os.listdir(files))
    callers = [Caller(broker) for _ in range(MOST_LISTENING + 2)]
    try:
        answered = [caller.ask("GET", "/revocations/stream", client="stranger") for caller in callers[:-1]]
        assert (answered.count(200), answered[-1]) == (MOST_LISTENING, 429)
        assert callers[-1].ask("GET", "/revocations?since=1:1&wait=1", client="stranger") == 429
        another = Caller(broker)
        callers.append(another)
        assert another.ask("GET", "/revocations/stream", client="tools-api") == 200
    finally:
        for caller in callers:
            caller.close()
    wait_until(lambda: len(os.listdir(files)) <= before + 2, what="the streams are let go of")
    again = Caller(broker)
    assert again.ask("GET", "/revocations/stream", client="stranger") == 200
    again.close()


def test_a_client_that_makes_name_after_name_fills_no_store(broker: BrokerProcess) -> None:
    caller = Caller(broker)
    first = secrets.token_hex(16)
    statuses = [caller.renew(first, client="db-api")]
    statuses += [caller.renew(secrets.token_hex(16), client="db-api") for _ in range(MOST_NAMES)]
    assert (statuses.count(200), statuses[-1]) == (MOST_NAMES, 429)
    assert caller.renew(first, client="db-api") == 200  # who is known goes on
    assert caller.renew(secrets.token_hex(16), client="tools-api") == 200  # and so does everybody else
    caller.close()
