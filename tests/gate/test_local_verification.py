"""A protected API that follows the broker's revocations: real brokers, real servers, and a network in between."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from broker.domain.errors import ConfigurationError
from broker.domain.revocation.lease import LEASE_SECONDS
from broker.gate.downstream import CredentialVerifier
from broker.gate.follower import SILENCE_SECONDS
from feed_proxy import STREAM, proxied
from gate_parts import protected, running, until

from broker_parts import SECRETS, BrokerProcess, PolicyTree, detail, subject_token, unverified_claims


async def aside(work: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """The operator's blocking client, beside this event loop."""
    return await asyncio.to_thread(work, *arguments, **options)


async def mint(broker: BrokerProcess, tool: str, **members: Any) -> str:
    asked = {"tool": tool, "version": "3", "task": "report", "arguments": {"query": "q"}, **members}
    token = subject_token(groups=["dba", "counted", "watched"])
    answer = await aside(broker.wire.mint, client="svc", subject_token=token, authorization_details=detail(**asked))
    return str(answer["access_token"])


class Api:
    """The protected API over real HTTP."""

    def __init__(self, client: httpx2.AsyncClient, verifier: CredentialVerifier) -> None:
        self._client = client
        self.verifier = verifier

    async def get(self, token: str) -> httpx2.Response:
        return await self._client.get("/read", headers={"Authorization": f"Bearer {token}"})

    async def said(self, token: str) -> tuple[int, str | None]:
        """Status and reason."""
        answer = await self.get(token)
        return answer.status_code, answer.json().get("reason")

    async def says(
        self, token: str, expected: tuple[int, str | None], *, seconds: float = 10.0
    ) -> list[tuple[int, str | None]]:
        """What it says, time after time, until it says what is expected."""
        found = []
        deadline = time.monotonic() + seconds
        while not found or found[-1] != expected:
            assert time.monotonic() < deadline, f"not within {seconds} s: {expected}; last {found[-3:]}"
            found.append(await self.said(token))
            await asyncio.sleep(0.002)
        return found


OK = (200, None)
REVOKED = (401, "credential_revoked")
STALE = (503, "feed_stale")


@asynccontextmanager
async def api(broker: BrokerProcess, *, lifespan: str = "off", **options: Any) -> AsyncIterator[Api]:
    verifier = protected(broker, **options)
    async with running(verifier, lifespan=lifespan) as url, httpx2.AsyncClient(base_url=url, timeout=10) as client:
        try:
            yield Api(client, verifier)
        finally:
            await verifier.aclose()


@pytest.fixture
async def served(gate_broker: BrokerProcess, tool: str) -> str:
    await aside(gate_broker.wire.serve, f"{tool}@3")
    return tool


async def roll_back(broker: BrokerProcess, tool: str) -> None:
    await aside(broker.wire.command, f"{tool}@3", "rollback", force=True)


async def test_a_rollback_is_refused_at_once_and_nobody_asks_the_broker(
    gate_broker: BrokerProcess, served: str
) -> None:
    token = await mint(gate_broker, served)
    async with proxied(gate_broker.url) as proxy, api(gate_broker, broker_url=proxy.url) as database:
        assert [await database.said(token) for _ in range(20)] == [OK] * 20
        await roll_back(gate_broker, served)
        begun = time.monotonic()
        found = await database.says(token, REVOKED)
        assert time.monotonic() - begun < 1.0
        assert set(found) <= {OK, REVOKED}
        assert [await database.said(token) for _ in range(20)] == [REVOKED] * 20
    assert not [path for path in proxy.requests if "introspect" in path], proxy.requests
    assert proxy.requests[f"GET {STREAM}"] == 1


async def test_a_credential_of_a_moment_ago_is_not_refused_for_being_new(
    gate_broker: BrokerProcess, served: str
) -> None:
    """Its `rseq` may be ahead of the view by the time that an event needs."""
    async with (
        proxied(gate_broker.url, delay_seconds=0.01) as proxy,
        api(gate_broker, broker_url=proxy.url) as database,
    ):
        await database.says(await mint(gate_broker, served), OK)
        for _ in range(10):
            body = {"kind": "credential", "names": {"jti": "nobody"}, "reason": "the clock moves"}
            answer = await aside(gate_broker.wire.admin, "POST", "/revocations", body=body)
            assert answer.status_code == 200, answer.text
            assert await database.said(await mint(gate_broker, served)) == OK


async def test_promotion_again_revives_no_old_credential(gate_broker: BrokerProcess, served: str) -> None:
    old = await mint(gate_broker, served)
    async with api(gate_broker) as database:
        assert await database.said(old) == OK
        await roll_back(gate_broker, served)
        await database.says(old, REVOKED)
        for command in ("canary", "promote"):
            await aside(gate_broker.wire.command, f"{served}@3", command)
        fresh = await mint(gate_broker, served)
        await database.says(fresh, OK, seconds=2)
        assert await database.said(old) == REVOKED


async def test_uses_are_counted_by_the_broker_and_a_dead_credential_is_not_even_asked_about(
    gate_broker: BrokerProcess, served: str
) -> None:
    counted, second = await mint(gate_broker, served, task="once"), await mint(gate_broker, served, task="once")
    async with proxied(gate_broker.url) as proxy, api(gate_broker, broker_url=proxy.url) as database:
        assert await database.said(counted) == OK
        assert await database.said(counted) == REVOKED
        assert proxy.requests["POST /introspect"] == 2
        plain = await mint(gate_broker, served)
        await roll_back(gate_broker, served)
        await database.says(plain, REVOKED)
        assert await database.said(second) == REVOKED
        assert proxy.requests["POST /introspect"] == 2


async def test_what_policy_wants_asked_about_is_dead_at_once_when_it_was_given_back(
    gate_broker: BrokerProcess, served: str
) -> None:
    watched, plain = await mint(gate_broker, served, task="watched"), await mint(gate_broker, served)
    async with proxied(gate_broker.url) as proxy, api(gate_broker, broker_url=proxy.url) as database:
        assert [await database.said(token) for token in (watched, plain)] == [OK, OK]
        assert proxy.requests["POST /introspect"] == 1
        for token in (watched, plain):
            assert (await aside(gate_broker.wire.revoke, token, client="svc")).status_code == 200
        assert [await database.said(token) for token in (watched, plain)] == [REVOKED, OK]
        assert proxy.requests["POST /introspect"] == 2


async def test_an_online_verifier_asks_and_does_not_follow(gate_broker: BrokerProcess, served: str) -> None:
    token = await mint(gate_broker, served)
    async with proxied(gate_broker.url) as proxy, api(gate_broker, broker_url=proxy.url, online=True) as database:
        assert await database.said(token) == OK
        assert (await aside(gate_broker.wire.revoke, token, client="svc")).status_code == 200
        assert await database.said(token) == REVOKED
    assert proxy.requests["POST /introspect"] == 2
    assert not [path for path in proxy.requests if "revocations" in path]


async def test_a_lost_event_is_noticed_and_everything_is_read_again(gate_broker: BrokerProcess, served: str) -> None:
    token = await mint(gate_broker, served)
    async with proxied(gate_broker.url) as proxy, api(gate_broker, broker_url=proxy.url) as database:
        assert await database.said(token) == OK
        proxy.lose = 1
        await roll_back(gate_broker, served)
        found = await database.says(token, REVOKED, seconds=LEASE_SECONDS + 2)
        assert proxy.lose == 0, "an event was swallowed"
        assert set(found) <= {OK, STALE, REVOKED}
        assert proxy.requests[f"GET {STREAM}"] == 2


async def test_a_stream_that_goes_silent_is_left_for_another(gate_broker: BrokerProcess, served: str) -> None:
    token = await mint(gate_broker, served)
    async with proxied(gate_broker.url) as proxy, api(gate_broker, broker_url=proxy.url) as database:
        assert await database.said(token) == OK
        proxy.silent = True
        await roll_back(gate_broker, served)
        await until(lambda: proxy.requests[f"GET {STREAM}"] > 1, "it is left after some silence")
        proxy.silent = False
        found = await database.says(token, REVOKED, seconds=LEASE_SECONDS + SILENCE_SECONDS)
        # A lease from after the rollback is bound to it: whoever has not heard of it is stale, and never says yes for long.
        assert set(found) <= {OK, STALE, REVOKED}


async def test_silence_is_believed_for_no_longer_than_a_lease(gate_broker: BrokerProcess, served: str) -> None:
    """Leases go on, the stream does not: they are bound to what the stream did not bring."""
    token = await mint(gate_broker, served)
    async with proxied(gate_broker.url) as proxy, api(gate_broker, broker_url=proxy.url) as database:
        assert await database.said(token) == OK
        proxy.silent = proxy.gather = True
        await roll_back(gate_broker, served)
        begun = time.monotonic()
        last_yes = begun
        while time.monotonic() < begun + LEASE_SECONDS + 0.5:
            if await database.said(token) == OK:
                last_yes = time.monotonic()
        assert last_yes - begun <= LEASE_SECONDS


async def test_where_streams_do_not_come_through_it_polls(gate_broker: BrokerProcess, served: str) -> None:
    token = await mint(gate_broker, served)
    async with proxied(gate_broker.url, gather=True) as proxy, api(gate_broker, broker_url=proxy.url) as database:
        await database.says(token, OK)
        assert proxy.requests["GET /revocations"] >= 1
        await roll_back(gate_broker, served)
        begun = time.monotonic()
        found = await database.says(token, REVOKED)
        assert time.monotonic() - begun < 1.0
        assert STALE not in found


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that may be ended, and whose key may be revoked."""
    broker = BrokerProcess(tmp_path_factory.mktemp("own-broker"))
    try:
        broker.start().wire.serve("db.query@3")
        yield broker
    finally:
        broker.remove()


async def test_a_broker_that_stops_is_felt_within_a_lease_and_all_is_well_when_it_is_back(
    own_broker: BrokerProcess,
) -> None:
    token = await mint(own_broker, "db.query")
    async with api(own_broker) as database:
        assert await database.said(token) == OK
        own_broker.stop(signal.SIGKILL)
        begun = time.monotonic()
        found = await database.says(token, STALE, seconds=LEASE_SECONDS + 1)
        assert time.monotonic() - begun <= LEASE_SECONDS + 0.2
        assert set(found) == {OK, STALE}
        answer = await database.get(token)
        assert int(answer.headers["retry-after"]) >= 1
        assert "www-authenticate" not in answer.headers
        assert answer.json()["error"] == "temporarily_unavailable"
        await aside(own_broker.start)
        # the store was claimed anew: what was minted before is void, for good
        assert set(await database.says(token, REVOKED)) <= {STALE, REVOKED}
        await database.says(await mint(own_broker, "db.query"), OK, seconds=3)


async def test_a_revoked_key_is_refused_though_it_is_still_cached(own_broker: BrokerProcess) -> None:
    token = await mint(own_broker, "db.query")
    async with proxied(own_broker.url) as proxy, api(own_broker, broker_url=proxy.url) as database:
        assert await database.said(token) == OK
        kid = (await aside(own_broker.wire.http.get, "/jwks.json")).json()["keys"][0]["kid"]
        fetched = proxy.requests["GET /jwks.json"]
        body = {"kind": "key", "names": {"kid": kid}, "reason": "it leaked"}
        answer = await aside(own_broker.wire.admin, "POST", "/revocations", body=body)
        assert answer.status_code == 200, answer.text
        await database.says(token, REVOKED, seconds=2)
        assert proxy.requests["GET /jwks.json"] == fetched, "the keys are as they were cached"


async def test_a_restarted_verifier_takes_nothing_from_a_broker_on_an_older_store(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Two stores under one name: the older one was left behind, and comes back instead of the one that rolled back."""
    policies = PolicyTree(tmp_path / "policies")
    old = BrokerProcess(tmp_path / "old", "--issuer", "https://broker.example", policies=policies)
    new = BrokerProcess(tmp_path / "new", "--issuer", "https://broker.example", policies=policies)
    for broker in (old, new):
        broker.wire.url = "https://broker.example"  # the audience of its clients' assertions
    state = tmp_path / "state" / "db-api.json"
    named = {"issuer": "https://broker.example", "state_file": state}
    try:
        await aside(old.start)
        await aside(old.wire.serve, "db.query@3")
        token = await mint(old, "db.query")
        shutil.copytree(old.data / "keys", new.data / "keys")
        async with proxied(old.url) as proxy:
            async with api(old, broker_url=proxy.url, **named) as database:
                assert await database.said(token) == OK
            await aside(new.start)
            await aside(new.wire.serve, "db.query@3")
            newer = await mint(new, "db.query")
            proxy.upstream = new.url
            async with api(new, broker_url=proxy.url, **named) as database:
                await database.says(newer, OK)
                assert await database.said(token) == REVOKED
                await roll_back(new, "db.query")
                await database.says(newer, REVOKED)
            seen = json.loads(state.read_text())
            assert seen["gen"] == unverified_claims(newer)["gen"]
            proxy.upstream = old.url
            with caplog.at_level(logging.ERROR, "broker.gate"):
                async with api(old, broker_url=proxy.url, **named) as database:
                    for _ in range(3):
                        assert await database.said(token) == STALE
                        assert await database.said(newer) == STALE
                    await until(lambda: "old store" in caplog.text, "it is said loudly")
            assert json.loads(state.read_text()) == seen
    finally:
        old.remove()
        new.remove()


async def test_what_was_seen_is_written_down_before_it_is_acknowledged(
    gate_broker: BrokerProcess, served: str, tmp_path: Path
) -> None:
    state = tmp_path / "deep" / "state.json"
    async with api(gate_broker, state_file=state) as database:
        token = await mint(gate_broker, served)
        await database.says(token, OK)
        await roll_back(gate_broker, served)
        await database.says(token, REVOKED)
    seen = json.loads(state.read_text())
    claims = unverified_claims(token)
    assert (seen["gen"], seen["keys"]) == (claims["gen"], [])
    assert seen["seq"] > claims["rseq"]


async def test_a_state_file_that_cannot_be_read_stops_the_start(gate_broker: BrokerProcess, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    state.write_text("{")
    with pytest.raises(ConfigurationError, match="state_file"):
        protected(gate_broker, state_file=state)
    state.unlink()
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="state_file"):
        protected(gate_broker, state_file=tmp_path / "file" / "state.json")


async def test_without_a_state_file_that_is_said(gate_broker: BrokerProcess, caplog: pytest.LogCaptureFixture) -> None:
    verifier = protected(gate_broker, state_file=None)
    assert "state_file=None" in caplog.text
    await verifier.aclose()


async def test_any_address_of_the_broker_will_do(gate_broker: BrokerProcess, served: str) -> None:
    token = await mint(gate_broker, served)
    async with proxied(gate_broker.url) as first, proxied(gate_broker.url) as second:
        dead = "http://127.0.0.1:9"
        async with api(gate_broker, broker_url=[dead, first.url, second.url]) as database:
            await database.says(token, OK, seconds=3)
            first.refuse = True
            first.silent = True
            begun = time.monotonic()
            while time.monotonic() < begun + LEASE_SECONDS + 0.3:
                assert await database.said(token) == OK
            await roll_back(gate_broker, served)
            await database.says(token, REVOKED, seconds=3)
        assert second.requests["POST /revocations/lease"]


@pytest.mark.parametrize("lifespan", ["on", "off"])
async def test_it_follows_with_a_lifespan_and_without_and_leaves_nothing_behind(
    gate_broker: BrokerProcess, served: str, lifespan: str
) -> None:
    before = asyncio.all_tasks()
    token = await mint(gate_broker, served)
    async with api(gate_broker, lifespan=lifespan, app=_with_lifespan()) as database:
        assert await database.said(token) == OK
    left = {task.get_name() for task in asyncio.all_tasks() - before}
    assert not [name for name in left if "broker-gate" in name]


def _with_lifespan() -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for step in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{step}.complete"})
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    return app


async def test_verifiers_of_one_client_share_one_follower(gate_broker: BrokerProcess, served: str) -> None:
    token = await mint(gate_broker, served)
    async with proxied(gate_broker.url) as proxy:
        async with api(gate_broker, broker_url=proxy.url) as one, api(gate_broker, broker_url=proxy.url) as other:
            assert await one.said(token) == OK
            assert await other.said(token) == OK
            await one.verifier.aclose()
            assert await other.said(token) == OK
            assert (proxy.requests[f"GET {STREAM}"], proxy.open_streams) == (1, 1)
        await until(lambda: proxy.open_streams == 0, "the stream is closed with the last of them")


async def test_a_client_that_may_not_follow_accepts_nothing(gate_broker: BrokerProcess, served: str) -> None:
    token = await mint(gate_broker, served)
    async with api(gate_broker, client_id="bystander", client_secret=SECRETS["bystander"][1]) as database:
        assert await database.said(token) == STALE
