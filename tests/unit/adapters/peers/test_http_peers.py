"""Asking other replicas: an answer counts whole or not at all, and who does not answer is named with why."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from broker.adapters.peers import http as peers_http
from broker.adapters.peers.http import HttpPeers
from broker.domain.audit.knowledge import knowledge_json
from broker.domain.audit.replay import Replayed
from broker.domain.errors import ConfigurationError, SigningUnavailableError
from broker.domain.revocation.feed import Point

KNOWN = Replayed(
    gen=7,
    seq=9,
    versions={"t@1": {"tool": "t", "version": "1", "seq": 9}},
    marks={"all": 3},
    seen={"t@1": (7, 9)},
    told={"all": 7},
)


class Answering:
    """A server on loopback that gives one answer to everything."""

    def __init__(self) -> None:
        self.status = 200
        self.body = json.dumps({**knowledge_json(KNOWN), "replica": "other"}).encode()
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.is_silent = False
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
        self.seen.append((lines[0].split(" ")[1], headers))
        if self.is_silent:
            await reader.read()
        head = f"HTTP/1.1 {self.status} X\r\ncontent-length: {len(self.body)}\r\nlocation: /elsewhere\r\n\r\n"
        writer.write(head.encode() + self.body)
        writer.close()


@pytest.fixture
async def replica() -> AsyncIterator[Answering]:
    made = Answering()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield made
    server.close()


def peers(*urls: str, **settings: Any) -> HttpPeers:
    return HttpPeers(urls, own="own", statement=lambda: "a.b.c", **settings)


async def test_what_a_replica_knows_arrives_as_it_was_sent_to_who_shows_a_statement(replica: Answering) -> None:
    (told,) = (await peers(replica.url).knowledge()).values()
    assert isinstance(told, Replayed)
    assert told == KNOWN
    assert (told.seen, told.told) == (KNOWN.seen, KNOWN.told)
    ((path, headers),) = replica.seen
    assert path == "/replicas/knowledge"
    assert headers["authorization"] == "bearer a.b.c"


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (503, b"{}", "it answered HTTP 503"),
        (302, b"{}", "it answered HTTP 302"),
        (200, b"not json", "not understood"),
        (200, b"[]", "not understood"),
        (200, b'{"replica":"other","v":2,"gen":1,"seq":1}', "format 2"),
        (200, b'{"replica":"other","v":1,"gen":1,"seq":1,"versions":{},"marks":{}}', "told is not an object"),
        (
            200,
            b'{"replica":"other","v":1,"gen":1,"seq":1,"versions":{"t@2":{"tool":"t","version":"1"}},"marks":{},"told":{}}',
            "not that of",
        ),
        (200, b'{"replica":"other","v":1,"gen":true,"seq":1}', "not a counter"),
        (200, b'{"replica":"other","v":1,"gen":1,"gen":2,"seq":1}', "not understood"),
    ],
)
async def test_an_answer_that_is_not_whole_is_no_answer(replica: Answering, status: int, body: bytes, why: str) -> None:
    replica.status, replica.body = status, body
    (told,) = (await peers(replica.url).knowledge()).values()
    assert isinstance(told, str)
    assert why in told


async def test_an_answer_without_end_is_broken_off(replica: Answering, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers_http, "MAX_BYTES", 1_000)
    replica.body = b" " * 2_000
    assert list((await peers(replica.url).knowledge()).values()) == ["its answer is too large"]


async def test_a_replica_that_is_silent_or_gone_keeps_nobody_waiting(replica: Answering) -> None:
    replica.is_silent = True
    gone = "http://127.0.0.1:9"
    told = await peers(replica.url, gone, replica.url, answer_seconds=0.2).knowledge()
    assert told == {replica.url: "it did not answer within 0.2 s", gone: "it cannot be reached, ConnectError"}


async def test_whether_a_replica_has_something_on_record_is_yes_or_not_yes(replica: Answering) -> None:
    for body, expected in (('"recorded":true,', True), ('"recorded":1,', False), ("", False)):
        replica.body = f'{{{body}"replica":"other"}}'.encode()
        assert list((await peers(replica.url).recorded(Point(7, 9))).values()) == [expected]
    assert replica.seen[0][0] == "/replicas/recorded?gen=7&seq=9"


async def test_itself_and_one_that_was_named_twice_count_for_no_other_replica(replica: Answering) -> None:
    again = replica.url.replace("127.0.0.1", "localhost")
    told = await peers(replica.url, again).knowledge()
    assert isinstance(told[replica.url], Replayed)
    assert f"it is the one at {replica.url}" in str(told[again])
    replica.body = json.dumps({**knowledge_json(KNOWN), "replica": "own", "recorded": True}).encode()
    assert "it is this replica itself" in str((await peers(replica.url).knowledge())[replica.url])
    assert (await peers(replica.url).recorded(Point(7, 9)))[replica.url] is not True
    replica.body = json.dumps(knowledge_json(KNOWN)).encode()
    assert await peers(replica.url).knowledge() == {replica.url: "its answer has no name"}


async def test_without_a_key_to_sign_with_nobody_is_asked(replica: Answering) -> None:
    def no_key() -> str:
        raise SigningUnavailableError("no key")

    assert list((await HttpPeers([replica.url], own="own", statement=no_key).knowledge()).values()) == ["no key"]
    assert replica.seen == []


@pytest.mark.parametrize("url", ["broker.example", "http://broker.example", "https://a/?b", "https://broker.example/"])
def test_an_address_that_is_none_is_said_at_the_start(url: str) -> None:
    with pytest.raises(ConfigurationError, match="--peer"):
        peers(url)
