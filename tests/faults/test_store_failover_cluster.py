"""A cluster of three primaries and three replicas: each tenant in one slot, followed wherever that goes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from broker.adapters.redis.keys import tenant_keys
from broker.adapters.redis.store import RedisStore
from broker.domain.errors import (
    BrokerError,
    Reason,
    Refusal,
    StoreUnavailableError,
    StoreUnclaimedError,
    StoreUnsuitableError,
)
from broker.domain.ids import VersionId
from broker.domain.lifecycle.rollout import Rollback
from broker.domain.lifecycle.states import State
from broker.ports.store import Issued, IssueRefused, Standing
from broker.services.exchange import Granted

from broker_parts import detail, exchange_form
from composed_broker import CANARY, CLIENT, STABLE, command, composed
from store_groups import Cluster, cut_off, slot_of, tenant_in, wait_for
from store_parts import (
    PATIENCE_SECONDS,
    TOOL,
    StoreProcess,
    a_rollback,
    an_inquiry,
    an_issue,
    claim,
    claimed_store,
    listen,
    new_tenant,
    valkey_program,
    version_record,
)

FIRST, SECOND, THIRD = range(5461), range(5461, 10923), range(10923, 16384)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.remove()


@contextlib.asynccontextmanager
async def closing(store: RedisStore) -> AsyncIterator[RedisStore]:
    try:
        yield store
    finally:
        await store.close()


async def until_unclaimed(store: RedisStore) -> None:
    """Mint until the store has moved; meanwhile it may be unavailable, and after that nothing is minted."""
    with pytest.raises(StoreUnclaimedError):
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                with contextlib.suppress(StoreUnavailableError):
                    await store.issue(an_issue())
                await asyncio.sleep(0.002)


async def run_id_seen(store: RedisStore, node: StoreProcess) -> bool:
    with node.admin() as admin:
        return (await store.inspect()).run_id.startswith(admin.info("server")["run_id"])


async def test_each_tenant_is_found_on_the_node_that_holds_its_slot(cluster: Cluster) -> None:
    for slots, node in ((FIRST, 0), (SECOND, 1), (THIRD, 2)):
        tenant = tenant_in(slots)
        async with closing(await claimed_store(cluster.url, tenant)) as store:
            assert isinstance(await store.issue(an_issue()), Issued)
            applied = await store.change(a_rollback(seq=0))
            assert applied is not None
            assert applied.replicas == 1
            assert not [said for said in store.warnings if "replica" in said or "cluster" in said]
            with cluster.nodes[node].admin() as admin:
                assert admin.exists(tenant_keys(tenant).control)


async def test_a_single_node_named_by_its_address_is_told_apart_from_the_cluster(cluster: Cluster) -> None:
    async with closing(RedisStore(cluster.nodes[0].url, tenant_in(SECOND))) as elsewhere:
        with pytest.raises(StoreUnsuitableError, match="name the cluster by cluster://"):
            await elsewhere.inspect()
    async with closing(RedisStore(cluster.nodes[0].url, tenant_in(FIRST))) as here:
        await here.inspect()
        assert [said for said in here.warnings if "one node of a cluster" in said]


async def test_a_server_that_is_no_cluster_is_said_to_be_none() -> None:
    server = StoreProcess(valkey_program()).start()
    try:
        async with closing(RedisStore(f"cluster://127.0.0.1:{listen(server)}", new_tenant())) as store:
            with pytest.raises(StoreUnsuitableError, match="no cluster; name it by redis://"):
                await store.inspect()
    finally:
        server.remove()


async def test_while_the_slot_moves_nothing_is_done_twice_and_then_nothing_before_it_is_claimed(
    cluster: Cluster,
) -> None:
    tenant = tenant_in(FIRST)
    slot, source, target = slot_of(tenant), cluster.nodes[0], cluster.nodes[1]
    async with closing(await claimed_store(cluster.url, tenant)) as store:
        issued: list[Issued] = []
        refusals: list[str] = []
        over = asyncio.Event()

        async def traffic() -> None:
            while not over.is_set():
                try:
                    answer = await store.issue(an_issue())
                except BrokerError as error:
                    refusals.append(f"{type(error).__name__}: {error}")
                    await asyncio.sleep(0.002)
                else:
                    assert isinstance(answer, Issued)
                    issued.append(answer)

        async def after(refusal: str) -> None:
            refusals.clear()
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not any(refusal in said for said in refusals):
                assert time.monotonic() < deadline, set(refusals)
                await asyncio.sleep(0.002)

        callers = [asyncio.create_task(traffic()) for _ in range(4)]
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(issued) < 100:
                await asyncio.sleep(0)
        with target.admin() as admin:
            admin.function_flush()  # a node may lack them, however it came to the slot
        cluster.begin_to_move(slot, source, target)
        await after("StoreUnavailableError: the tenant's slot is moving from one node of the cluster to another")
        cluster.move_keys(slot, source, target)
        await after("StoreUnavailableError: the tenant's slot is moving from one node of the cluster to another")
        before = len(issued)
        cluster.end_move(slot, target)
        await after("StoreUnclaimedError")
        assert len(issued) == before
        over.set()
        await asyncio.gather(*callers)
        assert await run_id_seen(store, target)
        assert sorted(step.gseq for step in await store.pending()) == sorted(answer.gseq for answer in issued)
        await claim(store, version_record("3", State.STABLE))
        assert isinstance(await store.issue(an_issue()), Issued)


async def test_after_a_switch_by_hand_nothing_is_done_on_the_new_primary_before_it_is_claimed(cluster: Cluster) -> None:
    tenant = tenant_in(THIRD)
    async with closing(await claimed_store(cluster.url, tenant)) as store:
        issue = an_issue()
        minted = await store.issue(issue)
        assert isinstance(minted, Issued)
        replica = cluster.replica_of(cluster.holder(tenant))
        with replica.admin() as admin:
            admin.execute_command("CLUSTER", "FAILOVER")
        await until_unclaimed(store)
        assert await run_id_seen(store, replica)
        await claim(store, version_record("3", State.STABLE))
        assert await store.inquire(an_inquiry(issue, minted)) is Standing.REVOKED
        assert isinstance(await store.issue(an_issue()), Issued)


async def test_a_rollback_that_was_lost_with_its_primary_is_replayed_and_other_tenants_notice_nothing(
    cluster: Cluster, tmp_path: Path
) -> None:
    tenant, neighbour = tenant_in(FIRST[1000:]), tenant_in(SECOND)
    primary = cluster.holder(tenant)
    replica = cluster.replica_of(primary)
    async with (
        closing(await claimed_store(cluster.url, neighbour)) as beside,
        composed(tmp_path, store=cluster.url, tenant=tenant) as (parts, _),
    ):
        exchange, introspect = parts.use_cases.exchange.exchange, parts.use_cases.introspection.introspect
        form, stable = (
            exchange_form(
                authorization_details=detail(TOOL, version=version, task="report", arguments={"query": "select 1"})
            )
            for version in (CANARY, STABLE)
        )
        neighbours_gen, minted_beside = beside.gen, 0
        tokens: list[str] = []
        granted_after: list[str] = []
        rolled_back, over = asyncio.Event(), asyncio.Event()

        async def traffic() -> None:
            while not over.is_set():
                late = rolled_back.is_set()
                try:
                    answer = await exchange(CLIENT, form, request_id=parts.entropy.token())
                except BrokerError:
                    await asyncio.sleep(0.01)  # the edge answers 503
                    continue
                if isinstance(answer, Granted):
                    (granted_after if late else tokens).append(answer.access_token)

        async def traffic_beside() -> None:
            nonlocal minted_beside
            while not over.is_set():
                assert isinstance(await beside.issue(an_issue()), Issued)  # within its deadline, or this fails
                minted_beside += 1
                await asyncio.sleep(0.005)

        callers = [asyncio.create_task(traffic()) for _ in range(8)]
        other = asyncio.create_task(traffic_beside())
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(tokens) < 100:
                await asyncio.sleep(0)
        await asyncio.to_thread(cut_off, primary, [replica])
        moved = await command(parts, Rollback(TOOL, CANARY))
        rolled_back.set()
        primary.stop(9)
        replica.thaw()
        with replica.admin() as admin:  # what was acknowledged is not there
            admin.readonly()
            assert admin.hget(tenant_keys(tenant).states, f"{TOOL}@{CANARY}") == b"canary"
        await asyncio.to_thread(wait_for, lambda: cluster.holder(tenant) is replica, "the replica is not promoted")
        primary.start()  # which becomes its replica: without one nothing is minted
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                try:
                    fresh = await exchange(CLIENT, stable, request_id=parts.entropy.token())
                except BrokerError:
                    await asyncio.sleep(0.01)
                else:
                    break
        over.set()
        await asyncio.gather(*callers, other)
        assert isinstance(fresh, Granted)
        assert (await introspect(CLIENT, {"token": fresh.access_token}))["active"] is True
        answer = await exchange(CLIENT, form, request_id=parts.entropy.token())
        assert isinstance(answer, Refusal)
        assert answer.reason is Reason.VERSION_ROLLED_BACK
        assert granted_after == []
        assert parts.cache.view.gen > moved.gen
        assert (await parts.store.view()).versions[VersionId(f"{TOOL}@{CANARY}")].state is State.ROLLED_BACK
        assert await parts.store.issue(an_issue("4", seq=parts.cache.view.seq)) is IssueRefused.NOT_MINTABLE
        assert [token for token in tokens if (await introspect(CLIENT, {"token": token}))["active"]] == []
        assert beside.gen == neighbours_gen
        assert minted_beside > 100
