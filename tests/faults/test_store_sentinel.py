"""A primary with two replicas, watched by three sentinels: found, followed, and never trusted before it is claimed."""

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
from broker.domain.ids import Version, VersionId
from broker.domain.lifecycle.rollout import Rollback
from broker.domain.lifecycle.states import State
from broker.domain.revocation.scopes import version_scope
from broker.ports.store import Issued, IssueRefused, Standing
from broker.services.exchange import Granted

from broker_parts import BrokerProcess, PolicyTree, detail, exchange_form, unverified_claims
from composed_broker import CANARY, CLIENT, STABLE, command, composed
from store_groups import SentinelGroup, cut_off, wait_for
from store_parts import (
    PATIENCE_SECONDS,
    TOOL,
    a_rollback,
    an_inquiry,
    an_issue,
    claim,
    claimed_store,
    new_tenant,
    version_record,
)

BEAT = b"store_beat_1"
V4 = version_scope(TOOL, Version("4"))


@pytest.fixture(scope="module")
def group() -> Iterator[SentinelGroup]:
    made = SentinelGroup()
    yield made
    made.remove()


@pytest.fixture
def fresh_group() -> Iterator[SentinelGroup]:
    """One that is not still busy with what another test did to it."""
    made = SentinelGroup()
    yield made
    made.remove()


@contextlib.asynccontextmanager
async def closing(store: RedisStore) -> AsyncIterator[RedisStore]:
    try:
        yield store
    finally:
        await store.close()


async def beat(store: RedisStore) -> object:
    return await store.replicated.step(BEAT, (store._session.keys.control,))


async def test_the_primary_is_found_and_a_revocation_says_how_many_replicas_have_it(group: SentinelGroup) -> None:
    async with closing(await claimed_store(group.url, new_tenant())) as store:
        assert not [said for said in store.warnings if "replica" in said]
        assert isinstance(await store.issue(an_issue()), Issued)
        await beat(store)
        applied = await store.change(a_rollback(seq=0))
        assert applied is not None
        assert applied.replicas in (1, 2)


async def test_a_name_that_no_sentinel_watches_is_said_to_be_wrong(group: SentinelGroup) -> None:
    async with closing(RedisStore(group.url.replace("/brokers", "/another"), new_tenant())) as store:
        with pytest.raises(StoreUnsuitableError, match="no primary named another"):
            await store.inspect()


async def test_a_sentinel_that_does_not_answer_is_outvoted(group: SentinelGroup) -> None:
    group.sentinels[0].freeze()
    try:
        async with closing(RedisStore(group.url, new_tenant())) as store:
            await store.inspect()
    finally:
        group.sentinels[0].thaw()


async def test_without_any_sentinel_the_store_is_unavailable_within_the_deadline() -> None:
    async with closing(RedisStore("sentinel://127.0.0.1:1,127.0.0.1:2/brokers", new_tenant())) as store:
        began = time.monotonic()
        with pytest.raises(StoreUnavailableError, match="none of the sentinels answers"):
            await store.inspect()
        assert time.monotonic() - began < 1.5


async def test_what_too_few_replicas_have_counts_for_nothing_and_a_revocation_acts_all_the_same(
    group: SentinelGroup,
) -> None:
    primary = group.primary
    async with closing(await claimed_store(group.url, new_tenant())) as store:
        issue = an_issue("4")
        minted = await store.issue(issue)
        assert isinstance(minted, Issued)
        await beat(store)
        for replica in group.others(primary):
            replica.freeze()
        try:
            with pytest.raises(StoreUnavailableError, match="0 replicas, fewer than the 1 required"):
                await beat(store)
            began = time.monotonic()
            applied = await store.change(a_rollback(seq=0))
            assert time.monotonic() - began < 1.0
            assert applied is not None
            assert applied.replicas == 0
            assert await store.inquire(an_inquiry(issue, minted)) is Standing.REVOKED
        finally:
            for replica in group.others(primary):
                replica.thaw()
        await beat(store)


def test_a_broker_process_follows_a_switch_by_hand_and_claims_the_new_primary(
    group: SentinelGroup, tmp_path: Path
) -> None:
    old = group.primary
    url = tmp_path / "store_url"
    url.write_text(group.url)
    policies = PolicyTree(tmp_path / "policies", tenant=new_tenant())
    broker = BrokerProcess(tmp_path / "broker", "--store-file", str(url), policies=policies)
    try:
        broker.start()
        broker.wire.serve("ticket.edit@1")
        token = broker.wire.mint()["access_token"]
        assert broker.wire.is_active(token)
        gen = unverified_claims(token)["gen"]
        with group.sentinels[0].admin() as admin:
            wait_for(lambda: admin.execute_command("SENTINEL", "FAILOVER", "brokers"), "no replica is good enough")
        answers: list[int] = []
        fresh: list[str] = []

        def mints_again() -> bool:
            answer = broker.wire.exchange()
            answers.append(answer.status_code)
            if answer.status_code == 200:
                fresh.append(answer.json()["access_token"])
            return bool(fresh) and unverified_claims(fresh[-1])["gen"] > gen

        wait_for(mints_again, "the broker does not claim the new primary")
        group.wait_for_another_primary(old)
        assert set(answers) <= {200, 503}
        assert not broker.wire.is_active(token)
        assert broker.wire.is_active(fresh[-1])
        rolled_back = broker.wire.admin("POST", "/versions/ticket.edit/1/rollback", body={"force": True}).json()
        assert rolled_back["replicas"] in (0, 1, 2)  # some may still be copying the new primary
        assert not broker.wire.is_active(fresh[-1])
        assert group.secret not in broker.said()
    finally:
        broker.remove()


async def test_a_primary_that_was_replaced_and_does_not_know_it_keeps_nobody(group: SentinelGroup) -> None:
    old = group.primary
    async with closing(await claimed_store(group.url, new_tenant())) as store:
        issue = an_issue("4")
        minted = await store.issue(issue)
        assert isinstance(minted, Issued)
        await beat(store)
        with old.admin() as admin:
            # to sentinels and replicas it is gone, to those who are connected it is as ever
            admin.config_set("port", 0)
            for user in ("sentinel", "replica"):
                admin.execute_command("CLIENT", "KILL", "USER", user)
            new = await asyncio.to_thread(group.wait_for_another_primary, old)
            async with closing(RedisStore(group.url, store._session.keys.control[5:-5].decode())) as elsewhere:
                await claim(elsewhere, version_record("4", State.ROLLED_BACK, seq=1), seq=1, marks={V4: 1})
            with pytest.raises((StoreUnavailableError, StoreUnclaimedError)):
                await beat(store)
            with pytest.raises(StoreUnclaimedError):
                async with asyncio.timeout(PATIENCE_SECONDS):
                    while True:
                        with contextlib.suppress(StoreUnavailableError):
                            await store.inquire(an_inquiry(issue, minted))
                            await asyncio.sleep(0.002)
            assert admin.info("replication")["role"] == "master"
            admin.config_set("port", group.port_of(old))
        with new.admin() as admin:
            found = await store.inspect()
            assert found.run_id.startswith(admin.info("server")["run_id"])
        await store.adopt(found)
        assert await store.inquire(an_inquiry(issue, minted)) is Standing.REVOKED
        assert await store.issue(an_issue("4", seq=1)) is IssueRefused.NOT_MINTABLE


def test_none_of_them_needed_a_right_that_the_shipped_users_do_not_have(group: SentinelGroup) -> None:
    denied = []
    for server in (*group.nodes, *group.sentinels):
        with server.admin() as admin:
            denied += [(entry["username"], entry["object"]) for entry in admin.acl_log()]
    # the broker may see how often the store syncs, and may do without
    assert set(denied) <= {("broker", "config|get")}


async def test_a_rollback_that_was_acknowledged_and_lost_in_a_failover_is_replayed_by_the_broker(
    fresh_group: SentinelGroup, tmp_path: Path
) -> None:
    tenant = new_tenant()
    group, primary = fresh_group, fresh_group.nodes[0]
    async with composed(tmp_path, store=group.url, tenant=tenant) as (parts, _):
        exchange, introspect = parts.use_cases.exchange.exchange, parts.use_cases.introspection.introspect
        form, stable = (
            exchange_form(
                authorization_details=detail(TOOL, version=version, task="report", arguments={"query": "select 1"})
            )
            for version in (CANARY, STABLE)
        )
        tokens: list[str] = []
        granted_after: list[str] = []
        rolled_back = asyncio.Event()
        over = asyncio.Event()

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

        callers = [asyncio.create_task(traffic()) for _ in range(8)]
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(tokens) < 100:
                await asyncio.sleep(0)
        replicas = group.others(primary)
        await asyncio.to_thread(cut_off, primary, replicas)
        moved = await command(parts, Rollback(TOOL, CANARY))
        rolled_back.set()
        primary.stop(9)
        for replica in replicas:
            replica.thaw()
            with replica.admin() as admin:  # what was acknowledged is not there
                assert admin.hget(tenant_keys(tenant).states, f"{TOOL}@{CANARY}") in (b"canary", None)
        await asyncio.to_thread(group.wait_for_another_primary, primary)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                try:
                    fresh = await exchange(CLIENT, stable, request_id=parts.entropy.token())
                except BrokerError:
                    await asyncio.sleep(0.01)
                else:
                    break
        over.set()
        await asyncio.gather(*callers)
        assert isinstance(fresh, Granted)
        assert (await introspect(CLIENT, {"token": fresh.access_token}))["active"] is True
        answer = await exchange(CLIENT, form, request_id=parts.entropy.token())
        assert isinstance(answer, Refusal)
        assert answer.reason is Reason.VERSION_ROLLED_BACK
        assert granted_after == []
        assert parts.cache.view.gen > moved.gen
        assert parts.cache.view.seq > moved.seq
        assert (await parts.store.view()).versions[VersionId(f"{TOOL}@{CANARY}")].state is State.ROLLED_BACK
        assert await parts.store.issue(an_issue("4", seq=parts.cache.view.seq)) is IssueRefused.NOT_MINTABLE
        active = [token for token in tokens if (await introspect(CLIENT, {"token": token}))["active"]]
        assert active == []
