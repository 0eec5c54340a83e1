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
from urllib.parse import unquote

from broker.domain.audit.records import ReceiptGiven
from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.errors import Reason, ReceiptUnavailableError, Refusal
from broker.domain.revocation.feed import Point
from broker.domain.revocation.lease import LEASE_SECONDS, Receipt, receipt_seconds
from broker.domain.revocation.scopes import RevocationScope, is_key_scope, key_scope
from broker.domain.revocation.statement import TYPE, Revocation, Statement, state, statement_claims
from broker.ports.audit import AuditLogs
from broker.ports.keys import Signer
from broker.ports.system import Clock, Entropy
from broker.services.receipts import Receipts
from broker.services.recorder import Recorder

REMEMBERED: Final = 256
HEARING_SECONDS: Final = 0.25
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
        logs: AuditLogs,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        self._issuer = issuer
        self._receipts = receipts
        self._signer = signer
        self._recorder = recorder
        self._logs = logs
        self._clock = clock
        self._entropy = entropy
        self._given: OrderedDict[Point, Given] = OrderedDict()

    def revoked_now(self, point: Point, revoked: tuple[RevocationScope, ...], *, change: str, by: str) -> Revocation:
        """A revocation that was just made here. change: the id of its record."""
        return Revocation(point, revoked, change=change, at=self._clock.timestamp(), by=by)

    async def find(self, point: Point) -> Revocation | Refusal:
        """What was revoked at a point of the clock, as the logs of this broker have it."""
        found = await asyncio.to_thread(self._search, point)
        if found is None:  # it may have been made by another replica just now, and be on its way into the log here
            await asyncio.sleep(HEARING_SECONDS)
            found = await asyncio.to_thread(self._search, point)
        return found or Refusal(
            Reason.RECEIPT_UNKNOWN,
            "no revocation at this gen and seq is in this broker's log; a command that revokes answers with both",
            where="seq",
        )

    def _search(self, point: Point) -> Revocation | None:
        """The record of the command itself, before what other processes heard of it."""
        heard = None
        for history in self._logs.histories():
            for record in history:
                found = _revocation_in(record, point)
                if found is not None and found.change is not None:
                    return found
                heard = found or heard
        return heard

    async def follow(
        self, revocation: Revocation, *, by: str, is_recorded: bool = True
    ) -> AsyncGenerator[Receipt | Given]:
        """How the revocation stands while it waits, whenever that changes, and then the receipt.

        by: who asks. is_recorded: False where it could not be written down, and may be by now.

        Raises what stands in the way: of the store, of the log, `ReceiptUnavailableError`.
        """
        given = self._given.get(revocation.point)
        if given is not None:
            yield given
            return
        told: Receipt | None = None
        async for standing in self._receipts.progress(revocation.point):
            if standing.is_complete:
                yield await self._give(standing, revocation, by=by, is_recorded=is_recorded)
                return
            if told is None or _is_news(standing, told):
                told = standing
                yield standing

    async def _give(self, receipt: Receipt, revocation: Revocation, *, by: str, is_recorded: bool) -> Given:
        for scope in filter(
            is_key_scope, revocation.revoked
        ):  # it is being given up already; this waits for its successor
            await asyncio.to_thread(self._signer.retire, unquote(scope.partition(":")[2]))
        if key_scope(self._signer.kid) in revocation.revoked:
            raise ReceiptUnavailableError("the signing key is the one that was revoked")
        statement = state(
            receipt,
            revocation,
            issuer=self._issuer,
            id=self._entropy.token(),
            issued_at=self._clock.now(),
            recorded=is_recorded or self._recorder.is_recorded,
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


def _revocation_in(record: JsonObject, point: Point) -> Revocation | None:
    """What a control record tells of the revocation at this point, if it does."""
    told = record
    if record.get("type") == "recover":
        intent = record.get("intent")
        if not isinstance(intent, dict):
            return None
        told = {**intent, "gen": record.get("gen"), "seq": record.get("seq")}
    if told.get("gen") != point.gen:
        return None
    revoked, marks = told.get("revoked"), told.get("marks")
    if isinstance(revoked, list) and revoked and told.get("seq") == point.seq:
        change, at, by = told.get("id"), told.get("ts"), told.get("by")
        return Revocation(point, tuple(map(_scope, revoked)), change=str(change), at=_text(at), by=_text(by))
    if isinstance(marks, dict):  # heard of, each mark at its own sequence
        here = tuple(_scope(scope) for scope, seq in marks.items() if seq == point.seq)
        return Revocation(point, here) if here else None
    return None


def _scope(value: JsonValue) -> RevocationScope:
    return RevocationScope(str(value))


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None
