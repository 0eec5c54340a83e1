"""The view: the feed as a fold, and what it says of one credential.

Taking events:
1. Nothing is known before a snapshot. A snapshot replaces all that was known.
2. A snapshot from before what was known once (`floor`, kept over restarts) is not taken: gen and seq never go back.
3. A change is taken if it is of this gen and the very next; one that is known already is passed over.
4. Anything else (a gap, another gen, a heartbeat of a seq that was not reached) makes the view *lost*: nothing is accepted
   until the next snapshot.

Judging a credential, first match counts:
1. the view is lost, or the credential is of a later gen               → unknown: resync
2. it is of an earlier gen                                             → dead
3. its signing key was revoked, whatever `rseq` it claims              → dead
4. it was minted at a seq that the view has not reached                → ahead: wait a moment
5. the **maximum** over the marks of all its scopes is above its rseq  → dead
6. a version that it hangs on is not in a mintable state               → dead; absence of a state is no state
7. otherwise                                                           → alive
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from broker.domain.ids import VersionId
from broker.domain.revocation.feed import Change, Event, Heartbeat, Point, Snapshot
from broker.domain.revocation.scopes import RevocationScope, is_key_scope, is_revoked, stays

MINTABLE: Final = frozenset(
    {"canary", "stable", "deprecated"}
)  # as `lifecycle.states.MINTABLE`, which is a layer above
START: Final = Point(0, 0)


class Taken(StrEnum):
    """What became of an event."""

    APPLIED = "applied"
    REPEATED = "repeated"
    REGRESSED = "regressed"  # the feed went back; not taken, and the view is lost
    GAP = "gap"  # something is missing; the view is lost


class Standing(StrEnum):
    """What the view says of a credential. Only `ALIVE` is yes; `AHEAD` and `UNKNOWN` are not no, but 503."""

    ALIVE = "alive"
    REVOKED = "revoked"
    NOT_SERVED = "not_served"
    OTHER_GEN = "other_gen"
    AHEAD = "ahead"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class RevocationView:
    """What a verifier knows. floor, revoked_kids: what it knew before it was restarted."""

    floor: Point = START
    revoked_kids: set[str] = field(default_factory=set)
    gen: int = 0
    seq: int = 0
    marks: dict[RevocationScope, int] = field(default_factory=dict)
    versions: dict[VersionId, str] = field(default_factory=dict)
    is_lost: bool = True
    _latest: int = 0

    @property
    def point(self) -> Point:
        """How far the view has got; the floor while there is none."""
        return Point(self.gen, self.seq)

    def take(self, event: Event) -> Taken:
        """Fold one event in."""
        match event:
            case Snapshot():
                return self._take_snapshot(event)
            case Change():
                return self._take_change(event)
            case Heartbeat():
                if not self.is_lost and (event.gen, event.seq) == (self.gen, self.seq):
                    return Taken.REPEATED
                return self.lose()

    def lose(self) -> Taken:
        """Something is missing: accept nothing until the next snapshot."""
        self.is_lost = True
        return Taken.GAP

    def _take_snapshot(self, event: Snapshot) -> Taken:
        if Point(event.gen, event.seq) < self.floor:
            self.is_lost = True
            return Taken.REGRESSED
        self.gen, self.seq = event.gen, event.seq
        self.marks, self.versions = dict(event.marks), dict(event.versions)
        self._latest = max(self.marks.values(), default=0)
        self._note(event.marks)
        self.floor = self.point
        self.is_lost = False
        return Taken.APPLIED

    def _take_change(self, event: Change) -> Taken:
        self._note(event.marks)  # a revoked key is revoked, whatever else is missing
        if self.is_lost or event.gen != self.gen:
            return self.lose()
        if event.seq <= self.seq:
            return Taken.REPEATED
        if event.seq != self.seq + 1:
            return self.lose()
        if event.covered:
            self.marks = {scope: seq for scope, seq in self.marks.items() if stays(scope, seq, event.covered)}
        for scope, seq in event.marks.items():
            self.marks[scope] = max(seq, self.marks.get(scope, 0))
        self._latest = max(self._latest, *event.marks.values(), 0)
        self.versions.update(event.versions)
        self.seq = event.seq
        self.floor = self.point
        return Taken.APPLIED

    def _note(self, marks: Iterable[RevocationScope]) -> None:
        self.revoked_kids.update(scope for scope in marks if is_key_scope(scope))

    def judge(
        self,
        *,
        gen: int,
        rseq: int,
        keys: Iterable[RevocationScope],
        versions: Iterable[VersionId],
        scopes: Callable[[], Iterable[RevocationScope]],
    ) -> Standing:
        """What is known of a credential whose signature and claims were verified.

        keys: `key_scope` of every key that it hangs on. versions: every version that it hangs on, its ancestors' too.
        scopes: all its revocation scopes; asked for only where some mark is above `rseq`.
        """
        if self.is_lost or gen > self.gen:
            return Standing.UNKNOWN
        if gen < self.gen:
            return Standing.OTHER_GEN
        if any(key in self.revoked_kids for key in keys):
            return Standing.REVOKED
        if rseq > self.seq:
            return Standing.AHEAD
        if self._latest > rseq and is_revoked(self.marks, scopes(), rseq=rseq):
            return Standing.REVOKED
        states = self.versions
        hangs_on = tuple(versions)
        if not hangs_on or any(states.get(version) not in MINTABLE for version in hangs_on):
            return Standing.NOT_SERVED
        return Standing.ALIVE
