"""Restart, flush, restore, failover: nothing is done on another incarnation before it is claimed and replayed."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from broker.adapters.redis.store import RedisStore
from broker.domain.errors import StoreUnavailableError, StoreUnclaimedError
from broker.domain.ids import Version
from broker.domain.lifecycle.states import State
from broker.domain.revocation.scopes import EVERYTHING, version_scope
from broker.ports.store import Issue, Issued, IssueRefused, Standing

from store_parts import (
    TOOL,
    StoreProcess,
    a_rollback,
    an_inquiry,
    an_issue,
    claim,
    claimed_store,
    every_step,
    listen,
    new_jti,
    new_tenant,
    redis_program,
    valkey_program,
    version_record,
)

V4 = version_scope(TOOL, Version("4"))
AOF = ("--appendonly", "yes", "--appendfsync", "always")


@pytest.fixture(params=["valkey", "redis"])
def program(request: pytest.FixtureRequest) -> str:
    found = valkey_program() if request.param == "valkey" else redis_program()
    if found is None:
        pytest.skip("redis-server is not installed; apt-get install redis-server")
    return found


@pytest.fixture
def server(program: str) -> Iterator[StoreProcess]:
    made = StoreProcess(program, *AOF).start()
    yield made
    made.remove()


@pytest.fixture
async def kept(server: StoreProcess) -> AsyncIterator[RedisStore]:
    made = await claimed_store(server.url, new_tenant())
    yield made
    await made.close()


async def minted(store: RedisStore, version: str, *, seq: int = 0) -> tuple[Issue, Issued]:
    issue = an_issue(version, seq=seq)
    answer = await store.issue(issue)
    assert isinstance(answer, Issued)
    return issue, answer


async def assert_nothing_is_done(store: RedisStore) -> None:
    for name, step in every_step(store).items():
        with pytest.raises(StoreUnclaimedError):
            pytest.fail(f"{name} was answered with {await step()!r}")


async def assert_it_works_once_claimed(store: RedisStore, old: tuple[Issue, Issued]) -> None:
    """As a broker does: claim anew, with what its audit log says, which has 4 rolled back at sequence 1."""
    found = await store.inspect()
    assert not found.is_claimed
    with pytest.raises(StoreUnclaimedError):
        await store.adopt(found)
    await claim(
        store, version_record("3", State.STABLE), version_record("4", State.ROLLED_BACK, seq=1), seq=1, marks={V4: 1}
    )
    assert await store.inquire(an_inquiry(*old)) in (Standing.REVOKED, Standing.ABSENT)
    assert await store.issue(an_issue("4", seq=1)) is IssueRefused.NOT_MINTABLE
    assert await store.marks() == {V4: 1}
    fresh = await minted(store, "3", seq=1)
    assert await store.inquire(an_inquiry(*fresh)) is Standing.ACTIVE


async def test_after_a_restart_nothing_is_done_until_it_is_claimed(server: StoreProcess, kept: RedisStore) -> None:
    old = await minted(kept, "4")
    await kept.change(a_rollback(seq=0))
    server.stop()
    server.start()
    await assert_nothing_is_done(kept)
    await assert_it_works_once_claimed(kept, old)


async def test_a_killed_server_has_kept_every_step_that_it_answered(server: StoreProcess, kept: RedisStore) -> None:
    steps = [await minted(kept, "3") for _ in range(20)]
    server.stop(9)
    server.start()
    found = await kept.inspect()
    assert (found.gen, found.gseq) == (kept.gen, len(steps))
    await claim(kept, version_record("3", State.STABLE))
    assert [step.gseq for step in await kept.pending()] == [issued.gseq for _, issued in steps]


async def test_after_flushall_nothing_is_done_until_it_is_claimed(server: StoreProcess, kept: RedisStore) -> None:
    old = await minted(kept, "4")
    await kept.change(a_rollback(seq=0))
    with server.admin() as admin:
        admin.flushall()
    await assert_nothing_is_done(kept)
    await assert_it_works_once_claimed(kept, old)


async def test_after_function_flush_nothing_is_done_until_it_is_claimed(server: StoreProcess, kept: RedisStore) -> None:
    old = await minted(kept, "4")
    await kept.change(a_rollback(seq=0))
    with server.admin() as admin:
        admin.function_flush()
    await assert_nothing_is_done(kept)
    await assert_it_works_once_claimed(kept, old)


@pytest.mark.parametrize("kind", ["append-only file", "snapshot"])
async def test_what_was_rolled_back_stays_so_after_an_older_copy_was_restored(program: str, kind: str) -> None:
    server = StoreProcess(program, *(AOF if kind == "append-only file" else ())).start()
    store = await claimed_store(server.url, new_tenant())
    old = await minted(store, "4")
    with server.admin() as admin:
        if kind == "snapshot":
            admin.save()
    server.stop()
    copy = server.folder.with_name(server.folder.name + "-copy")
    shutil.copytree(server.folder, copy, ignore=_sockets)
    server.start()
    await claim(store, version_record("3", State.STABLE), version_record("4", State.CANARY))
    late = await minted(store, "4")
    await store.change(a_rollback(seq=0))
    server.stop()
    shutil.rmtree(server.folder)
    copy.rename(server.folder)
    server.start()
    with server.admin() as admin:
        assert b"canary" in [value for key in admin.scan_iter(b"*:st") for value in admin.hvals(key)]
    await assert_nothing_is_done(store)
    await assert_it_works_once_claimed(store, old)
    assert await store.inquire(an_inquiry(*late)) is Standing.ABSENT
    await store.close()
    server.remove()


def _sockets(folder: str, names: list[str]) -> set[str]:
    return {name for name in names if (Path(folder) / name).is_socket()}


async def test_a_promoted_replica_that_missed_a_rollback_does_nothing(program: str) -> None:
    primary = StoreProcess(program, "--repl-diskless-sync-delay", "0").start()
    replica = StoreProcess(program).start()
    port = listen(primary)
    on_primary = await claimed_store(primary.url, new_tenant())
    tenant = on_primary._session.keys.control[5:-5].decode()
    old = await minted(on_primary, "4")
    with replica.admin() as admin:
        admin.execute_command("REPLICAOF", "127.0.0.1", port)
        while admin.info("replication")["master_link_status"] != "up" or not admin.exists(f"{{brk:{tenant}}}:ctl"):
            pass
        admin.execute_command("REPLICAOF", "NO", "ONE")
    await on_primary.change(a_rollback(seq=0))  # acknowledged by a primary that nobody follows any more
    on_replica = RedisStore(replica.url, tenant)
    before = await on_primary.inspect()
    await on_replica.adopt(before)  # the broker of before, whose address now leads to the promoted one
    await assert_nothing_is_done(on_replica)
    await assert_it_works_once_claimed(on_replica, old)
    for store in (on_primary, on_replica):
        await store.close()
    primary.remove()
    replica.remove()


async def test_a_demoted_primary_is_unavailable_and_not_trusted(program: str) -> None:
    server, other = StoreProcess(program).start(), StoreProcess(program).start()
    store = await claimed_store(server.url, new_tenant())
    port = listen(other)
    with server.admin() as admin:
        admin.execute_command("REPLICAOF", "127.0.0.1", port)
    with pytest.raises((StoreUnavailableError, StoreUnclaimedError)):
        await store.issue(an_issue())
    with pytest.raises((StoreUnavailableError, StoreUnclaimedError)):
        await store.revoke((EVERYTHING,), id=new_jti(), intent=b"{}")
    await store.close()
    server.remove()
    other.remove()


async def test_a_store_that_lost_revocations_under_the_same_process_is_not_trusted(
    server: StoreProcess, kept: RedisStore
) -> None:
    await kept.change(a_rollback(seq=0))
    with server.admin() as admin:
        (control,) = admin.scan_iter(b"*:ctl")
        admin.hset(control, "seq", 0)
    await assert_nothing_is_done(kept)
