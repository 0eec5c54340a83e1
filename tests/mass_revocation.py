"""The time of a rollback beside the number of credentials that it kills, and what is said of them afterwards.

Two tenants of one server, one with a single live credential and one with very many. After each rollback the keys that hold
clock, states and marks are put back as they were, so that the same credentials live again, and are killed again: what no
function of the store can do is done here from outside, to measure more than once.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import dataclass, field
from typing import Any

from broker.adapters.redis.keys import tenant_keys
from broker.adapters.redis.store import RedisStore
from broker.domain.ids import Version, VersionId
from broker.domain.lifecycle.states import State
from broker.domain.revocation import view as local
from broker.domain.revocation.feed import Snapshot
from broker.domain.revocation.scopes import EVERYTHING, RevocationScope, jti_scope, tool_scope, version_scope
from broker.domain.revocation.view import RevocationView
from broker.ports.store import Inquiry, Standing

from mass_mint import Minting, mint, mint_many
from store_parts import TOOL, StoreProcess, a_rollback, claim, new_tenant, version_record

V4 = VersionId(f"{TOOL}@4")
AT_ONCE = 1000
SCOPES: tuple[RevocationScope, ...] = (EVERYTHING, tool_scope(TOOL), version_scope(TOOL, Version("4")))


@dataclass
class Population:
    """A tenant with live credentials of version 4; `sample` of them are known by name."""

    server: StoreProcess
    tenant: str
    gen: int
    count: int
    sample: list[str]
    seconds: list[float] = field(default_factory=list)
    _as_it_was: dict[bytes, bytes | None] = field(default_factory=dict)

    def inquiry(self, jti: str) -> Inquiry:
        return Inquiry(jti, self.gen, 0, V4, (*SCOPES, jti_scope(jti)))

    def keep(self, admin: Any) -> None:
        """Remember the fixed keys as they are."""
        keys = tenant_keys(self.tenant)
        fixed = (keys.control, keys.states, keys.versions, keys.marks, keys.outbox, keys.feed)
        self._as_it_was = {key: admin.dump(key) for key in fixed}

    def put_back(self, admin: Any) -> None:
        """Everything is as it was kept: the credentials live again."""
        for key, dumped in self._as_it_was.items():
            admin.delete(key)
            if dumped is not None:
                admin.restore(key, 0, dumped)

    async def connect(self) -> RedisStore:
        store = RedisStore(self.server.url, self.tenant, call_seconds=30, queue_limit=50_000)
        await store.adopt(await store.inspect())
        return store


@dataclass(frozen=True, slots=True)
class Answers:
    """Of a sample: how many are active when the store is asked, and alive when a verifier judges by itself."""

    asked: int
    active: int
    alive: int


async def populate(
    server: StoreProcess, count: int, *, sampled: int, processes: int = 0, tenant: str | None = None
) -> Population:
    """A new tenant with `count` live credentials; written from here where there are no further processes."""
    tenant = tenant or new_tenant()
    store = RedisStore(server.url, tenant, call_seconds=30)
    gen = await claim(store, version_record("3", State.STABLE), version_record("4", State.CANARY))
    await store.close()
    minting = Minting(server.url, tenant, V4, gen, 0)
    if processes:
        sample = await asyncio.to_thread(mint_many, minting, count, sampled=sampled, processes=processes)
    else:
        sample = await asyncio.to_thread(mint, minting, count, sampled)
    return Population(server, tenant, gen, count, sample)


async def ask(population: Population, store: RedisStore) -> Answers:
    """What is said of the sample now."""
    active = 0
    for start in range(0, len(population.sample), AT_ONCE):
        some = population.sample[start : start + AT_ONCE]
        standings = await asyncio.gather(*(store.inquire(population.inquiry(jti)) for jti in some))
        active += sum(standing is Standing.ACTIVE for standing in standings)
    content = await store.feed.content()
    view = RevocationView()
    states = {name: record.state.value for name, record in content.versions.items()}
    view.take(Snapshot(content.point.gen, content.point.seq, content.marks, states))
    alive = sum(
        view.judge(
            gen=population.gen,
            rseq=0,
            keys=(),
            versions=(V4,),
            scopes=lambda jti=jti: (*SCOPES, jti_scope(jti)),  # type: ignore[misc]
        )
        is local.Standing.ALIVE
        for jti in population.sample
    )
    return Answers(len(population.sample), active, alive)


async def measure(populations: list[Population], *, rounds: int) -> None:
    """Roll the version back in each, turn by turn, the order changing; the last rollback stays."""
    with populations[0].server.admin() as admin:
        for population in populations:
            population.keep(admin)
        for turn in range(rounds):
            for population in populations if turn % 2 else reversed(populations):
                if turn:
                    population.put_back(admin)
                store = await population.connect()
                lives = await asyncio.gather(
                    *(store.inquire(population.inquiry(jti)) for jti in population.sample[:20])
                )
                if set(lives) != {Standing.ACTIVE}:
                    raise RuntimeError(f"not alive before the rollback: {lives}")
                began = time.perf_counter()
                applied = await store.change(a_rollback(seq=0))
                population.seconds.append(time.perf_counter() - began)
                if applied is None:
                    raise RuntimeError("the rollback found another sequence")
                await store.close()


def ratio(one: Population, many: Population) -> float:
    """How many times as long the rollback takes with very many live credentials: of the medians."""
    return statistics.median(many.seconds) / statistics.median(one.seconds)
