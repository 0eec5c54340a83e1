"""Marks that can no longer matter give way to one on everything: nothing that was dead comes back, nothing else dies."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from broker.adapters.auditlog.log import SqliteAuditLog
from broker.adapters.redis.store import RedisStore
from broker.adapters.system.clock import SystemClock
from broker.adapters.system.entropy import SystemEntropy
from broker.domain.audit.replay import Replayed, living, replay
from broker.domain.lifecycle.states import State
from broker.domain.revocation.feed import Change, Snapshot
from broker.domain.revocation.scopes import EVERYTHING, RevocationScope, key_scope
from broker.domain.revocation.view import RevocationView, Standing, Taken
from broker.ports.store import Inquiry, Issue, Issued, VersionChange
from broker.ports.store import Standing as Stored
from broker.services.compaction import Compaction
from broker.services.recorder import Recorder

from store_parts import StoreProcess, new_jti, new_tenant, valkey_program, version_record

VERSION = version_record("3", State.STABLE)
SCOPES = [RevocationScope(f"account:https%3A%2F%2Fidp.test|a{number}") for number in range(100)]


@pytest.fixture(scope="module")
def server() -> AsyncIterator[StoreProcess]:
    process = StoreProcess(valkey_program(), "--maxmemory-policy", "noeviction").start()
    yield process
    process.remove()


@pytest.fixture
async def store(server: StoreProcess) -> AsyncIterator[RedisStore]:
    store = RedisStore(server.url, new_tenant())
    await store.claim(await store.inspect(), Replayed(gen=5_000, seq=1_000))
    record = version_record("3", State.STABLE, seq=1_001)
    assert await store.change(VersionChange("serve", 1_000, (record,), (), b"{}"))
    yield store
    await store.close()


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[SqliteAuditLog]:
    log = SqliteAuditLog.open(tmp_path / "log.sqlite")
    yield log
    await log.close()


def compaction(store: RedisStore, log: SqliteAuditLog, *, horizon_seconds: int = 0) -> Compaction:
    recorder = Recorder(log, store)
    return Compaction(
        feed=store.feed,
        recorder=recorder,
        clock=SystemClock(),
        entropy=SystemEntropy(),
        horizon_seconds=horizon_seconds,
    )


async def mint(store: RedisStore) -> tuple[str, Issued]:
    jti = new_jti()
    now = (await store.feed.content()).point.seq
    issued = await store.issue(Issue(jti, VERSION.id, now, 2_000_000_000, None, b"{}"))
    assert isinstance(issued, Issued)
    return jti, issued


async def standing(store: RedisStore, minted: tuple[str, Issued], *scopes: RevocationScope) -> Stored:
    jti, issued = minted
    return await store.inquire(Inquiry(jti, issued.gen, issued.rseq, VERSION.id, (EVERYTHING, *scopes)))


async def revoke(store: RedisStore, *scopes: RevocationScope) -> None:
    await store.revoke(scopes, id=new_jti(), intent=b"{}")


async def test_old_marks_give_way_and_what_they_killed_stays_dead(store: RedisStore, log: SqliteAuditLog) -> None:
    work = compaction(store, log)
    killed = await mint(store)
    for scope in SCOPES:
        await revoke(store, scope)
    await revoke(store, key_scope("k1"))
    assert await work.tend() == 0  # the point is noted, and used the next time
    noted = (await store.feed.content()).point.seq
    since = await mint(store)
    await revoke(store, RevocationScope("client:late"))
    assert await work.tend() == noted
    content = await store.feed.content()
    assert content.marks == {
        EVERYTHING: noted,
        key_scope("k1"): 1_102,
        RevocationScope("client:late"): noted + 1,
    }
    assert content.point.seq == noted + 2
    assert await standing(store, killed, SCOPES[0]) is Stored.REVOKED
    assert await standing(store, since, SCOPES[0]) is Stored.ACTIVE, (
        "minted after the point, in no scope of the late mark"
    )
    assert await standing(store, since, RevocationScope("client:late")) is Stored.REVOKED
    (record,) = [record for record in log.control_records() if record["type"] == "marks.compact"]
    assert (record["covered"], record["seq"]) == (noted, noted + 2)
    assert (
        await store.pending() != []
    )  # the revocations of this test are nobody's to record; the compaction is recorded
    replayed = replay([record, {"v": 1, "gen": 5_000, "seq": 1_002, "gseq": 2, "revoked": [SCOPES[0]]}])
    assert living(replayed.marks) == {EVERYTHING: noted}


async def test_a_listener_sees_one_step_that_says_the_same(store: RedisStore, log: SqliteAuditLog) -> None:
    work = compaction(store, log)
    for scope in SCOPES:
        await revoke(store, scope)
    await work.tend()
    content = await store.feed.content()
    view = RevocationView()
    view.take(Snapshot(content.point.gen, content.point.seq, content.marks, {VERSION.id: "stable"}))
    covered = await work.tend()
    (step,) = await store.feed.steps(content.point.seq, wait_seconds=1)
    change = Change(step.point.gen, step.point.seq, step.marks, {}, step.covered)
    assert view.take(change) is Taken.APPLIED
    assert view.marks == {EVERYTHING: covered} == (await store.feed.content()).marks
    facts = {"gen": 5_000, "keys": (), "versions": (VERSION.id,)}
    assert view.judge(**facts, rseq=covered - 1, scopes=lambda: (EVERYTHING, SCOPES[0])) is Standing.REVOKED
    assert view.judge(**facts, rseq=covered, scopes=lambda: (EVERYTHING, SCOPES[0])) is Standing.ALIVE


async def test_nothing_is_done_before_the_point_is_old_enough_or_for_a_few_marks(
    store: RedisStore, log: SqliteAuditLog
) -> None:
    for scope in SCOPES:
        await revoke(store, scope)
    patient = compaction(store, log, horizon_seconds=420)
    assert [await patient.tend() for _ in range(3)] == [0, 0, 0]
    assert len((await store.feed.content()).marks) == len(SCOPES)
    work = compaction(store, log)
    assert await work.tend() > 0
    await revoke(store, SCOPES[0])
    before = (await store.feed.content()).point
    assert [await work.tend() for _ in range(3)] == [0, 0, 0], "a step for a handful of marks is not worth it"
    assert (await store.feed.content()).point == before


async def test_a_clock_that_goes_back_makes_it_begin_anew(
    server: StoreProcess, store: RedisStore, log: SqliteAuditLog
) -> None:
    for scope in SCOPES:
        await revoke(store, scope)
    work = compaction(store, log)
    await work.tend()
    with server.admin() as admin:
        control = store._session.keys.control
        admin.hset(control, "noted_ms", 2**52)  # noted by a clock that was ahead
    assert await work.tend() == 0
    assert await work.tend() > 0
