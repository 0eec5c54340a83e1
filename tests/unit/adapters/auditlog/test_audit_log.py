"""The audit log on a disk that works."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest
from broker.adapters.auditlog.encode import MAX_RECORD_BYTES, encode_record
from broker.adapters.auditlog.log import SqliteAuditLog
from broker.domain.audit.records import Call, Minted, ReceiptGiven, ToolCallStarted, VersionChanged, record_json
from broker.domain.errors import AuditUnavailableError, ConfigurationError

from audit_parts import denied, open_log, released, revoked


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit" / "log.db"


@pytest.fixture
async def log(path: Path) -> AsyncIterator[SqliteAuditLog]:
    made = open_log(path)
    yield made
    await made.close()


async def test_indexes_are_dense_from_0_and_records_come_back_as_they_were(log: SqliteAuditLog) -> None:
    records = [released() for _ in range(1_200)]
    assert [await log.append(record) for record in records[:3]] == [0, 1, 2]
    assert sorted(await asyncio.gather(*map(log.append, records[3:]))) == list(range(3, 1_200))
    read = list(log.records())
    assert [index for index, _ in read] == list(range(1_200))
    assert read[0][1] == record_json(records[0])
    assert {record["id"] for _, record in read} == {record.id for record in records}
    assert [index for index, _ in log.records(start=1_198)] == [1_198, 1_199]
    assert log.count == 1_200


async def test_what_was_appended_is_there_after_a_restart(log: SqliteAuditLog, path: Path) -> None:
    await log.append(released("a"))
    await log.close()
    again = open_log(path)
    assert again.count == 1
    assert await again.append(released("b")) == 1
    assert [record["id"] for _, record in again.records()] == ["a", "b"]
    await again.close()


async def test_one_id_is_stored_once_within_a_batch_and_across_batches(log: SqliteAuditLog) -> None:
    first = released("same")
    assert await asyncio.gather(*(log.append(first) for _ in range(20))) == [0] * 20
    assert await log.append(released("other")) == 1
    mixed = await asyncio.gather(log.append(released("third")), log.append(first), log.append(released("fourth")))
    assert mixed == [2, 0, 3]
    assert [record["id"] for _, record in log.records()] == ["same", "other", "third", "fourth"]


async def test_a_replay_reads_the_control_records_alone_and_in_order(log: SqliteAuditLog) -> None:
    for number in range(3):
        await log.append(released())
        await log.append(revoked(f"v{number}", seq=number))
    assert [record["seq"] for record in log.control_records()] == [0, 1, 2]


async def test_records_are_read_while_others_are_written(log: SqliteAuditLog) -> None:
    await asyncio.gather(*(log.append(released()) for _ in range(600)))
    reader = log.records()
    assert next(reader)[0] == 0
    await asyncio.gather(*(log.append(released()) for _ in range(600)))
    assert [index for index, _ in reader] == list(range(1, 1_200))


async def test_files_are_private(log: SqliteAuditLog, path: Path) -> None:
    await log.append(released())
    assert {entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in path.parent.iterdir()} == {
        "log.db": 0o600,
        "log.db-wal": 0o600,
        "log.db-shm": 0o600,
        "log.db.lock": 0o600,
    }
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_every_commit_is_synced(log: SqliteAuditLog, path: Path) -> None:
    with_pragma = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    assert with_pragma.pragma("journal_mode") == "wal"
    with_pragma.close()
    connection = log._database._connection  # type: ignore[union-attr]  # the promise hangs on this setting
    assert connection.pragma("synchronous") == 2


async def test_a_closed_log_refuses(log: SqliteAuditLog) -> None:
    await log.append(released())
    await log.close()
    assert not log.is_healthy()
    with pytest.raises(AuditUnavailableError, match="closed"):
        await log.append(released())


async def test_closing_writes_what_is_queued(log: SqliteAuditLog, path: Path) -> None:
    tasks = [asyncio.create_task(log.append(released())) for _ in range(50)]
    await asyncio.sleep(0)
    await log.close()
    assert sorted(await asyncio.gather(*tasks)) == list(range(50))


async def test_a_second_opening_of_the_same_file_is_refused(log: SqliteAuditLog, path: Path) -> None:
    with pytest.raises(ConfigurationError, match="in use by another process"):
        open_log(path)
    await log.append(released())


def _open_elsewhere(path: Path, answers: multiprocessing.Queue[str]) -> None:
    try:
        open_log(path)
        answers.put("opened")
    except ConfigurationError as error:
        answers.put(str(error))


async def test_a_second_process_is_refused(log: SqliteAuditLog, path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    answers: multiprocessing.Queue[str] = context.Queue()
    other = context.Process(target=_open_elsewhere, args=(path, answers))
    other.start()
    assert "in use by another process" in await asyncio.to_thread(answers.get, timeout=30)
    await asyncio.to_thread(other.join)


async def test_a_forked_child_is_refused(log: SqliteAuditLog) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            log._refuse_where_hopeless()  # what `append` does first; the child has no event loop to run it in
            os.write(writing, b"accepted")
        except AuditUnavailableError as error:
            os.write(writing, b"healthy" if log.is_healthy() else str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)  # noqa: ASYNC222  # the child only writes and exits
    assert os.read(reading, 100) == b"the audit log belongs to the parent process"
    os.close(reading)
    os.close(writing)
    assert await log.append(released()) == 0


def _in_a_file(folder: Path) -> Path:
    (folder / "file").write_text("")
    return folder / "file" / "log.db"


def _garbage(folder: Path) -> Path:
    (folder / "log.db").write_bytes(b"not a database, but long enough to be looked at" * 100)
    return folder / "log.db"


def _of_another_program(folder: Path) -> Path:
    connection = apsw.Connection(str(folder / "log.db"))
    connection.execute("CREATE TABLE notes (text TEXT)")
    connection.close()
    return folder / "log.db"


def _of_a_later_format(folder: Path) -> Path:
    asyncio.run(open_log(folder / "log.db").close())
    connection = apsw.Connection(str(folder / "log.db"))
    connection.pragma("user_version", 2)
    connection.close()
    return folder / "log.db"


@pytest.mark.parametrize(
    "place",
    [_in_a_file, _garbage, _of_another_program, _of_a_later_format, lambda _: Path("/proc/mayfly/log.db")],
    ids=["below a file", "garbage", "another program's", "a later format", "where nothing can be made"],
)
def test_a_place_that_cannot_hold_the_log_stops_the_start(tmp_path: Path, place: object) -> None:
    path = place(tmp_path)  # type: ignore[operator]
    with pytest.raises(ConfigurationError, match=r"the audit log .*log\.db cannot be used"):
        open_log(path)


def test_a_record_is_sorted_compact_json_of_one_line() -> None:
    call = Call(tool="t", arguments={"/ü": "hk1:00"}, absent={"task": "not asked"})
    data = encode_record(ToolCallStarted("i", "ts", call)).bytes
    text = json.dumps(json.loads(data), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert data == text.encode()


@pytest.mark.parametrize("text", ["\ud800", "\x00", "é€😀", '"\\'])
async def test_any_text_can_be_recorded(log: SqliteAuditLog, text: str) -> None:
    await log.append(denied("d", why=text))
    ((_, record),) = log.records()
    assert record["why"] == text


async def test_a_long_text_is_cut_and_the_record_says_so(log: SqliteAuditLog) -> None:
    await log.append(denied("d", why="x" * 100_000))
    ((_, record),) = log.records()
    assert record["why"] == "x" * 256 + "…"
    assert record["truncated"] is True
    assert record["tool"] == "t"
    assert record["id"] == "d"


async def test_a_record_that_stays_too_large_is_refused_and_harms_nobody(log: SqliteAuditLog) -> None:
    call = Call(arguments={f"/{n}": "hk1:" + "0" * 32 for n in range(500)})
    with pytest.raises(AuditUnavailableError, match=f"at most {MAX_RECORD_BYTES}"):
        await log.append(ToolCallStarted("big", "ts", call))
    assert await log.append(released()) == 0
    assert log.is_healthy()


async def test_a_signed_receipt_is_never_cut(log: SqliteAuditLog) -> None:
    def receipt(size: int) -> ReceiptGiven:
        return ReceiptGiven(
            id=f"r{size}",
            ts="ts",
            gen=1,
            seq=2,
            revoked=("all",),
            change=None,
            by="operator",
            acknowledged=1,
            expired=0,
            statement="x" * size,
        )

    await log.append(receipt(60_000))
    ((_, record),) = log.records()
    assert record["statement"] == "x" * 60_000
    assert "truncated" not in record
    with pytest.raises(AuditUnavailableError, match="at most 65535"):
        await log.append(receipt(66_000))


async def test_a_contract_in_a_control_record_is_never_cut(log: SqliteAuditLog) -> None:
    def published(size: int) -> VersionChanged:
        return VersionChanged(
            id=f"p{size}",
            ts="ts",
            command="publish",
            tool="t",
            version="1",
            gen=1,
            gseq=1,
            seq=1,
            by="b",
            records=(),
            contract_members={"name": "t", "description": "x" * size},
        )

    await log.append(published(50_000))
    (record,) = log.control_records()
    assert record["contract_members"] == {"name": "t", "description": "x" * 50_000}
    with pytest.raises(AuditUnavailableError, match="cannot be stored"):
        await log.append(published(70_000))


async def test_a_mint_record_holds_all_its_facts(log: SqliteAuditLog) -> None:
    call = Call(tool="t", version="1", protocol_version="2026-07-28", agent="a", account="b")
    minted = Minted(
        id="m",
        ts="ts",
        call=call,
        gen=1,
        gseq=2,
        rseq=0,
        scopes=("s:r", "s:w"),
        audience="https://a.example",
        expires_at=9,
        kid="k",
        policy="sha256:0",
        rule="t@1#x",
    )
    await log.append(minted)
    ((_, record),) = log.records()
    assert record["scopes"] == ["s:r", "s:w"]
    assert {"tool", "version", "protocol_version", "agent", "account", "ts", "gen", "gseq", "rseq"} <= record.keys()
