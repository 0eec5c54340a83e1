"""Key sets over real HTTP, on a clock that is set by hand."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from broker.adapters.jwks.fetch import MAX_BYTES, is_fetchable
from broker.adapters.jwks.keysets import HttpKeySets
from broker.domain.errors import Reason, Refusal
from broker.domain.policy.document import KeySource
from broker.domain.tokens.keys import VerificationKey
from broker.domain.tokens.keyset import Schedule
from broker.gate.jwks import GateKeys
from key_server import KeyServer

CASE: dict[str, Any] = json.loads((Path(__file__).parents[3] / "vectors" / "jwt_jwks.json").read_text())["jwks"]
SCHEDULE = Schedule(
    ttl_seconds=CASE["ttl_seconds"],
    cooldown_seconds=CASE["cooldown_seconds"],
    max_stale_seconds=CASE["max_stale_seconds"],
)
Finder = Callable[[str], Any]


class HandClock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def server() -> AsyncIterator[KeyServer]:
    async with KeyServer() as made:
        yield made


@pytest.fixture(params=["broker", "gate"])
async def find(request: pytest.FixtureRequest, server: KeyServer, clock: HandClock) -> AsyncIterator[Finder]:
    """Ask for an ES256 key by kid: the broker's key sets, and the gate's keys, which keep the same promise."""
    if request.param == "broker":
        sets = HttpKeySets(schedule=SCHEDULE, seconds=clock)
        yield lambda kid: sets.find(KeySource(url=server.url), kid=kid, algorithm="ES256")
        await sets.close()
    else:
        keys = GateKeys(server.url, schedule=SCHEDULE, seconds=clock)
        yield lambda kid: keys.find(kid=kid, algorithm="ES256")
        await keys.close()


def outcome_of(found: VerificationKey | Refusal) -> str:
    return found.reason.value if isinstance(found, Refusal) else "accept"


async def test_keys_live_through_outages_rotation_and_floods(
    find: Finder, server: KeyServer, clock: HandClock, caplog: pytest.LogCaptureFixture
) -> None:
    for step in CASE["steps"]:
        clock.now, server.serve, server.requests = float(step["at"]), step["serve"], 0
        caplog.clear()
        kids = [f"made-up-{n}" for n in range(step["ask"])] if isinstance(step["ask"], int) else step["ask"]
        found = await asyncio.gather(*(find(kid) for kid in kids))
        assert {outcome_of(one) for one in found} == {step["expect"]}, step["says"]
        assert server.requests == step["fetches"], step["says"]
        if "meanwhile" in step:
            assert outcome_of(await find(step["meanwhile"])) == "accept"
        alarms = [record for record in caplog.records if record.levelno >= logging.ERROR]
        if step.get("alarm"):
            assert [record.name for record in alarms] == ["broker.keys"], step["says"]
    assert set(server.paths) == {"/jwks.json"}


async def test_a_body_that_does_not_end_is_cut_off_early(find: Finder, server: KeyServer) -> None:
    server.serve = {"bytes": 50_000_000}
    assert outcome_of(await find("k1")) == "token_keys_unavailable"
    assert server.sent_bytes < 20 * MAX_BYTES


async def test_many_callers_wait_for_one_fetch(find: Finder, server: KeyServer) -> None:
    found = await asyncio.gather(*(find("k1") for _ in range(200)))
    assert {outcome_of(one) for one in found} == {"accept"}
    assert server.requests == 1


async def test_a_known_key_does_not_wait_while_an_unknown_one_is_looked_for(
    find: Finder, server: KeyServer, clock: HandClock
) -> None:
    await find("k1")
    clock.now = 31
    hold = asyncio.Event()
    server.serve = {"keys": ["k1", "k2"], "hold": hold}
    unknown = asyncio.create_task(find("k2"))
    await _until(lambda: server.requests == 2)
    assert outcome_of(await asyncio.wait_for(find("k1"), 1)) == "accept"
    assert not unknown.done()
    hold.set()
    assert outcome_of(await unknown) == "accept"


async def test_a_caller_that_goes_away_does_not_take_the_fetch_with_it(find: Finder, server: KeyServer) -> None:
    hold = asyncio.Event()
    server.serve = {"keys": ["k1"], "hold": hold}
    first, second = asyncio.create_task(find("k1")), asyncio.create_task(find("k1"))
    await _until(lambda: server.requests == 1)
    first.cancel()
    hold.set()
    assert outcome_of(await second) == "accept"
    assert server.requests == 1


async def test_with_nothing_known_the_next_try_comes_soon(find: Finder, server: KeyServer, clock: HandClock) -> None:
    server.serve = {"status": 503}
    assert outcome_of(await find("k1")) == "token_keys_unavailable"
    server.serve = {"keys": ["k1"]}
    clock.now = 4
    assert outcome_of(await find("k1")) == "token_keys_unavailable"
    clock.now = 5
    assert outcome_of(await find("k1")) == "accept"


async def test_an_issuer_that_hangs_costs_the_deadline_and_no_more(server: KeyServer, clock: HandClock) -> None:
    server.serve = {"keys": ["k1"], "hold": asyncio.Event()}
    sets = HttpKeySets(schedule=SCHEDULE, deadline_seconds=0.05, seconds=clock)
    found = await asyncio.wait_for(sets.find(KeySource(url=server.url), kid="k1", algorithm="ES256"), 2)
    assert outcome_of(found) == "token_keys_unavailable"
    server.serve["hold"].set()
    await sets.close()


async def test_nobody_listening_is_a_refusal(clock: HandClock) -> None:
    sets = HttpKeySets(schedule=SCHEDULE, seconds=clock)
    found = await sets.find(KeySource(url="http://127.0.0.1:1/jwks"), kid="k1", algorithm="ES256")
    assert isinstance(found, Refusal)
    assert found.reason is Reason.TOKEN_KEYS_UNAVAILABLE
    await sets.close()


@pytest.mark.parametrize(
    ("url", "fetchable"),
    [
        ("https://idp.example/jwks.json", True),
        ("http://127.0.0.1:8080/jwks", True),
        ("http://127.9.9.9/jwks", True),
        ("http://[::1]/jwks", True),
        ("http://localhost/jwks", True),
        ("http://idp.example/jwks.json", False),
        ("http://169.254.169.254/latest", False),
        ("http://localhost.example/jwks", False),
        ("http://0.0.0.0/jwks", False),
        ("https:///jwks", False),
        ("file:///etc/passwd", False),
        ("ftp://idp.example/jwks", False),
        ("", False),
    ],
)
def test_keys_are_fetched_over_https_or_from_loopback_alone(url: str, fetchable: bool) -> None:
    assert is_fetchable(url) is fetchable
    if not fetchable:
        with pytest.raises(ValueError, match="cannot be trusted"):
            GateKeys(url)


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # the condition is the peer's, which knows of no event
            await asyncio.sleep(0.005)
