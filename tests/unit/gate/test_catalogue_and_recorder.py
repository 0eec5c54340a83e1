"""The gate's memory of versions and its way of recording, beside a broker stub that fails on cue over real HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import uvicorn
from broker.domain.contracts.contract import parse_contract
from broker.domain.ids import Digest, ToolName, Version
from broker.domain.lifecycle.states import State, VersionRecord, record_json
from broker.gate.broker_client import BrokerClient
from broker.gate.broker_http import BrokerUnreachableError
from broker.gate.catalogue import RETRY_SECONDS, Catalogue
from broker.gate.client_auth import ClientSecret
from broker.gate.recorder import CallFacts, Recorder
from broker.gate.transactions import MAX_OPEN, OPEN_SECONDS, Transactions

from broker_parts import free_port

TOOL = ToolName("db.query")
CONTRACT = parse_contract({"name": TOOL, "inputSchema": {"type": "object", "properties": {"a": {"default": 1}}}})


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


class Stub:
    """Answers as it is told to; `hold` keeps every answer back until it is set."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        self.status = 200
        self.seq = 1
        self.members: Any = CONTRACT.members
        self.hold = asyncio.Event()
        self.hold.set()
        self.refuse: set[str] = set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.requests.append((scope["path"], headers, json.loads(body) if body else None))
        await self.hold.wait()
        status, answer, tag = self._answer(scope["path"], headers, json.loads(body) if body else None)
        await send(
            {"type": "http.response.start", "status": status, "headers": [(b"etag", tag), (b"retry-after", b"7")]}
        )
        await send({"type": "http.response.body", "body": answer})

    def _answer(self, path: str, headers: dict[str, str], body: Any) -> tuple[int, bytes, bytes]:
        tag = f'"1-{self.seq}"'.encode()
        if self.status != 200:
            error = {"error": "invalid_client", "reason": "client_assertion_invalid", "error_description": "no"}
            return self.status, json.dumps(error).encode(), tag
        if path == "/calls":
            if any(record["tool"] in self.refuse for record in body["records"]):
                return 400, b'{"error":"invalid_request","reason":"parameter_invalid"}', tag
            return 204, b"", tag
        if headers.get("if-none-match") == tag.decode():
            return 304, b"", tag
        record = VersionRecord(
            tool=TOOL,
            version=Version("3"),
            state=State.STABLE,
            contract=CONTRACT.digest,
            policy=Digest("sha256:" + "0" * 64),
            since=1,
        )
        versions = [{**record_json(record), "members": self.members}]
        said = {"tool": TOOL, "audience": "https://db.internal", "gen": 1, "seq": self.seq, "versions": versions}
        return 200, json.dumps(said).encode(), tag

    def asked(self, path: str) -> int:
        return sum(1 for found, _, _ in self.requests if found == path)


@pytest.fixture
async def stub() -> AsyncIterator[tuple[Stub, BrokerClient]]:
    made, port = Stub(), free_port()
    server = uvicorn.Server(uvicorn.Config(made, host="127.0.0.1", port=port, log_level="error", lifespan="off"))
    task = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    client = BrokerClient(f"http://127.0.0.1:{port}", ClientSecret("gate", "secret"), timeout_seconds=2.0)
    yield made, client
    made.hold.set()
    await client.aclose()
    server.should_exit = True
    await task


class Clock:
    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


async def test_many_who_ask_share_one_answer_for_a_second(stub: tuple[Stub, BrokerClient]) -> None:
    broker, client = stub
    clock = Clock()
    catalogue = Catalogue(client, clock=clock)
    found = await asyncio.gather(*(catalogue.of(TOOL) for _ in range(50)))
    assert all(one is not None and one.records[0].version == "3" for one in found)
    assert broker.asked("/tools/db.query") == 1
    clock.at += 1.01
    again = await catalogue.of(TOOL)
    assert again is found[0]
    assert broker.asked("/tools/db.query") == 2
    assert broker.requests[-1][1]["if-none-match"] == '"1-1"'


async def test_an_entry_from_before_the_feed_told_of_a_change_is_asked_for_again(
    stub: tuple[Stub, BrokerClient],
) -> None:
    broker, client = stub
    clock, heard = Clock(), {TOOL: float("-inf")}
    catalogue = Catalogue(client, clock=clock, changed_at=lambda tool: heard[tool])
    await catalogue.of(TOOL)
    clock.at += 0.1
    await catalogue.of(TOOL)
    assert broker.asked("/tools/db.query") == 1
    heard[TOOL] = clock.at
    clock.at += 0.1
    await catalogue.of(TOOL)
    await catalogue.of(TOOL)
    assert broker.asked("/tools/db.query") == 2


async def test_who_doubts_an_entry_gets_one_that_was_asked_for_later(stub: tuple[Stub, BrokerClient]) -> None:
    broker, client = stub
    clock = Clock()
    catalogue = Catalogue(client, clock=clock)
    await catalogue.of(TOOL)
    clock.at += 0.1
    await catalogue.of(TOOL)
    assert broker.asked("/tools/db.query") == 1
    await catalogue.of(TOOL, not_before=clock.at)
    assert broker.asked("/tools/db.query") == 2


async def test_a_broker_away_leaves_what_it_last_said_and_is_not_asked_by_everybody(
    stub: tuple[Stub, BrokerClient],
) -> None:
    broker, client = stub
    clock = Clock()
    catalogue = Catalogue(client, clock=clock)
    first = await catalogue.of(TOOL)
    broker.status = 503
    clock.at += 2
    for _ in range(5):
        assert await catalogue.of(TOOL) is first
    assert broker.asked("/tools/db.query") == 2
    clock.at += RETRY_SECONDS
    broker.status = 200
    broker.seq = 2
    assert await catalogue.of(TOOL) is not first


@pytest.mark.parametrize("status", [503, 401])
async def test_of_what_was_never_heard_nothing_is_known(stub: tuple[Stub, BrokerClient], status: int) -> None:
    broker, client = stub
    broker.status = status
    with pytest.raises(BrokerUnreachableError):
        await Catalogue(client).of(TOOL)


async def test_a_contract_that_is_not_what_its_digest_says_counts_for_nothing(stub: tuple[Stub, BrokerClient]) -> None:
    broker, client = stub
    broker.members = {**CONTRACT.members, "description": "something else"}
    found = await Catalogue(client).of(TOOL)
    assert found is not None
    assert found.contracts == {}


async def test_defaults_left_out_are_named(stub: tuple[Stub, BrokerClient]) -> None:
    found = await Catalogue(stub[1]).of(TOOL)
    assert found is not None
    contract = found.contracts[Version("3")]
    assert contract.omitted({}) == ("/a",)
    assert contract.omitted({"a": 2}) == ()
    assert contract.problem({"b": 1}) is not None


def facts(tool: str = "db.query") -> CallFacts:
    return CallFacts(tool=tool, txn="t")


async def test_records_that_wait_go_out_together(stub: tuple[Stub, BrokerClient]) -> None:
    broker, client = stub
    broker.hold.clear()
    recorder = Recorder(client)
    starts = [asyncio.create_task(recorder.start(facts().record("start"))) for _ in range(40)]
    await until(lambda: broker.requests)
    broker.hold.set()
    await asyncio.gather(*starts)
    sizes = [len(body["records"]) for _, _, body in broker.requests]
    assert sum(sizes) == 40
    assert len(sizes) <= 3


async def test_a_start_that_cannot_be_recorded_fails_and_an_end_is_sent_later(stub: tuple[Stub, BrokerClient]) -> None:
    broker, client = stub
    broker.status = 503
    recorder = Recorder(client)
    recorder.deny(facts().record("deny", reason="x"))
    await recorder.end(facts().record("end", status="ok", duration_us=1), deadline_seconds=0.2)
    with pytest.raises(BrokerUnreachableError) as caught:
        await recorder.start(facts().record("start"))
    assert caught.value.retry_after_seconds == 7
    broker.status = 200
    broker.requests.clear()
    await recorder.start(facts().record("start"))
    events = [record["event"] for _, _, body in broker.requests for record in body["records"]]
    assert events == ["deny", "end", "start"]


async def test_one_record_that_is_refused_does_not_take_the_others_with_it(stub: tuple[Stub, BrokerClient]) -> None:
    broker, client = stub
    broker.hold.clear()
    broker.refuse = {"bad"}
    recorder = Recorder(client)
    tasks = [asyncio.create_task(recorder.start(facts(tool).record("start"))) for tool in ("a", "b", "bad", "c")]
    await asyncio.sleep(0)
    broker.hold.set()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(outcome, BrokerUnreachableError) for outcome in outcomes] == [False, False, True, False]


async def test_nothing_of_a_call_is_recorded_that_is_not_known() -> None:
    assert facts().record("deny", reason="x") == {"event": "deny", "tool": "db.query", "txn": "t", "reason": "x"}


def test_a_round_that_continues_a_call_has_its_txn_once_and_for_the_same_principal_only() -> None:
    clock = Clock()
    known = Transactions(clock=clock)
    alice, bob = ("iss", "alice"), ("iss", "bob")
    first = known.of(principal=alice, tool="t", state=None)
    known.await_next(first, principal=alice, tool="t", state="s")
    assert known.of(principal=bob, tool="t", state="s") != first
    assert known.of(principal=alice, tool="u", state="s") != first
    assert known.of(principal=alice, tool="t", state="s") == first
    assert known.of(principal=alice, tool="t", state="s") != first
    known.await_next(first, principal=alice, tool="t", state="s")
    clock.at += OPEN_SECONDS + 1
    assert known.of(principal=alice, tool="t", state="s") != first
    for n in range(MAX_OPEN + 1):
        known.await_next(first, principal=alice, tool="t", state=f"s{n}")
    assert known.of(principal=alice, tool="t", state="s0") != first
    assert known.of(principal=alice, tool="t", state="s1") == first
