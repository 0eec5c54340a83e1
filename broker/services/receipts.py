"""Receipts: who has heard of a revocation, and when nobody can act on what was before it any more (`domain/revocation/lease.py`).

1. Time counts from when this process first knew of the revocation, by its monotonic clock: later than the store acted, never
   earlier.
2. A verifier whose row has stayed the same for as long as a lease can last holds none, whatever it has applied.
3. Until replicas have acknowledged a write of this gen, a primary of the gen before may go on granting leases, since one of them
   may still follow it. So time counts from that write at the earliest; and for as long as a lease can last from then on, who
   holds a lease of the gen before may not be in the table of verifiers, so a receipt waits out its time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from broker.domain.errors import StoreUnavailableError
from broker.domain.revocation.feed import Point
from broker.domain.revocation.lease import LEASE_SECONDS, Receipt, receipt, receipt_seconds
from broker.ports.feed import HolderRow, LeaseStore
from broker.services.following import Following

LOOK_SECONDS: Final = 0.02
HEAR_SECONDS: Final = 1.0
FORGET_SECONDS: Final = 60.0


class Receipts:
    """One for a process. `observe` is to be called every few seconds."""

    def __init__(
        self, *, following: Following, leases: LeaseStore, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._following = following
        self._leases = leases
        self._monotonic = monotonic
        self._rows: dict[str, tuple[bytes, float]] = {}

    async def progress(self, point: Point) -> AsyncIterator[Receipt]:
        """How the revocation at a point of the present gen stands, again and again until it is complete.

        Raises `StoreUnavailableError` where this process does not hear of it, or of the verifiers.
        """
        acted_at = await self._acted_at(point)
        while True:
            found = await self.standing(point, acted_at=acted_at)
            yield found
            if found.is_complete:
                return
            await asyncio.sleep(LOOK_SECONDS)

    async def standing(self, point: Point, *, acted_at: float) -> Receipt:
        """How it stands now. acted_at: by the monotonic clock, when the store had acted, or later."""
        rows = await self._look()
        now = self._monotonic()
        proved_since = self._following.gen_proved_since()
        if proved_since is None:
            proved_since = now
        return receipt(
            point,
            [row.holder for row in rows],
            elapsed=now - max(acted_at, proved_since),
            lease_seconds=LEASE_SECONDS,
            gone=frozenset(row.holder.verifier for row in rows if self._same_for(row, now) >= self._longest),
            is_table_whole=now - proved_since >= self._longest,
        )

    async def observe(self) -> None:
        """Notice which verifiers have stopped renewing; let go of those that did long ago."""
        rows = await self._look()
        now = self._monotonic()
        await self._leases.forget([row for row in rows if self._same_for(row, now) >= FORGET_SECONDS])

    @property
    def _longest(self) -> float:
        return receipt_seconds(LEASE_SECONDS)

    async def _acted_at(self, point: Point) -> float:
        deadline = self._monotonic() + HEAR_SECONDS
        while (reached := self._following.reached_at(point)) is None:
            if self._monotonic() >= deadline:
                raise StoreUnavailableError("this broker has not heard of that revocation from its store")
            await asyncio.sleep(LOOK_SECONDS)
        return reached

    async def _look(self) -> Sequence[HolderRow]:
        rows = await self._leases.holders()
        now = self._monotonic()
        before = self._rows
        self._rows = {row.holder.verifier: (row.row, now) for row in rows}
        for verifier, (row, since) in before.items():
            if verifier in self._rows and self._rows[verifier][0] == row:
                self._rows[verifier] = (row, since)
        return rows

    def _same_for(self, row: HolderRow, now: float) -> float:
        kept = self._rows.get(row.holder.verifier)
        return now - kept[1] if kept is not None and kept[0] == row.row else 0.0
