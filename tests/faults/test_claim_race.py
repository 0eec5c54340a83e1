"""Brokers that come to one store at once, each with a log that knows something of its own: in the end all of them know it all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from broker.adapters.auditlog.folder import AuditFolder
from broker.adapters.auditlog.log import SqliteAuditLog
from broker.adapters.redis.store import RedisStore
from broker.adapters.system.clock import SystemClock
from broker.adapters.system.entropy import SystemEntropy
from broker.domain.audit.records import Claimed, Heard
from broker.domain.audit.replay import Replayed
from broker.domain.errors import BrokerError, StoreUnclaimedError, StoreUnknownError
from broker.domain.lifecycle.states import State, record_json
from broker.domain.revocation.feed import Point, Snapshot
from broker.services.incarnation import IncarnationService
from broker.services.knowledge import Knowledge
from broker.services.lifecycle_cache import LifecycleCache

from store_parts import new_tenant, now_gen, version_record

NOW = "2026-12-01T00:00:00.000000Z"


class NoPeers:
    """Nobody is named; `answers` are what is told all the same."""

    def __init__(self, **answers: Replayed | str) -> None:
        self.answers = answers

    async def knowledge(self) -> dict[str, Replayed | str]:
        return self.answers

    async def recorded(self, point: Point) -> dict[str, bool | str]:
        return {}


class Broker:
    """As much of a broker as claims a store."""

    def __init__(self, folder: Path, url: str, tenant: str, *, peers: NoPeers | None = None) -> None:
        self.logs = AuditFolder(folder)
        self.log = SqliteAuditLog.open(self.logs.path(0))
        self.store = RedisStore(url, tenant)
        self.cache = LifecycleCache(self.store)
        self.retired: list[str] = []
        clock, entropy = SystemClock(), SystemEntropy()
        self.knowledge = Knowledge(log=self.log, logs=self.logs, clock=clock, entropy=entropy)
        self.incarnation = IncarnationService(
            fence=self.store,
            feed=self.store.feed,
            log=self.log,
            logs=self.logs,
            knowledge=self.knowledge,
            peers=peers or NoPeers(),
            cache=self.cache,
            clock=clock,
            entropy=entropy,
            retire=self._retire,
        )

    async def _retire(self, event: Snapshot) -> None:
        self.retired += [scope for scope in event.marks if scope.startswith("key:")]

    async def tend(self) -> bool:
        """What a running broker does now and then; whether it is open."""
        try:
            if self.incarnation.is_open:
                await self.incarnation.look()
            await self.incarnation.open()
        except BrokerError:
            return False
        return self.incarnation.is_open

    async def knows(self, number: int, *, gen: int) -> None:
        """Have its log say that it once heard of a version and a revocation of its own."""
        await self.log.append(Claimed(f"c{number}", NOW, gen, 1_000, 0, "run", "first"))
        record = record_json(version_record(str(number), State.CANARY, seq=1_000 + number))
        await self.log.append(
            Heard(f"h{number}", NOW, gen, 1_000 + number, (record,), {f"client:c{number}": 1_000 + number})
        )

    async def close(self) -> None:
        await self.store.close()
        await self.log.close()


@pytest.fixture
async def brokers(tmp_path: Path, store_server: str) -> AsyncIterator[list[Broker]]:
    tenant = new_tenant()
    made = [Broker(tmp_path / str(number), store_server, tenant) for number in range(4)]
    yield made
    for one in made:
        await one.close()


async def agreed(brokers: list[Broker]) -> int:
    """Tend them, all at once, until they speak to one incarnation; its gen."""
    async with asyncio.timeout(20):
        while True:
            are_open = await asyncio.gather(*(one.tend() for one in brokers))
            gens = {one.store.gen for one in brokers}
            if all(are_open) and len(gens) == 1 and (await brokers[0].store.inspect()).gen in gens:
                return gens.pop()


async def test_brokers_that_claim_at_once_agree_on_all_that_any_of_them_knew(brokers: list[Broker]) -> None:
    gen = now_gen() - 60_000
    for number, one in enumerate(brokers):
        await one.knows(number, gen=gen)
    assert await agreed(brokers) > gen
    content = await brokers[0].store.feed.content()
    assert set(content.marks) == {f"client:c{number}" for number in range(4)}
    assert {name.partition("@")[2] for name in content.versions} == {"0", "1", "2", "3"}
    for one in brokers:
        known = (await one.knowledge.own()).state
        assert set(known.marks) == set(content.marks), "each of them can rebuild it alone"
        assert set(known.versions) == set(content.versions)
    claims = [sum(record["type"] == "gen.claim" for _, record in one.log.records()) for one in brokers]
    assert sum(claims) - 4 <= 3 * len(brokers), claims


async def test_a_broker_that_knows_nothing_joins_a_live_store_and_does_not_claim_a_lost_one(
    brokers: list[Broker],
) -> None:
    one, newcomer = brokers[:2]
    await one.knows(7, gen=now_gen() - 60_000)
    gen = await agreed([one])
    assert await newcomer.tend()
    assert newcomer.store.gen == gen
    assert [record["type"] for _, record in newcomer.log.records()] == ["heard"]
    assert set((await newcomer.knowledge.own()).state.versions) == {"db.query@7"}
    assert await newcomer.tend()
    assert newcomer.log.count == 1, "what it knows is not written again"


async def test_a_store_whose_last_claim_nobody_knows_of_is_claimed_once_a_replica_tells_of_it(
    tmp_path: Path, store_server: str
) -> None:
    tenant = new_tenant()
    known = Broker(tmp_path / "known", store_server, tenant)
    await known.knows(7, gen=now_gen() - 60_000)
    gen = await agreed([known])
    control = known.store._session.keys.control
    await known.store._pipeline.call(b"HSET", control, b"rid", b"another")  # as if it were another process by now
    told = (await known.knowledge.own()).state
    stranger = Broker(tmp_path / "stranger", store_server, tenant)
    with pytest.raises(StoreUnknownError, match="--peer"):
        await stranger.incarnation.open()
    waiting = Broker(tmp_path / "waiting", store_server, tenant, peers=NoPeers(a="it is away", b="it is away"))
    with pytest.raises(StoreUnclaimedError, match="majority"):
        await waiting.incarnation.open()
    helped = Broker(tmp_path / "helped", store_server, tenant, peers=NoPeers(a=told, b="it is away"))
    await helped.incarnation.open()
    assert helped.store.gen > gen
    assert set((await helped.store.feed.content()).versions) == {"db.query@7"}
    assert set((await helped.knowledge.own()).state.versions) == {"db.query@7"}, "its own log says so by now"
    for one in (known, stranger, waiting, helped):
        await one.close()


async def test_a_key_that_was_revoked_is_given_up_before_anything_is_signed(brokers: list[Broker]) -> None:
    one, newcomer = brokers[:2]
    await one.log.append(Claimed("c", NOW, now_gen() - 60_000, 1_000, 0, "run", "first"))
    await one.log.append(Heard("h", NOW, now_gen() - 60_000, 1_001, (), {"key:leaked": 1_001}))
    await agreed([one])
    assert one.retired == ["key:leaked"]
    assert await newcomer.tend()
    assert newcomer.retired == ["key:leaked"]
