"""However the feed is cut, repeated, reordered or joined from two gens, a view never accepts what the whole feed refuses.

The true fold is a model of its own: for each point of the clock, the marks and the states that every step up to it put in place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

from broker.domain.ids import VersionId
from broker.domain.revocation.feed import Change, Event, Heartbeat, Point, Snapshot, parse_event, spell_event
from broker.domain.revocation.lease import Leases
from broker.domain.revocation.scopes import EVERYTHING, RevocationScope, key_scope
from broker.domain.revocation.view import MINTABLE, RevocationView, Standing, Taken
from hypothesis import given, settings
from hypothesis import strategies as st

VERSIONS = [VersionId("t@1"), VersionId("t@2")]
KEYS = [key_scope("k1"), key_scope("k2")]
SCOPES = [EVERYTHING, RevocationScope("tool:t"), RevocationScope("agent:i|a"), *KEYS]
STATES = ["published", "canary", "stable", "deprecated", "rolled_back", "retired"]


@dataclass(frozen=True)
class Truth:
    """Everything as of one point, whatever a verifier has heard of it."""

    marks: dict[RevocationScope, int]
    versions: dict[VersionId, str]


@dataclass
class History:
    """What happened in truth, in some gens."""

    at: dict[Point, Truth] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)

    def snapshot(self, point: Point) -> Snapshot:
        truth = self.at[point]
        return Snapshot(point.gen, point.seq, truth.marks, truth.versions)


@st.composite
def histories(draw: st.DrawFn) -> History:
    history = History()
    marks: dict[RevocationScope, int] = {}
    versions = dict.fromkeys(VERSIONS, "stable")
    seq = 0
    for gen in range(1, draw(st.integers(1, 3)) + 1):
        seq += draw(st.integers(0, 2))  # a claim may leave a gap
        history.at[Point(gen, seq)] = Truth(dict(marks), dict(versions))
        for _ in range(draw(st.integers(1, 8))):
            seq += 1
            kind = draw(st.sampled_from(["mark", "version", "both", "cover"]))
            new_marks = {draw(st.sampled_from(SCOPES)): seq} if kind in ("mark", "both") else {}
            changed = (
                {draw(st.sampled_from(VERSIONS)): draw(st.sampled_from(STATES))} if kind in ("version", "both") else {}
            )
            covered = draw(st.integers(1, seq)) if kind == "cover" else 0
            if covered:
                new_marks = {EVERYTHING: covered}
                kept = {scope: at for scope, at in marks.items() if at > covered or scope in (EVERYTHING, *KEYS)}
                marks = {**kept, EVERYTHING: max(covered, marks.get(EVERYTHING, 0))}
            else:
                marks = {**marks, **new_marks}
            versions = {**versions, **changed}
            history.changes.append(Change(gen, seq, new_marks, changed, covered))
            history.at[Point(gen, seq)] = Truth(dict(marks), dict(versions))
    return history


@st.composite
def hearings(draw: st.DrawFn) -> tuple[History, list[Event]]:
    """A history, and what some verifier hears of it: any events, in any order, as often as it pleases."""
    history = draw(histories())
    events: list[Event] = []
    for _ in range(draw(st.integers(1, 25))):
        match draw(st.sampled_from(["change", "run", "run", "snapshot", "heartbeat"])):
            case "change":
                events.append(draw(st.sampled_from(history.changes)))
            case "run":
                begin = draw(st.integers(0, len(history.changes) - 1))
                events += history.changes[begin : begin + draw(st.integers(1, 6))]
            case "snapshot":
                events.append(history.snapshot(draw(st.sampled_from(sorted(history.at)))))
            case _:
                point = draw(st.sampled_from(sorted(history.at)))
                events.append(Heartbeat(point.gen, point.seq))
    return history, events


def is_alive(truth: Truth, *, rseq: int, scope: RevocationScope, version: VersionId) -> bool:
    if scope in KEYS and scope in truth.marks:
        return False
    highest = max(truth.marks.get(scope, 0), truth.marks.get(EVERYTHING, 0))
    return highest <= rseq and truth.versions.get(version) in MINTABLE


@settings(max_examples=200, deadline=None)
@given(hearings())
def test_a_view_accepts_only_what_the_whole_feed_accepts_at_its_point(heard: tuple[History, list[Event]]) -> None:
    history, events = heard
    view = RevocationView()
    seen = Point(0, 0)
    for event in events:
        view.take(parse_event(*_on_the_wire(event)))
        if view.is_lost:
            assert judge(view, gen=seen.gen, rseq=0, scope=EVERYTHING, version=VERSIONS[0]) is Standing.UNKNOWN
            continue
        assert view.point >= seen, "the clock went back"
        seen = view.point
        truth = history.at[seen]
        assert (view.marks, view.versions) == (truth.marks, truth.versions)
        for rseq, scope, version in product({0, seen.seq - 2, seen.seq - 1, seen.seq, seen.seq + 1}, SCOPES, VERSIONS):
            standing = judge(view, gen=seen.gen, rseq=rseq, scope=scope, version=version)
            alive = rseq <= seen.seq and is_alive(truth, rseq=rseq, scope=scope, version=version)
            # a key that was heard to be revoked elsewhere says more than the view's own point
            assert (standing is Standing.ALIVE) is (alive and scope not in view.revoked_kids)


def _on_the_wire(event: Event) -> tuple[str, str]:
    lines = dict(line.split(": ", 1) for line in spell_event(event).decode().strip().split("\n"))
    return lines["event"], lines["data"]


def judge(view: RevocationView, *, gen: int, rseq: int, scope: RevocationScope, version: VersionId) -> Standing:
    keys = (scope,) if scope in KEYS else ()
    return view.judge(gen=gen, rseq=rseq, keys=keys, versions=(version,), scopes=lambda: (EVERYTHING, scope))


@settings(max_examples=200, deadline=None)
@given(hearings(), st.data())
def test_a_restarted_verifier_never_knows_less_than_before(
    heard: tuple[History, list[Event]], data: st.DataObject
) -> None:
    history, events = heard
    cut = data.draw(st.integers(0, len(events)))
    before = RevocationView()
    for event in events[:cut]:
        before.take(event)
    after = RevocationView(floor=before.floor, revoked_kids=set(before.revoked_kids))
    for event in events[cut:]:
        after.take(event)
        assert after.revoked_kids >= before.revoked_kids
        assert after.is_lost or after.point >= before.floor
    for point in sorted(history.at):
        taken = RevocationView(floor=before.floor).take(history.snapshot(point))
        assert taken is (Taken.APPLIED if point >= before.floor else Taken.REGRESSED)


@settings(max_examples=200, deadline=None)
@given(hearings(), st.data())
def test_a_lease_opens_nothing_before_the_point_that_it_is_bound_to(
    heard: tuple[History, list[Event]], data: st.DataObject
) -> None:
    """After a revocation at `s` every lease is bound to `s`: so who holds one has heard of it."""
    history, events = heard
    point = data.draw(st.sampled_from(sorted(history.at)))
    view, leases = RevocationView(), Leases()
    when = data.draw(st.integers(0, len(events) - 1))
    for number, event in enumerate(events):
        view.take(event)
        if number == when:
            leases.grant(point, sent_at=0.0, lease_seconds=2.0, view=view)
        if leases.is_fresh(view, now=1.0):
            assert number >= when
            assert view.gen == point.gen
            assert view.seq >= point.seq
