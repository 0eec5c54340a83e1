"""The audit log on a disk that does not work, and in a process that is killed.

| fault                                  | then                                                                   |
|----------------------------------------|------------------------------------------------------------------------|
| sync fails, bytes went out             | refused; never synced again as it was; a repeat stores the record once  |
| disk full                              | refused; goes on by itself when there is room                           |
| disk hangs                             | refused at the deadline; the queue fills and refuses at once            |
| file removed, renamed, replaced        | refused until the file is back                                          |
| process killed                         | what was acknowledged is there                                          |
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import apsw
import pytest
from broker.adapters.auditlog.log import SqliteAuditLog
from broker.domain.errors import AuditUnavailableError

from audit_parts import FaultyDisk, open_log, released

_names = (f"faulty-{n}" for n in itertools.count())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    made = FaultyDisk(next(_names))
    yield made
    made.fail = None
    made.held.set()


@pytest.fixture
async def log(path: Path, disk: FaultyDisk) -> AsyncIterator[SqliteAuditLog]:
    made = open_log(path, vfs=disk.vfs_name, queue_limit=64)
    await made.append(released("before"))
    yield made
    disk.fail = None
    disk.held.set()
    await made.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # what is waited for happens in a thread
            await asyncio.sleep(0.005)


def content_of(path: Path) -> bytes:
    return path.read_bytes()


def ids(log: SqliteAuditLog) -> list[object]:
    return [record["id"] for _, record in log.records()]


@pytest.mark.parametrize("fault", ["sync", "write"])
async def test_a_failing_disk_refuses_and_the_log_goes_on_when_it_works_again(
    log: SqliteAuditLog, disk: FaultyDisk, fault: str
) -> None:
    disk.fail = fault
    outcomes = await asyncio.gather(*(log.append(released(f"lost-{n}")) for n in range(10)), return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {AuditUnavailableError}
    assert disk.failed > 0
    assert not log.is_healthy()
    disk.fail = None
    await until(log.is_healthy)
    for n in range(10):
        await log.append(released(f"lost-{n}"))
    await log.append(released("after"))
    assert sorted(map(str, ids(log))) == sorted(["before", "after", *(f"lost-{n}" for n in range(10))])
    assert [index for index, _ in log.records()] == list(range(12))


async def test_after_a_failed_sync_the_file_is_opened_anew_and_folded(
    log: SqliteAuditLog, disk: FaultyDisk, path: Path
) -> None:
    before = log._database
    disk.fail = "sync"
    with pytest.raises(AuditUnavailableError):
        await log.append(released("unknown"))
    disk.fail = None
    await until(log.is_healthy)
    assert log._database is not before
    # Nothing old is left in the write-ahead log that could hide a page which never reached the disk.
    copy = path.with_name("main-file-alone.db")
    shutil.copy(path, copy)
    connection = apsw.Connection(str(copy), flags=apsw.SQLITE_OPEN_READWRITE)
    assert connection.execute("SELECT id FROM record WHERE id = 'before'").fetchall() == [("before",)]
    connection.close()


async def test_a_log_that_failed_says_so_once_and_again_when_it_works(
    log: SqliteAuditLog, disk: FaultyDisk, caplog: pytest.LogCaptureFixture
) -> None:
    disk.fail = "write"
    for _ in range(3):
        with pytest.raises(AuditUnavailableError):
            await log.append(released())
    disk.fail = None
    await until(log.is_healthy)
    assert [record.levelname for record in caplog.records if record.name == "broker.audit"] == ["ERROR", "WARNING"]


async def test_a_disk_that_hangs_costs_the_deadline_then_the_queue_refuses_at_once(
    path: Path, disk: FaultyDisk
) -> None:
    log = open_log(path, vfs=disk.vfs_name, deadline_seconds=0.2, queue_limit=8)
    disk.held.clear()
    began = time.monotonic()
    late = await asyncio.gather(*(log.append(released(f"late-{n}")) for n in range(8)), return_exceptions=True)
    assert {str(outcome) for outcome in late} == {"not on disk within 0.2 s"}
    assert time.monotonic() - began < 2
    with pytest.raises(AuditUnavailableError, match="queue is full"):
        await log.append(released())
    assert not log.is_healthy()
    disk.held.set()
    await until(log.is_healthy)
    await log.append(released("after"))
    assert ids(log) == [*(f"late-{n}" for n in range(8)), "after"]
    await log.close()


async def test_a_caller_that_goes_away_does_not_stop_its_record(log: SqliteAuditLog, disk: FaultyDisk) -> None:
    disk.held.clear()
    caller = asyncio.create_task(log.append(released("orphan")))
    await asyncio.sleep(0)
    caller.cancel()
    disk.held.set()
    await log.append(released("next"))
    assert ids(log) == ["before", "orphan", "next"]


@pytest.mark.parametrize("name", ["log.db", "log.db-wal"])
async def test_a_removed_file_is_noticed_and_nothing_is_acknowledged(path: Path, name: str) -> None:
    log = open_log(path)
    await log.append(released())
    os.unlink(path.with_name(name))
    assert not log.is_healthy()
    with pytest.raises(AuditUnavailableError):
        await log.append(released())
    assert os.path.exists(path) is (name != "log.db")  # noqa: ASYNC240
    await log.close()


async def test_a_renamed_file_is_refused_until_it_is_back(path: Path) -> None:
    log = open_log(path)
    await log.append(released("a"))
    elsewhere = path.with_name("elsewhere.db")
    os.rename(path, elsewhere)
    with pytest.raises(AuditUnavailableError):
        await log.append(released("b"))
    os.rename(elsewhere, path)
    await until(log.is_healthy)
    assert await log.append(released("b")) == 1
    await log.close()


async def test_a_file_put_in_its_place_is_not_taken_for_the_log(path: Path, tmp_path: Path) -> None:
    other = open_log(tmp_path / "other" / "log.db")
    await other.append(released())
    await other.close()
    log = open_log(path)
    await log.append(released("a"))
    os.replace(tmp_path / "other" / "log.db", path)
    with pytest.raises(AuditUnavailableError):
        await log.append(released("b"))
    assert not log.is_healthy()
    await log.close()


async def test_a_file_put_in_its_place_during_a_fault_is_not_taken_for_the_log(
    log: SqliteAuditLog, disk: FaultyDisk, path: Path
) -> None:
    other = open_log(path.with_name("other.db"))
    await other.close()
    disk.fail = "write"
    with pytest.raises(AuditUnavailableError):
        await log.append(released())
    os.replace(path.with_name("other.db"), path)
    put_there = content_of(path)
    disk.fail = None
    for _ in range(2):
        with pytest.raises(AuditUnavailableError):
            await log.append(released("lost"))
    assert not log.is_healthy()
    assert content_of(path) == put_there


_CHILD = """
import asyncio, sys
from pathlib import Path
from broker.adapters.auditlog.log import SqliteAuditLog
from broker.domain.audit.records import Released

async def main(path, cycle):
    log = SqliteAuditLog.open(Path(path))
    async def write(worker):
        for n in range(1_000_000):
            name = f"{cycle}-{worker}-{n}"
            index = await log.append(Released(name, "ts", client="c", jti="j"))
            sys.stdout.write(f"{name} {index}\\n")
            sys.stdout.flush()
    await asyncio.gather(*(write(worker) for worker in range(64)))

asyncio.run(main(*sys.argv[1:]))
"""


def test_what_was_acknowledged_survives_sigkill_again_and_again(path: Path) -> None:
    acknowledged: dict[str, int] = {}
    for cycle in range(4):
        child = subprocess.Popen(
            [sys.executable, "-c", _CHILD, str(path), str(cycle)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        for line in itertools.islice(child.stdout, 500 + 700 * cycle):
            name, index = line.split()
            acknowledged[name] = int(index)
        child.send_signal(signal.SIGKILL)
        rest = child.stdout.read().splitlines()
        acknowledged.update((line.split()[0], int(line.split()[1])) for line in rest if len(line.split()) == 2)
        child.wait()
        child.stdout.close()
    log = open_log(path)
    stored = {str(record["id"]): index for index, record in log.records()}
    asyncio.run(log.close())
    assert len(acknowledged) > 4_000
    assert acknowledged.items() <= stored.items()
    assert sorted(stored.values()) == list(range(len(stored)))
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    assert connection.pragma("integrity_check") == "ok"
    connection.close()


_FULL_CHILD = """
import asyncio, resource, signal, sys
from pathlib import Path
from broker.adapters.auditlog.log import SqliteAuditLog
from broker.domain.audit.records import Released
from broker.domain.errors import AuditUnavailableError

async def main(path):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    log = SqliteAuditLog.open(Path(path))
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
    stored = []
    try:
        for n in range(100_000):
            await log.append(Released(f"r{n}", "ts", client="c" * 500, jti="j"))
            stored.append(n)
    except AuditUnavailableError:
        pass
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    while not log.is_healthy():
        await asyncio.sleep(0.01)
    await log.append(Released("after", "ts", client="c", jti="j"))
    present = [record["id"] for _, record in log.records()]
    assert present[: len(stored)] == [f"r{n}" for n in stored], "an acknowledged record is missing"
    assert present[-1] == "after" and len(present) - len(stored) in (1, 2)
    assert len(stored) > 10
    await log.close()
    print("held")

asyncio.run(main(sys.argv[1]))
"""


def test_a_disk_that_is_really_full_loses_nothing_and_recovers(path: Path) -> None:
    child = subprocess.run(
        [sys.executable, "-c", _FULL_CHILD, str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (child.stdout.strip(), child.returncode) == ("held", 0), child.stderr
