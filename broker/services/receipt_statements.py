"""Receipts handed out: what the leases prove about a revocation, signed, and written down before anybody gets it.

1. The wait: how a revocation stands, until no verifier can accept any more what it killed (`receipts.py` says when).
2. Then the statement is signed, under a `typ` of its own, and recorded; only a recorded one is handed out.
3. It says whether the revocation itself was recorded by then.
4. It is never signed with a key that the revocation itself kills: nobody could rely on it.
5. A later question about the same revocation gets the same statement, while this process remembers it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final

from broker.domain.audit.records import ReceiptGiven
from broker.domain.canonical import JsonObject
from broker.domain.errors import Reason, ReceiptUnavailableError, Refusal
from broker.domain.revocation.feed import Point
from broker.domain.revocation.lease import LEASE_SECONDS, Receipt, receipt_seconds
from broker.domain.revocation.scopes import RevocationScope, key_scope
from broker.domain.revocation.statement import TYPE, Revocation, Statement, state, statement_claims
from broker.ports.audit import AuditLog
from broker.ports.keys import Signer
from broker.ports.system import Clock, Entropy
from broker.services.receipts import Receipts
from broker.services.recorder import Recorder

REMEMBERED: Final = 256
TOLD_SECONDS: Final = 0.25
"""How often a wait says that it goes on while nothing changes."""


@dataclass(frozen=True, slots=True)
class Given:
    """A receipt that may be handed out. text: the signed statement."""

    statement: Statement
    text: str


class ReceiptStatements:
    """The use case; one for a process."""

    def __init__(
        self,
        *,
        issuer: str,
        receipts: Receipts,
        signer: Signer,
        recorder: Recorder,
        log: AuditLog,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        self._issuer = issuer
        self._receipts = receipts
        self._signer = signer
        self._recorder = recorder
        self._log = log
        self._clock = clock
        self._entropy = entropy
        self._given: OrderedDict[Point, Given] = OrderedDict()

    def revoked_now(self, point: Point, revoked: tuple[RevocationScope, ...], *, change: str, by: str) -> Revocation:
        """A revocation that was just made here. change: the id of its record."""
        return Revocation(point, revoked, change=change, at=self._clock.timestamp(), by=by)

    async def find(self, point: Point) -> Revocation | Refusal:
        """What was revoked at a point of the clock, as the log has it."""
        found = await asyncio.to_thread(self._search, point)
        return found or Refusal(
            Reason.RECEIPT_UNKNOWN,
            "no revocation at this gen and seq is in this broker's log; a command that revokes answers with both",
            where="seq",
        )

    def _search(self, point: Point) -> Revocation | None:
        for record in self._log.control_records():
            found = _revocation_in(record)
            if found is not None and found.point == point:
                return found
        return None

    async def follow(self, revocation: Revocation, *, by: str) -> AsyncGenerator[Receipt | Given]:
        """How the revocation stands while it waits, whenever that changes, and then the receipt. by: who asks.

        Raises what stands in the way: of the store, of the log, `ReceiptUnavailableError`.
        """
        given = self._given.get(revocation.point)
        if given is not None:
            yield given
            return
        told: Receipt | None = None
        async for standing in self._receipts.progress(revocation.point):
            if standing.is_complete:
                yield await self._give(standing, revocation, by=by)
                return
            if told is None or _is_news(standing, told):
                told = standing
                yield standing

    async def _give(self, receipt: Receipt, revocation: Revocation, *, by: str) -> Given:
        if key_scope(self._signer.kid) in revocation.revoked:
            raise ReceiptUnavailableError("the only signing key is the one that was revoked")
        statement = state(
            receipt,
            revocation,
            issuer=self._issuer,
            id=self._entropy.token(),
            issued_at=self._clock.now(),
            recorded=self._recorder.is_recorded,
            lease_ms=round(LEASE_SECONDS * 1_000),
            elapsed_ms=int((receipt_seconds(LEASE_SECONDS) - receipt.seconds_left) * 1_000),
        )
        given = Given(statement, self._signer.sign_as(TYPE, statement_claims(statement)))
        await self._recorder.append(
            ReceiptGiven(
                id=statement.id,
                ts=self._clock.timestamp(),
                gen=revocation.point.gen,
                seq=revocation.point.seq,
                revoked=tuple(revocation.revoked),
                change=revocation.change,
                by=by,
                acknowledged=statement.acknowledged_count,
                expired=statement.expired_count,
                statement=given.text,
            )
        )
        self._remember(given)
        return given

    def _remember(self, given: Given) -> None:
        if not given.statement.recorded:
            return  # asked again, it may be recorded by then, and the statement says so
        self._given[given.statement.revocation.point] = given
        while len(self._given) > REMEMBERED:
            self._given.popitem(last=False)


def _is_news(standing: Receipt, told: Receipt) -> bool:
    if told.seconds_left - standing.seconds_left >= TOLD_SECONDS:
        return True
    return _counts(standing) != _counts(told)


def _counts(receipt: Receipt) -> tuple[int, int, int]:
    return len(receipt.acknowledged), len(receipt.expired), len(receipt.waiting)


def _revocation_in(record: JsonObject) -> Revocation | None:
    """The revocation that a control record tells of, if it does."""
    told = record
    if record.get("type") == "recover":
        intent = record.get("intent")
        if not isinstance(intent, dict):
            return None
        told = {**intent, **{name: record.get(name) for name in ("gen", "seq")}}
    gen, seq = told.get("gen"), told.get("seq")
    if not isinstance(gen, int) or not isinstance(seq, int):
        return None
    revoked = _scopes(told, seq)
    if not revoked:
        return None
    change, at, by = told.get("id"), told.get("ts"), told.get("by")
    own = told.get("type") != "heard"
    return Revocation(
        Point(gen, seq),
        revoked,
        change=change if own and isinstance(change, str) else None,
        at=at if own and isinstance(at, str) else None,
        by=by if isinstance(by, str) else None,
    )


def _scopes(told: JsonObject, seq: int) -> tuple[RevocationScope, ...]:
    revoked, marks = told.get("revoked"), told.get("marks")
    if isinstance(revoked, list):
        return tuple(RevocationScope(scope) for scope in revoked if isinstance(scope, str))
    if isinstance(marks, dict):  # another broker's step: the marks that it put at this very sequence
        return tuple(RevocationScope(scope) for scope, mark in marks.items() if mark == seq)
    return ()
