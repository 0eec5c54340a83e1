"""A primary that was replaced, copied its successor, and is made the primary again: the same process, another history.

Its run id is the one that was claimed, and so is what it holds: its successor had that from before the revocation. Only that
the process was a replica in between tells that something may be missing.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from broker.adapters.redis.store import RedisStore
from broker.domain.errors import StoreUnclaimedError
from broker.ports.store import Issued, Standing

from store_parts import (
    StoreProcess,
    a_rollback,
    an_inquiry,
    an_issue,
    claimed_store,
    every_step,
    listen,
    new_tenant,
    redis_program,
    until,
    valkey_program,
)


@pytest.fixture(params=["valkey", "redis"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[StoreProcess, StoreProcess]]:
    program = valkey_program() if request.param == "valkey" else redis_program()
    if program is None:
        pytest.skip("redis-server is not installed; apt-get install redis-server")
    made = tuple(StoreProcess(program, "--repl-diskless-sync-delay", "0").start() for _ in range(2))
    yield made[0], made[1]
    for server in made:
        server.remove()


def follow(server: StoreProcess, port: int | None) -> None:
    with server.admin() as admin:
        admin.execute_command("REPLICAOF", *(("NO", "ONE") if port is None else ("127.0.0.1", port)))


def is_in_step(server: StoreProcess) -> bool:
    with server.admin() as admin:
        return bool(admin.info("replication").get("master_link_status") == "up")


async def test_a_primary_that_copied_its_successor_is_not_what_was_claimed(
    pair: tuple[StoreProcess, StoreProcess],
) -> None:
    first, second = pair
    ports = listen(first), listen(second)
    tenant = new_tenant()
    store = await claimed_store(first.url, tenant)
    issue = an_issue("4")
    issued = await store.issue(issue)
    assert isinstance(issued, Issued)
    follow(second, ports[0])
    await until(lambda: is_in_step(second))

    follow(second, None)  # promoted, while the first does not know of it yet
    assert await store.change(a_rollback(seq=0)) is not None
    follow(first, ports[1])
    await until(lambda: is_in_step(first))
    follow(first, None)  # and back, before anybody has claimed the second

    late = RedisStore(first.url, tenant)  # a broker that has not heard of the rollback
    found = await late.inspect()
    assert found.seq == 0, "the rollback is lost here"
    assert not found.is_claimed
    with pytest.raises(StoreUnclaimedError):
        await late.adopt(found)
    for one in (store, late):
        for name, step in every_step(one).items():
            with pytest.raises(StoreUnclaimedError):
                pytest.fail(f"{name} was answered with {await step()!r}")
        await one.close()


async def test_a_primary_that_only_lost_its_replica_is_still_what_was_claimed(
    pair: tuple[StoreProcess, StoreProcess],
) -> None:
    first, second = pair
    port = listen(first)
    store = await claimed_store(first.url, new_tenant())
    issue = an_issue("4")
    issued = await store.issue(issue)
    assert isinstance(issued, Issued)
    follow(second, port)
    await until(lambda: is_in_step(second))
    second.stop()
    assert await store.inquire(an_inquiry(issue, issued)) is Standing.ACTIVE
    assert (await store.inspect()).is_claimed
    await store.close()
