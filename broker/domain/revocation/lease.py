"""Leases: how long a verifier may go on without hearing anything, and when all have heard of a revocation.

At the verifier, by its own monotonic clock:
1. A lease counts from when its request was *sent*, for the seconds that the answer states.
2. A lease is bound to the point at which it was granted: it may be used once the view has reached that point, in that gen.
3. No lease that may be used: nothing is accepted.

At the broker that gives a receipt for a revocation at seq `s`, by its own monotonic clock, from when the store had acted:
4. A lease that is granted from then on is bound to `s` or later (rule 2). One that was granted before is over
   `receipt_seconds` later, even where both clocks drift by `DRIFT` in opposite directions.
5. So a verifier has *acknowledged* once it reports `s` or later in this gen; after `receipt_seconds` all others have *run out*.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from broker.domain.revocation.feed import Point
from broker.domain.revocation.view import RevocationView

LEASE_SECONDS: Final = 2.0
RENEW_SECONDS: Final = 0.5
WAIT_SECONDS: Final = 0.05
"""How long a verifier waits for the view to reach a credential's `rseq`."""
DRIFT: Final = 0.01


@dataclass(frozen=True, slots=True)
class Lease:
    """What one answer granted. until: by the verifier's monotonic clock, in seconds."""

    point: Point
    until: float


class Leases:
    """A verifier's leases: the one that may be used, and one that may be once the view has reached its point."""

    __slots__ = ("_coming", "_current")

    def __init__(self) -> None:
        self._current: Lease | None = None
        self._coming: Lease | None = None

    def grant(self, point: Point, *, sent_at: float, lease_seconds: float, view: RevocationView) -> None:
        """The answer to a request that was sent at `sent_at`."""
        lease = Lease(point, sent_at + lease_seconds)
        if _may_be_used(lease, view):
            self._use(lease)
        elif self._coming is None or lease.until >= self._coming.until:
            self._coming = lease

    def is_fresh(self, view: RevocationView, *, now: float) -> bool:
        """Whether something may be accepted now."""
        coming = self._coming
        if coming is not None and _may_be_used(coming, view):
            self._coming = None
            self._use(coming)
        current = self._current
        return current is not None and now < current.until and _may_be_used(current, view)

    def _use(self, lease: Lease) -> None:
        """The later one of a gen stays; one that had to wait may have been overtaken."""
        current = self._current
        if current is None or lease.until >= current.until or current.point.gen != lease.point.gen:
            self._current = lease

    def drop(self) -> None:
        """Give up what is held; what is granted from now on counts."""
        self._current = self._coming = None


def _may_be_used(lease: Lease, view: RevocationView) -> bool:
    return not view.is_lost and lease.point.gen == view.gen and lease.point.seq <= view.seq


def receipt_seconds(lease_seconds: float) -> float:
    """How long after the store acted every lease that was granted before is over (rule 4).

    A slow verifier takes `lease_seconds / (1 - DRIFT)` of true time, of which a fast broker counts `1 + DRIFT`.
    """
    return lease_seconds * (1 + DRIFT) / (1 - DRIFT)


@dataclass(frozen=True, slots=True)
class Holder:
    """A verifier that holds or held a lease: its own name for itself, its client, and how far it said it was."""

    verifier: str
    client: str
    applied: Point


@dataclass(frozen=True, slots=True)
class Receipt:
    """Who has applied a revocation, whose leases have run out since, who may still act on what was before.

    point: of the revocation. Verifiers by client and name, in order. seconds_left: at most, until it is complete.
    is_complete: nobody can act on what was before; also nobody who is not in this list.
    """

    point: Point
    acknowledged: tuple[Holder, ...]
    expired: tuple[Holder, ...]
    waiting: tuple[Holder, ...]
    seconds_left: float
    is_complete: bool


def receipt(
    point: Point,
    holders: Iterable[Holder],
    *,
    elapsed: float,
    lease_seconds: float,
    gone: frozenset[str] = frozenset(),
    is_table_whole: bool = True,
) -> Receipt:
    """How a revocation stands `elapsed` seconds after the store acted (rule 5).

    gone: verifiers that have not renewed for as long as a lease can last. is_table_whole: no other verifier can hold a lease.
    """
    known = sorted(holders, key=lambda holder: (holder.client, holder.verifier))
    left = max(0.0, receipt_seconds(lease_seconds) - elapsed)
    over = left <= 0
    acknowledged, expired, waiting = [], [], []
    for holder in known:
        if holder.applied >= point:
            acknowledged.append(holder)
        elif over or holder.verifier in gone:
            expired.append(holder)
        else:
            waiting.append(holder)
    return Receipt(
        point,
        tuple(acknowledged),
        tuple(expired),
        tuple(waiting),
        seconds_left=left,
        is_complete=over or (is_table_whole and not waiting),
    )
