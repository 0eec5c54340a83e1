"""The logs of several workers in one folder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from broker.adapters.auditlog.folder import AuditFolder
from broker.adapters.auditlog.log import SqliteAuditLog
from broker.domain.errors import AuditUnavailableError, StoreUnclaimedError

from audit_parts import open_log, released, revoked


@pytest.fixture
async def logs(tmp_path: Path) -> AsyncIterator[tuple[AuditFolder, list[SqliteAuditLog]]]:
    folder = AuditFolder(tmp_path)
    made = [open_log(folder.path(worker)) for worker in (0, 1, 12)]
    yield folder, made
    for log in made:
        await log.close()


async def test_each_worker_has_a_log_of_its_own_and_all_are_found(
    logs: tuple[AuditFolder, list[SqliteAuditLog]], tmp_path: Path
) -> None:
    folder, made = logs
    for seq, log in enumerate(made):
        await log.append(revoked(f"revoked-{seq}", seq=seq))
        await log.append(released())
    for name in ("log-01.sqlite", "log-2.sqlite.old", "other.sqlite"):
        (tmp_path / name).touch()
    assert folder.logs() == (0, 1, 12)
    assert [[record["seq"] for record in history] for history in folder.histories()] == [[0], [1], [2]]
    assert [(index, record["type"]) for index, record in folder.records(12)] == [(0, "revoke"), (1, "release")]
    assert [index for index, _ in folder.records(1, start=1)] == [1]


async def test_a_log_that_cannot_be_read_is_not_passed_over(tmp_path: Path) -> None:
    folder = AuditFolder(tmp_path)
    folder.path(3).write_bytes(b"something else" * 100)
    with pytest.raises(AuditUnavailableError, match=r"log-3\.sqlite"):
        await asyncio.to_thread(lambda: [list(history) for history in folder.histories()])


async def test_a_log_that_is_just_being_made_is_waited_for(tmp_path: Path) -> None:
    folder = AuditFolder(tmp_path)
    folder.path(1).touch()
    reading = asyncio.ensure_future(asyncio.to_thread(lambda: [list(history) for history in folder.histories()]))
    await asyncio.wait([reading], timeout=0.05)
    assert not reading.done()
    log = open_log(folder.path(1))
    assert await reading == [[]]
    await log.close()


async def test_one_worker_at_a_time_claims(tmp_path: Path) -> None:
    one, other = AuditFolder(tmp_path), AuditFolder(tmp_path, claim_seconds=0.05)
    async with one.claiming():
        with pytest.raises(StoreUnclaimedError, match="another worker"):
            async with other.claiming():
                pytest.fail("two at once")
    async with other.claiming():
        pass


def test_a_replica_keeps_its_name_and_no_two_have_one(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    name = AuditFolder(tmp_path / "a").replica()
    assert len(name) == 32
    assert AuditFolder(tmp_path / "a").replica() == name
    assert AuditFolder(tmp_path / "b").replica() != name
    with pytest.raises(AuditUnavailableError, match="replica"):
        AuditFolder(tmp_path / "nothing").replica()
