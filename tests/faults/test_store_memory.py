"""Full memory: nothing is minted, everything that takes access away goes through. And no store that evicts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from broker.adapters.redis.store import RedisStore
from broker.domain.errors import StoreFullError, StoreUnsuitableError
from broker.domain.lifecycle.states import State
from broker.domain.revocation.scopes import EVERYTHING
from broker.ports.store import Issued, Standing

from store_parts import (
    StoreProcess,
    a_rollback,
    an_assertion,
    an_inquiry,
    an_issue,
    claim,
    claimed_store,
    new_jti,
    new_tenant,
    redis_program,
    valkey_program,
    version_record,
)


@pytest.fixture(params=["valkey", "redis"])
def server(request: pytest.FixtureRequest) -> Iterator[StoreProcess]:
    program = valkey_program() if request.param == "valkey" else redis_program()
    if program is None:
        pytest.skip("redis-server is not installed; apt-get install redis-server")
    made = StoreProcess(program).start()
    yield made
    made.remove()


async def test_with_full_memory_minting_fails_and_every_other_step_works(server: StoreProcess) -> None:
    store = await claimed_store(server.url, new_tenant())
    issue = an_issue("4", uses=3)
    answer = await store.issue(issue)
    other = an_issue("3")
    await store.issue(other)
    assert isinstance(answer, Issued)
    with server.admin() as admin:
        admin.config_set("maxmemory", 1)
    with pytest.raises(StoreFullError):
        await store.issue(an_issue())
    assert await store.take(an_assertion()) is True
    assert await store.inquire(an_inquiry(issue, answer, use="a", assertion=an_assertion())) is Standing.ACTIVE
    assert await store.release(other.jti) is True
    assert (await store.view()).seq == 0
    assert await store.change(a_rollback(seq=0)) is not None
    assert await store.inquire(an_inquiry(issue, answer)) is Standing.REVOKED
    assert (await store.revoke((EVERYTHING,), id=new_jti(), intent=b"{}")).seq == 2
    assert len(await store.pending()) == 4
    await store.acknowledge([1, 2, 3])
    assert [step.gseq for step in await store.pending()] == [4]
    await claim(store, version_record("3", State.STABLE))
    with server.admin() as admin:
        admin.config_set("maxmemory", 0)
    assert isinstance(await store.issue(an_issue()), Issued)
    await store.close()


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl", "allkeys-random", "volatile-lfu"])
async def test_a_store_that_evicts_is_refused_at_start_and_the_mend_is_named(server: StoreProcess, policy: str) -> None:
    with server.admin() as admin:
        admin.config_set("maxmemory-policy", policy)
    store = RedisStore(server.url, new_tenant())
    with pytest.raises(StoreUnsuitableError, match=f"{policy}.*noeviction"):
        await store.inspect()
    await store.close()


async def test_no_revocation_has_a_time_to_live_and_whatever_may_be_forgotten_has_one(server: StoreProcess) -> None:
    store = await claimed_store(server.url, new_tenant())
    await store.issue(an_issue(assertion=an_assertion()))
    await store.change(a_rollback(seq=0))
    await store.revoke((EVERYTHING,), id=new_jti(), intent=b"{}")
    with server.admin() as admin:
        lives = {bytes(key).partition(b"}")[2][:4]: admin.ttl(key) for key in admin.scan_iter()}
    assert {name for name, seconds in lives.items() if seconds == -1} == {
        b":ctl",
        b":st",
        b":ver",
        b":rev",
        b":out",
        b":fee",
    }
    assert {name[:2] if name[:1] == b":" else name[:1] for name, seconds in lives.items() if seconds > 0} == {
        b":a",
        b":i",
        b"c",
    }
    await store.close()


async def test_a_live_credential_takes_at_most_200_bytes(server: StoreProcess) -> None:
    store = await claimed_store(server.url, "default", call_seconds=30)
    count = 20_000

    async def mint(many: int) -> None:
        audited: list[int] = []
        for _ in range(many):
            answer = await store.issue(an_issue(seconds=300, audited=audited))
            assert isinstance(answer, Issued)
            audited = [answer.gseq]

    with server.admin() as admin:
        before = admin.info("memory")["used_memory"]
        await asyncio.gather(*(mint(count // 50) for _ in range(50)))
        after = admin.info("memory")["used_memory"]
        assert admin.dbsize() >= count
    assert (after - before) / count <= 200
    await store.close()
