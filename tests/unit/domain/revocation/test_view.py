"""A verifier's view: every rule of the fold and of the judgement, both ways."""

from __future__ import annotations

import pytest
from broker.domain.ids import VersionId
from broker.domain.revocation.feed import Change, Event, Heartbeat, Point, Snapshot
from broker.domain.revocation.scopes import EVERYTHING, RevocationScope, key_scope
from broker.domain.revocation.view import MINTABLE, RevocationView, Standing, Taken

V3, V4 = VersionId("db.query@3"), VersionId("db.query@4")
TOOL, AGENT = RevocationScope("tool:db.query"), RevocationScope("agent:i|a")
SCOPES = (EVERYTHING, key_scope("k1"), TOOL, AGENT)
START = Snapshot(5, 10, {TOOL: 3}, {V3: "stable", V4: "deprecated"})


def view_after(*events: Event, floor: Point | None = None, revoked: tuple[str, ...] = ()) -> RevocationView:
    view = RevocationView(floor=floor or Point(0, 0), revoked_kids=set(revoked))
    for event in events:
        view.take(event)
    return view


def judged(
    view: RevocationView,
    *,
    gen: int = 5,
    rseq: int = 5,
    kids: tuple[str, ...] = ("k1",),
    versions: tuple[VersionId, ...] = (V3,),
    scopes: tuple[RevocationScope, ...] = SCOPES,
) -> Standing:
    keys = tuple(key_scope(kid) for kid in kids)
    return view.judge(gen=gen, rseq=rseq, keys=keys, versions=versions, scopes=lambda: scopes)


# taking events


@pytest.mark.parametrize(
    ("before", "event", "taken", "point"),
    [
        ((), Snapshot(5, 10), Taken.APPLIED, Point(5, 10)),
        ((), Change(5, 1), Taken.GAP, None),
        ((), Heartbeat(0, 0), Taken.GAP, None),
        ((START,), Change(5, 11), Taken.APPLIED, Point(5, 11)),
        ((START,), Change(5, 10), Taken.REPEATED, Point(5, 10)),
        ((START,), Change(5, 3), Taken.REPEATED, Point(5, 10)),
        ((START,), Change(5, 12), Taken.GAP, None),
        ((START,), Change(6, 11), Taken.GAP, None),
        ((START,), Change(4, 11), Taken.GAP, None),
        ((START,), Heartbeat(5, 10), Taken.REPEATED, Point(5, 10)),
        ((START,), Heartbeat(5, 11), Taken.GAP, None),
        ((START,), Heartbeat(6, 10), Taken.GAP, None),
        ((START,), Snapshot(5, 9), Taken.REGRESSED, None),
        ((START,), Snapshot(4, 99), Taken.REGRESSED, None),
        ((START,), Snapshot(5, 10), Taken.APPLIED, Point(5, 10)),
        ((START,), Snapshot(6, 0), Taken.APPLIED, Point(6, 0)),
        ((START, Change(5, 12)), Change(5, 11), Taken.GAP, None),
        ((START, Change(5, 12)), Heartbeat(5, 10), Taken.GAP, None),
        ((START, Change(5, 12)), Snapshot(5, 12), Taken.APPLIED, Point(5, 12)),
    ],
)
def test_an_event_is_taken_or_the_view_is_lost(
    before: tuple[Event, ...], event: Event, taken: Taken, point: Point | None
) -> None:
    view = view_after(*before)
    assert view.take(event) is taken
    assert view.is_lost is (point is None)
    if point is not None:
        assert view.point == point
        assert view.floor == point


def test_a_snapshot_from_before_what_a_restarted_verifier_knew_is_not_taken() -> None:
    for floor, taken in (
        (Point(5, 11), Taken.REGRESSED),
        (Point(6, 0), Taken.REGRESSED),
        (Point(5, 10), Taken.APPLIED),
    ):
        view = view_after(floor=floor)
        assert view.take(START) is taken
        assert view.floor == floor


def test_a_snapshot_replaces_marks_and_versions_but_never_what_is_known_of_keys() -> None:
    view = view_after(
        START, Change(5, 11, {key_scope("k1"): 11, AGENT: 11}, {V4: "retired"}), Snapshot(5, 12, {}, {V3: "stable"})
    )
    assert (view.marks, view.versions) == ({}, {V3: "stable"})
    assert judged(view, kids=("k1",)) is Standing.REVOKED
    assert judged(view, kids=("k2",)) is Standing.ALIVE


def test_what_is_covered_goes_but_for_everything_and_keys() -> None:
    marks = {key_scope("k9"): 2, EVERYTHING: 4, AGENT: 9}
    view = view_after(
        Snapshot(5, 10, {**marks, TOOL: 3}, {V3: "stable"}), Change(5, 11, {EVERYTHING: 8}, {}, covered=8)
    )
    assert view.marks == {**marks, EVERYTHING: 8}


def test_a_mark_never_goes_down() -> None:
    assert view_after(START, Change(5, 11, {TOOL: 1})).marks[TOOL] == 3


# judging


@pytest.mark.parametrize("lost", [(), (START, Change(5, 12))], ids=["before a snapshot", "after a gap"])
def test_a_lost_view_knows_nothing(lost: tuple[Event, ...]) -> None:
    assert judged(view_after(*lost)) is Standing.UNKNOWN


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, Standing.ALIVE),
        ({"gen": 6}, Standing.UNKNOWN),
        ({"gen": 4}, Standing.OTHER_GEN),
        ({"rseq": 10}, Standing.ALIVE),
        ({"rseq": 11}, Standing.AHEAD),
        ({"rseq": 3}, Standing.ALIVE),
        ({"rseq": 2}, Standing.REVOKED),
        ({"rseq": 2, "scopes": (EVERYTHING, AGENT)}, Standing.ALIVE),
        ({"versions": (V4,)}, Standing.ALIVE),
        ({"versions": (V3, V4)}, Standing.ALIVE),
        ({"versions": (V3, VersionId("db.query@5"))}, Standing.NOT_SERVED),
        ({"versions": ()}, Standing.NOT_SERVED),
    ],
    ids=str,
)
def test_a_credential_stands_as_the_first_rule_says(changes: dict[str, object], expected: Standing) -> None:
    assert judged(view_after(START), **changes) is expected  # type: ignore[arg-type]


@pytest.mark.parametrize("state", ["published", "rolled_back", "retired", "Stable", ""])
def test_only_a_mintable_state_is_served(state: str) -> None:
    assert judged(view_after(Snapshot(5, 10, {}, {V3: state}))) is Standing.NOT_SERVED


def test_the_mintable_states_are_those_of_the_lifecycle() -> None:
    from broker.domain.lifecycle import states

    assert frozenset(state.value for state in states.MINTABLE) == MINTABLE


def test_a_revoked_key_counts_whatever_the_credential_says_and_before_it_is_reached() -> None:
    view = view_after(START, Change(5, 11, {key_scope("k1"): 11}))
    for rseq in (0, 11, 12, 2**50):
        assert judged(view, rseq=rseq) is Standing.REVOKED
        assert judged(view, rseq=rseq, kids=("k2", "k1")) is Standing.REVOKED
    assert judged(view, kids=("k2",), scopes=(EVERYTHING, key_scope("k2"))) is Standing.ALIVE


def test_a_key_revoked_in_an_event_that_cannot_be_taken_is_revoked_all_the_same() -> None:
    view = view_after(START, Change(5, 13, {key_scope("k1"): 13}), START)
    assert judged(view) is Standing.REVOKED


def test_a_key_that_was_revoked_before_a_restart_stays_so() -> None:
    assert judged(view_after(START, revoked=(key_scope("k1"),))) is Standing.REVOKED


def test_the_maximum_over_all_scopes_counts_not_the_narrowest() -> None:
    marks = {EVERYTHING: 8, TOOL: 3, AGENT: 1}
    view = view_after(Snapshot(5, 10, marks, {V3: "stable"}))
    assert judged(view, rseq=7) is Standing.REVOKED
    assert judged(view, rseq=8) is Standing.ALIVE


def test_promotion_again_revives_nothing() -> None:
    mark = RevocationScope("version:db.query@3")
    scopes = (*SCOPES, mark)
    view = view_after(START)
    assert judged(view, rseq=10, scopes=scopes) is Standing.ALIVE
    view.take(Change(5, 11, {mark: 11}, {V3: "rolled_back"}))
    assert judged(view, rseq=10, scopes=scopes) is Standing.REVOKED
    view.take(Change(5, 12, {}, {V3: "canary"}))
    view.take(Change(5, 13, {}, {V3: "stable"}))
    assert judged(view, rseq=10, scopes=scopes) is Standing.REVOKED
    assert judged(view, rseq=12, scopes=scopes) is Standing.ALIVE
