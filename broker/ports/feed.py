"""Following the store: every step of the logical clock in order, and who has heard of it (DESIGN §5).

Beside what every store port promises (`ports/store.py`):

1. A step is told once it has acted, in the order of `seq`, one by one; what is missing can be seen by its `seq`.
2. When `beat`, `renew` return, the write behind them stands in as many replicas as are required. Otherwise they raise
   `StoreUnavailableError`: then this store may be one that nobody else listens to any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from broker.domain.ids import VersionId
from broker.domain.lifecycle.states import VersionRecord
from broker.domain.revocation.feed import Point
from broker.domain.revocation.lease import Holder
from broker.domain.revocation.scopes import RevocationScope
from broker.ports.store import Applied, Assertion


@dataclass(frozen=True, slots=True)
class Content:
    """What the store holds as of one point: all versions and all marks."""

    point: Point
    versions: Mapping[VersionId, VersionRecord]
    marks: Mapping[RevocationScope, int]


@dataclass(frozen=True, slots=True)
class Step:
    """One step. id: its idempotency id. covered: marks up to here are void. whole: read everything, it does not fit here."""

    point: Point
    id: str
    versions: Mapping[VersionId, VersionRecord] = field(default_factory=dict)
    marks: Mapping[RevocationScope, int] = field(default_factory=dict)
    covered: int = 0
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Renewal:
    """A verifier asks for a lease. verifier: its own name for itself, 16 to 64 characters of A-Z, a-z, 0-9, `_`, `-`."""

    verifier: str
    client: str
    applied: Point
    assertion: Assertion | None = None


class RenewRefused(StrEnum):
    """Why a lease was not granted; nothing was written."""

    ASSERTION_REPLAYED = "assertion_replayed"
    VERIFIER_TAKEN = "verifier_taken"  # another client has a verifier of this name


@dataclass(frozen=True, slots=True)
class HolderRow:
    """A verifier as the store keeps it. row: its bytes, which are others after each renewal."""

    holder: Holder
    row: bytes


class StoreFeed(Protocol):
    """What the store has to tell."""

    async def content(self) -> Content:
        """Everything, as of one point."""
        ...

    async def steps(self, after: int, *, wait_seconds: float) -> Sequence[Step]:
        """The steps after a sequence as far as they are kept; waits for one that long, and then gives none."""
        ...

    async def beat(self) -> Point:
        """Write, replicated; the point at which the store is."""
        ...

    async def compact(self, *, id: str, intent: bytes, horizon_seconds: int) -> tuple[Applied, int] | None:  # noqa: A002
        """Put one mark on everything in the place of those that can no longer matter; up to which sequence. None: too early."""
        ...

    async def sweep(self) -> int:
        """Take away the marks that the one on everything covers; how many."""
        ...


class LeaseStore(Protocol):
    """Who verifies, and how far each has got."""

    async def renew(self, renewal: Renewal) -> Point | RenewRefused:
        """Note how far a verifier is; the point that its lease is bound to. One that says it is further than the store counts as
        one that is nowhere."""
        ...

    async def holders(self) -> Sequence[HolderRow]:
        """All verifiers that are kept."""
        ...

    async def forget(self, rows: Sequence[HolderRow]) -> int:
        """Let go of those that have not renewed since; how many."""
        ...
