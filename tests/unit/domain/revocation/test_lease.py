"""Leases at the verifier, by its own clock; and what a receipt says, by the broker's."""

from __future__ import annotations

import pytest
from broker.domain.revocation.feed import Change, Point, Snapshot
from broker.domain.revocation.lease import DRIFT, LEASE_SECONDS, Holder, Leases, receipt, receipt_seconds
from broker.domain.revocation.view import RevocationView


def known(gen: int = 5, seq: int = 10) -> RevocationView:
    view = RevocationView()
    view.take(Snapshot(gen, seq))
    return view


HERE = Point(5, 10)


def granted(view: RevocationView, point: Point = HERE, *, sent_at: float = 100.0) -> Leases:
    leases = Leases()
    leases.grant(point, sent_at=sent_at, lease_seconds=2.0, view=view)
    return leases


def test_without_a_lease_nothing_is_fresh() -> None:
    assert not Leases().is_fresh(known(), now=0.0)


@pytest.mark.parametrize(("now", "fresh"), [(100.0, True), (101.999, True), (102.0, False), (200.0, False)])
def test_a_lease_counts_from_when_its_request_was_sent(now: float, fresh: bool) -> None:
    view = known()
    assert granted(view).is_fresh(view, now=now) is fresh


def test_a_lease_may_be_used_once_the_view_has_reached_its_point() -> None:
    view = known()
    leases = granted(view, Point(5, 11))
    assert not leases.is_fresh(view, now=100.1)
    view.take(Change(5, 11))
    assert leases.is_fresh(view, now=100.2)
    assert not leases.is_fresh(view, now=102.0)


def test_a_lease_that_may_not_be_used_yet_leaves_the_one_that_may() -> None:
    view = known()
    leases = granted(view)
    leases.grant(Point(5, 11), sent_at=100.5, lease_seconds=2.0, view=view)
    assert leases.is_fresh(view, now=101.9)
    assert not leases.is_fresh(view, now=102.1)
    view.take(Change(5, 11))
    assert leases.is_fresh(view, now=102.1)


def test_an_answer_that_was_overtaken_does_not_shorten_a_lease() -> None:
    view = known()
    leases = granted(view, sent_at=101.0)
    leases.grant(Point(5, 10), sent_at=100.0, lease_seconds=2.0, view=view)
    assert leases.is_fresh(view, now=102.9)


def test_a_lease_that_had_to_wait_does_not_take_the_place_of_a_later_one() -> None:
    view = RevocationView()
    leases = granted(view, sent_at=100.0)  # before anything was known
    view.take(Snapshot(5, 10))
    leases.grant(HERE, sent_at=110.0, lease_seconds=2.0, view=view)
    assert leases.is_fresh(view, now=110.1)
    assert leases.is_fresh(view, now=111.9)


def test_a_lease_of_another_gen_is_none() -> None:
    view = known(gen=6, seq=0)
    leases = granted(view, Point(5, 10))
    assert not leases.is_fresh(view, now=100.1)
    held = granted(known(), Point(5, 10))
    assert not held.is_fresh(view, now=100.1)


def test_a_lost_view_has_no_lease_until_it_is_found_again() -> None:
    view = known()
    leases = granted(view)
    view.lose()
    assert not leases.is_fresh(view, now=100.1)
    view.take(Snapshot(5, 12))
    assert leases.is_fresh(view, now=100.1)


def test_a_lease_that_is_dropped_is_gone() -> None:
    view = known()
    leases = granted(view)
    leases.drop()
    assert not leases.is_fresh(view, now=100.1)


POINT = Point(5, 12)
APPLIED = Holder("v-1", "db-api", Point(5, 12))
LATER = Holder("v-2", "db-api", Point(6, 0))
BEHIND = Holder("v-3", "db-api", Point(5, 11))
LOST = Holder("v-4", "db-api", Point(0, 0))


def test_a_verifier_has_acknowledged_at_the_point_or_later() -> None:
    found = receipt(POINT, [LATER, BEHIND, APPLIED, LOST], elapsed=0.1, lease_seconds=2.0)
    assert found.acknowledged == (APPLIED, LATER)
    assert found.waiting == (BEHIND, LOST)
    assert not found.expired
    assert not found.is_complete


def test_a_receipt_is_complete_when_all_have_acknowledged() -> None:
    assert receipt(POINT, [APPLIED, LATER], elapsed=0.0, lease_seconds=2.0).is_complete


def test_whoever_has_not_is_out_once_every_lease_from_before_is_over() -> None:
    just_before = receipt(POINT, [APPLIED, BEHIND], elapsed=receipt_seconds(2.0) - 0.001, lease_seconds=2.0)
    after = receipt(POINT, [APPLIED, BEHIND], elapsed=receipt_seconds(2.0), lease_seconds=2.0)
    assert (just_before.waiting, just_before.is_complete) == ((BEHIND,), False)
    assert (after.expired, after.is_complete) == ((BEHIND,), True)


def test_the_time_covers_a_slow_verifier_and_a_fast_broker() -> None:
    true_seconds = LEASE_SECONDS / (1 - DRIFT)  # what a lease lasts by a clock that is slow
    assert receipt_seconds(LEASE_SECONDS) >= true_seconds * (1 + DRIFT) - 1e-9
