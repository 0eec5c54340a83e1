"""Receipts handed out: recorded first, never with a key that the revocation kills, and honest about what is not recorded.

The keys, the log and the recorder are real; how the wait goes is written down for each test.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jwt
import pytest
from broker.adapters.auditlog.folder import AuditFolder
from broker.adapters.auditlog.log import SqliteAuditLog
from broker.adapters.keystore.store import FileKeyStore
from broker.adapters.system.clock import SystemClock
from broker.adapters.system.entropy import SystemEntropy
from broker.domain.audit.records import Heard, PolicyNarrowed, Record, Recovered, Revoked, record_json
from broker.domain.errors import AuditUnavailableError, Reason, Refusal, SigningUnavailableError
from broker.domain.revocation.feed import Point
from broker.domain.revocation.lease import Holder, Receipt, receipt
from broker.domain.revocation.scopes import RevocationScope, key_scope
from broker.domain.revocation.statement import Revocation
from broker.services.receipt_statements import Given, ReceiptStatements
from broker.services.recorder import Recorder

POINT = Point(5, 7)
ISSUER = "https://broker.example"
SCOPE = RevocationScope("version:db.query@4")


@dataclass
class Wait:
    """How it stands at the times that were written down, in place of the store and of time."""

    steps: list[Receipt] = field(default_factory=list)
    asked: list[Point] = field(default_factory=list)

    async def progress(self, point: Point) -> AsyncIterator[Receipt]:
        self.asked.append(point)
        for step in self.steps:
            yield step


class NoFence:
    """A store from which nothing need be acknowledged."""

    async def acknowledge(self, gseqs: Any, *, gen: int | None = None) -> None:
        raise AssertionError("nothing was settled")


@dataclass
class Parts:
    keys: FileKeyStore
    log: SqliteAuditLog
    recorder: Recorder
    wait: Wait
    statements: ReceiptStatements

    async def follow(self, revocation: Revocation, *, is_recorded: bool = True) -> list[Receipt | Given]:
        return [step async for step in self.statements.follow(revocation, by="operator", is_recorded=is_recorded)]

    def records(self) -> list[dict[str, Any]]:
        return [dict(record) for _, record in self.log.records()]


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Parts]:
    keys = FileKeyStore.open(tmp_path / "keys")
    folder = AuditFolder(tmp_path / "audit")
    log = SqliteAuditLog.open(folder.path(0))
    recorder = Recorder(log, NoFence())  # type: ignore[arg-type]
    wait = Wait()
    statements = ReceiptStatements(
        issuer=ISSUER,
        receipts=wait,  # type: ignore[arg-type]
        signer=keys,
        recorder=recorder,
        logs=folder,
        clock=SystemClock(),
        entropy=SystemEntropy(),
    )
    yield Parts(keys, log, recorder, wait, statements)
    await log.close()


def standing(elapsed: float, *applied: int) -> Receipt:
    holders = [Holder(f"v{number}", "c", Point(5, seq)) for number, seq in enumerate(applied)]
    return receipt(POINT, holders, elapsed=elapsed, lease_seconds=2.0)


def revocation(*scopes: RevocationScope) -> Revocation:
    return Revocation(POINT, scopes or (SCOPE,), change="c-1", at="2026-12-01T00:00:00Z", by="operator")


def given_of(steps: list[Receipt | Given]) -> Given:
    assert isinstance(steps[-1], Given)
    return steps[-1]


async def test_a_receipt_is_in_the_log_before_it_is_handed_out(parts: Parts) -> None:
    parts.wait.steps = [standing(0.1, 7)]
    async for step in parts.statements.follow(revocation(), by="operator"):
        assert isinstance(step, Given)
        (record,) = parts.records()
        assert (record["type"], record["id"], record["statement"]) == (
            "revocation.receipt",
            step.statement.id,
            step.text,
        )
        assert (record["gen"], record["seq"], record["change"], record["by"]) == (5, 7, "c-1", "operator")


async def test_a_receipt_that_the_log_does_not_take_is_not_handed_out(parts: Parts) -> None:
    parts.wait.steps = [standing(0.1, 7)]
    await parts.log.close()
    steps = []
    with pytest.raises(AuditUnavailableError):
        async for step in parts.statements.follow(revocation(), by="operator"):
            steps.append(step)  # noqa: PERF401  # what was handed out before the failure
    assert steps == []


async def test_nothing_is_signed_before_it_is_complete(parts: Parts) -> None:
    parts.wait.steps = [standing(0.0, 6), standing(1.0, 6), standing(2.039, 6)]
    assert all(isinstance(step, Receipt) for step in await parts.follow(revocation()))
    assert parts.records() == []
    parts.wait.steps.append(standing(2.041, 6))
    statement = given_of(await parts.follow(revocation())).statement
    assert (statement.elapsed_ms, statement.expired_count, statement.acknowledged_count) == (2_040, 1, 0)


async def test_progress_is_told_when_something_changed_and_now_and_then(parts: Parts) -> None:
    parts.wait.steps = [
        standing(0.00, 6, 6),
        standing(0.02, 6, 6),
        standing(0.04, 6, 7),
        standing(0.06, 6, 7),
        standing(0.28, 6, 7),
        standing(0.30, 6, 7),
        standing(0.32, 7, 7),
    ]
    *told, _ = await parts.follow(revocation())
    assert told == [parts.wait.steps[0], parts.wait.steps[2], parts.wait.steps[5]]


async def test_a_revocation_that_is_effective_and_not_recorded_is_said_to_be_so_and_asked_again_it_may_be(
    parts: Parts,
) -> None:
    parts.wait.steps = [standing(0.1, 7)]
    parts.recorder.doubt()
    first = given_of(await parts.follow(revocation(), is_recorded=False))
    assert first.statement.recorded is False
    parts.recorder.resolve(1)
    second = given_of(await parts.follow(revocation(), is_recorded=False))
    assert (second.statement.recorded, second.text != first.text) == (True, True)
    assert given_of(await parts.follow(revocation())).text == second.text
    assert [record["statement"] for record in parts.records()] == [first.text, second.text]


async def test_what_is_in_the_log_is_recorded_whatever_else_is_not(parts: Parts) -> None:
    parts.wait.steps = [standing(0.1, 7)]
    parts.recorder.doubt()
    assert given_of(await parts.follow(revocation())).statement.recorded is True


async def test_a_receipt_for_a_revoked_key_is_signed_with_another(parts: Parts) -> None:
    parts.wait.steps = [standing(0.1, 7)]
    old = parts.keys.kid
    text = given_of(await parts.follow(revocation(key_scope(old)))).text
    new = jwt.get_unverified_header(text)["kid"]
    assert new == parts.keys.kid != old
    published = parts.keys.jwks()["keys"]
    assert isinstance(published, list)
    assert old not in [key["kid"] for key in published if isinstance(key, dict)]


async def test_where_no_other_key_can_be_made_there_is_no_receipt(parts: Parts, tmp_path: Path) -> None:
    parts.wait.steps = [standing(0.1, 7)]
    (tmp_path / "keys").rename(tmp_path / "elsewhere")
    with pytest.raises(SigningUnavailableError):
        await parts.follow(revocation(key_scope(parts.keys.kid)))
    assert parts.records() == []


def a_revoke(seq: int, *scopes: str, gen: int = 5) -> Revoked:
    return Revoked(
        id=f"r{gen}-{seq}", ts="t", gen=gen, gseq=0, seq=seq, revoked=scopes or (SCOPE,), by="operator", reason="why"
    )


async def test_an_earlier_revocation_is_found_by_its_point(parts: Parts) -> None:
    intent = {**record_json(a_revoke(0, "all", gen=0)), "id": "r8"}
    narrowed = PolicyNarrowed(
        id="n9", ts="t", policy="p", gen=5, gseq=1, seq=9, by="ops", records=(), revoked=("policy:sha256:0",)
    )
    known: list[Record] = [
        a_revoke(7, gen=4),
        a_revoke(7),
        Recovered(id="r8", ts="later", gen=5, gseq=1, seq=8, intent=intent),
        narrowed,
        Heard(id="h1", ts="t", gen=5, seq=11, marks={"agent:i|a": 10, "account:i|b": 11, "all": 3}),
    ]
    for record in known:
        await parts.log.append(record)
    find = parts.statements.find
    assert await find(Point(5, 7)) == Revocation(Point(5, 7), (SCOPE,), "r5-7", "t", "operator")
    assert await find(Point(5, 8)) == Revocation(Point(5, 8), (RevocationScope("all"),), "r8", "t", "operator")
    assert await find(Point(5, 9)) == Revocation(Point(5, 9), (RevocationScope("policy:sha256:0"),), "n9", "t", "ops")
    assert await find(Point(5, 10)) == Revocation(Point(5, 10), (RevocationScope("agent:i|a"),))
    for unknown in (Point(5, 6), Point(6, 7), Point(5, 12)):
        refused = await find(unknown)
        assert isinstance(refused, Refusal)
        assert refused.reason is Reason.RECEIPT_UNKNOWN


async def test_the_commands_own_record_counts_before_what_another_heard_of_it(parts: Parts, tmp_path: Path) -> None:
    await parts.log.append(Heard(id="h1", ts="t", gen=5, seq=7, marks={SCOPE: 7}))
    other = SqliteAuditLog.open(AuditFolder(tmp_path / "audit").path(1))
    await other.append(a_revoke(7))
    await other.close()
    found = await parts.statements.find(Point(5, 7))
    assert isinstance(found, Revocation)
    assert (found.change, found.by) == ("r5-7", "operator")
