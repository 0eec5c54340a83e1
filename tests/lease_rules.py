"""What the lease simulation is about: the rules as they are meant to be, or broken on purpose; clocks; what was revoked."""

from __future__ import annotations

from dataclasses import dataclass

from broker.domain.ids import VersionId
from broker.domain.revocation.feed import Point
from broker.domain.revocation.lease import LEASE_SECONDS, receipt_seconds
from broker.domain.revocation.scopes import RevocationScope

VERSION = VersionId("db.query@4")
ACCOUNTS = tuple(RevocationScope(f"account:{number}") for number in range(3))


@dataclass(frozen=True, slots=True)
class Rules:
    """How leases are counted and receipts given; as they are meant to be unless something is broken on purpose."""

    counts_from_sending: bool = True
    binds_lease: bool = True
    receipt_after: float = receipt_seconds(LEASE_SECONDS)
    young_gen: str = "waits from its first replicated write"
    required_replicas: int = 1
    copy_is_new_incarnation: bool = True


@dataclass(slots=True)
class Clock:
    """A process's monotonic clock."""

    offset: float
    rate: float

    def at(self, now: float) -> float:
        return self.offset + self.rate * now


@dataclass(frozen=True, slots=True)
class Credential:
    gen: int
    rseq: int
    account: RevocationScope


@dataclass(slots=True)
class Gone:
    """A receipt says that these are accepted nowhere any more."""

    point: Point
    account: RevocationScope

    def covers(self, one: Credential) -> bool:
        point = self.point
        return one.account == self.account and (one.gen, one.rseq) < (point.gen, point.seq)
