"""A broker under several addresses: which failure leads to the next one, and what is never sent twice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest
import uvicorn
from broker.domain.errors import ConfigurationError, Refusal
from broker.gate.broker_client import BrokerClient
from broker.gate.broker_http import BrokerHttp, BrokerUnreachableError, addresses
from broker.gate.client_auth import ClientSecret
from broker.gate.jwks import GateKeys
from feed_stub import until

from broker_parts import free_port, public_set

NOBODY = "http://127.0.0.1:9"


@dataclass
class Replica:
    """Answers with a status; 0: breaks the connection; -1: never."""

    status: int = 200
    body: Any = field(default_factory=dict)
    asked: int = 0
    url: str = ""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked += 1
        if self.status == -1:
            while (await receive())["type"] != "http.disconnect":
                pass
            return
        if self.status == 0:
            raise ConnectionResetError
        content = json.dumps(self.body).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": content})


@asynccontextmanager
async def replicas(*made: Replica) -> AsyncIterator[list[str]]:
    async with AsyncExitStack() as stack:
        for one in made:
            options: Any = {"port": free_port(), "log_level": "critical", "lifespan": "off", "ws": "none"}
            config = uvicorn.Config(_Broken(one), host="127.0.0.1", **options)
            server = uvicorn.Server(config)
            server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
            task = asyncio.create_task(server.serve())
            await until(lambda server=server: server.started)
            one.url = f"http://127.0.0.1:{config.port}"
            stack.push_async_callback(_stop, server, task)
        yield [one.url for one in made]


class _Broken:
    """Closes the connection where a replica breaks it, which a server answers with 500 otherwise."""

    def __init__(self, replica: Replica) -> None:
        self.replica = replica

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await self.replica(scope, receive, send)
        except ConnectionResetError:
            headers = [(b"content-length", b"100")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b"{", "more_body": True})
            raise


async def _stop(server: uvicorn.Server, task: asyncio.Task[None]) -> None:
    server.should_exit = True
    await task


async def send(urls: list[str], *, tries: int, timeout: float = 2.0) -> tuple[int, BrokerHttp]:
    http = BrokerHttp(urls, timeout_seconds=timeout, max_connections=4)
    try:
        status, _, _ = await http.send(lambda url: http.client.build_request("GET", url + "/x"), tries=tries)
        return status, http
    finally:
        await http.aclose()


async def test_where_nobody_listens_the_next_address_is_asked_even_if_it_may_reach_one_only() -> None:
    only = Replica()
    async with replicas(only) as urls:
        assert (await send([NOBODY, *urls], tries=1))[0] == 200
        assert only.asked == 1


@pytest.mark.parametrize("status", [503, 500, 429, 0])
async def test_one_that_fails_is_followed_by_the_next_where_a_second_may_be_reached(status: int) -> None:
    bad, good = Replica(status), Replica()
    async with replicas(bad, good) as urls:
        assert (await send(urls, tries=2))[0] == 200
        assert (bad.asked, good.asked) == (1, 1)


@pytest.mark.parametrize("status", [503, 0])
async def test_what_may_reach_one_broker_only_is_not_sent_to_two(status: int) -> None:
    bad, good = Replica(status), Replica()
    async with replicas(bad, good) as urls:
        with pytest.raises(BrokerUnreachableError):
            await send(urls, tries=1)
        assert (bad.asked, good.asked) == (1, 0)


async def test_one_that_hangs_leaves_time_for_another() -> None:
    hung, good = Replica(-1), Replica()
    async with replicas(hung, good) as urls:
        assert (await send(urls, tries=2, timeout=1.0))[0] == 200
        assert (hung.asked, good.asked) == (1, 1)


async def test_a_no_is_an_answer_and_nobody_else_is_asked() -> None:
    first, second = Replica(400, {"error": "invalid_request"}), Replica()
    async with replicas(first, second) as urls:
        assert (await send(urls, tries=2))[0] == 400
        assert second.asked == 0


async def test_the_address_that_served_last_is_asked_first() -> None:
    bad, good = Replica(503), Replica(204)
    async with replicas(bad, good) as urls:
        client = BrokerClient(urls, ClientSecret("gate", "secret"))
        for _ in range(3):
            try:
                await client.report([{}])
            except BrokerUnreachableError:
                continue
        await client.aclose()
        assert (bad.asked, good.asked) == (1, 2)


async def test_keys_are_had_from_whoever_has_them() -> None:
    bad, good = Replica(503), Replica(200, public_set("idp"))
    async with replicas(bad, good) as urls:
        keys = GateKeys(NOBODY, *urls)
        found = await keys.find(kid="idp", algorithm="ES256")
        await keys.close()
        assert not isinstance(found, Refusal)
        assert (bad.asked, good.asked) == (1, 1)


def test_no_address_at_all_is_a_mistake_in_the_settings() -> None:
    with pytest.raises(ConfigurationError):
        addresses([], issuer="https://b.example")
    assert addresses(None, issuer="https://b.example/") == ("https://b.example",)
    assert addresses("https://c/", issuer="https://b") == ("https://c",)
    assert addresses(["https://c/", "https://d"], issuer="https://b") == ("https://c", "https://d")
    assert httpx2.URL(addresses(None, issuer="https://b.example")[0]).host == "b.example"


@pytest.mark.parametrize(
    "url", ["ftp://b.example", "http://b.example", "b.example", "https://me@b.example", "https://b.example?a"]
)
def test_an_address_that_secrets_must_not_go_to_is_refused_at_once(url: str) -> None:
    with pytest.raises(ConfigurationError, match="issuer '"):
        addresses(None, issuer=url)
    with pytest.raises(ConfigurationError, match="broker_url '"):
        addresses(["http://127.0.0.1:8420", url], issuer="https://b.example")
