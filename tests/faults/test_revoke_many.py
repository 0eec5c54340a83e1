"""A rollback is one write, however many credentials it kills. The same with a million: `make bench-revoke`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mass_revocation import Population, ask, measure, populate, ratio
from store_parts import StoreProcess, a_rollback, redis_program, valkey_program

MANY = 20_000
SAMPLE = 500
LIMIT = 3.0
FIXED_KEYS = 3
"""Of a tenant that was never changed: clock, states, versions."""


@pytest.fixture(params=["valkey", "redis"])
def server(request: pytest.FixtureRequest) -> Iterator[StoreProcess]:
    program = valkey_program() if request.param == "valkey" else redis_program()
    if program is None:
        pytest.skip("redis-server is not installed; apt-get install redis-server")
    made = StoreProcess(program, "--appendonly", "yes", "--appendfsync", "always").start()
    yield made
    made.remove()


@pytest.mark.parametrize("server", ["valkey"], indirect=True)
async def test_20_000_live_credentials_are_killed_in_the_time_of_one_and_all_are_refused(server: StoreProcess) -> None:
    one = await populate(server, 1, sampled=1)
    many = await populate(server, MANY, sampled=SAMPLE)
    assert await answers_of(many) == (SAMPLE, SAMPLE, SAMPLE)
    best = float("inf")
    for _ in range(3):  # a busy machine may disturb one of them
        await measure([one, many], rounds=25)
        best = min(best, ratio(one, many))
        if best <= LIMIT:
            break
        put_back(one, many)
    assert best <= LIMIT
    assert await answers_of(one) == (1, 0, 0)
    assert await answers_of(many) == (SAMPLE, 0, 0)


async def answers_of(population: Population) -> tuple[int, int, int]:
    """How many were asked about, are active in the store, are accepted by a verifier."""
    store = await population.connect()
    answers = await ask(population, store)
    await store.close()
    return answers.asked, answers.active, answers.alive


def put_back(*populations: Population) -> None:
    with populations[0].server.admin() as admin:
        for population in populations:
            population.put_back(admin)
            population.seconds.clear()


async def test_a_rollback_runs_the_same_commands_whatever_the_number_of_credentials(server: StoreProcess) -> None:
    ran: list[dict[str, int]] = []
    for count in (1, 2_000):
        population = await populate(server, count, sampled=1)
        store = await population.connect()
        with server.admin() as admin:
            before = calls(admin)
            assert await store.change(a_rollback(seq=0)) is not None
            after = calls(admin)
        ran.append({name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name, 0)})
        await store.close()
    assert ran[0] == ran[1]
    assert ran[0]["hset"] <= 6


def calls(admin: Any) -> dict[str, int]:
    """How often each command ran."""
    stats = admin.info("commandstats").items()
    return {name.removeprefix("cmdstat_"): one["calls"] for name, one in stats if name != "cmdstat_info"}


async def test_there_is_one_key_a_credential_and_no_index_beside(server: StoreProcess) -> None:
    before = 0
    with server.admin() as admin:
        for count in (1, 1_000, 1_000):
            await populate(server, count, sampled=1)
            assert admin.dbsize() - before == count + FIXED_KEYS
            before = admin.dbsize()
