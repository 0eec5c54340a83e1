"""After a receipt no verifier accepts what was revoked, whatever clocks, network and store do; in a simulation (`lease_world.py`).

A schedule is its seed: `lease_world.play(seed)` plays it again. Each rule that the promise rests on is broken once, and the
same simulation must then see what is accepted too long: so it would see it if the rules as they are were wrong.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from broker.domain.revocation.lease import DRIFT, LEASE_SECONDS, receipt_seconds
from hypothesis import given
from hypothesis import strategies as st

from lease_rules import Rules
from lease_world import play

SCHEDULES = 600
RATES = st.floats(1 - DRIFT, 1 + DRIFT)


def stale_in(schedules: Iterable[int], rules: Rules) -> list[int]:
    """Seeds of the schedules in which something was accepted after its receipt."""
    return [seed for seed in schedules if play(seed, rules).stale]


def test_in_600_schedules_nothing_is_accepted_after_its_receipt() -> None:
    receipts = accepted = failovers = 0
    for seed in range(SCHEDULES):
        world = play(seed)
        assert world.stale == 0, f"lease_world.play({seed}) accepts after a receipt"
        receipts, accepted, failovers = (
            receipts + world.receipts,
            accepted + world.accepted,
            failovers + world.failovers,
        )
    assert receipts > 4 * SCHEDULES
    assert accepted > 40 * SCHEDULES, "and what is not revoked is accepted"
    assert failovers > SCHEDULES / 4


@pytest.mark.parametrize(
    ("rules", "schedules"),
    [
        pytest.param(Rules(counts_from_sending=False), range(25), id="a lease counts from when its answer came"),
        pytest.param(Rules(binds_lease=False), range(15), id="a lease is good whatever the view has reached"),
        pytest.param(Rules(receipt_after=LEASE_SECONDS), range(75), id="a receipt takes clocks to be exact"),
        pytest.param(Rules(required_replicas=0), range(75), id="a primary without replicas grants leases"),
        # these need a failover at a bad moment, one schedule in 200: seeds that were searched for
        pytest.param(Rules(young_gen="does not wait"), (1, 88, 594, 624, 730), id="a new gen knows all holders"),
        pytest.param(
            Rules(young_gen="waits from when it was heard of"),
            (730, 1009, 1091, 1447, 1516),
            id="a new gen counts before its first replicated write",
        ),
    ],
)
def test_with_a_rule_broken_the_same_simulation_sees_stale_accepts(rules: Rules, schedules: Iterable[int]) -> None:
    assert len(stale_in(schedules, rules)) > 0


@given(verifier=RATES, broker=RATES, lag=st.floats(0, 5))
def test_a_lease_is_over_before_its_receipt_however_far_the_clocks_drift_apart(
    verifier: float, broker: float, lag: float
) -> None:
    over = LEASE_SECONDS / verifier  # true seconds, from when the lease was asked for
    given_at = lag + receipt_seconds(LEASE_SECONDS) / broker  # from when the store acted, which was later
    assert over <= given_at + 1e-9
