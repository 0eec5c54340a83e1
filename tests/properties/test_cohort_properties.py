"""Routing is sticky, fair, and never hands out what a principal may not declare."""

from __future__ import annotations

from broker.domain.ids import Digest, ToolName, Version
from broker.domain.lifecycle.cohort import in_cohort, may_declare, routed
from broker.domain.lifecycle.states import MINTABLE, Cohort, State, VersionRecord
from hypothesis import given
from hypothesis import strategies as st

DIGEST = Digest("sha256:" + "a" * 64)
names = st.text(min_size=1, max_size=12)


def record(number: str, state: State, since: int = 0, cohort: Cohort | None = None) -> VersionRecord:
    return VersionRecord(
        ToolName("db.query"), Version(number), state, DIGEST, DIGEST, since=since, cohort=cohort or Cohort()
    )


def canary(weight: int, *principals: str, since: int = 0, number: str = "2") -> VersionRecord:
    return record(number, State.CANARY, since, Cohort(principals, weight))


cohorts = st.builds(
    Cohort, st.lists(names, max_size=3).map(tuple), st.one_of(st.just(0), st.just(10_000), st.integers(0, 10_000))
)
records = st.lists(
    st.builds(
        record,
        st.sampled_from(["1", "2", "3", "4"]),
        st.sampled_from(State),
        st.integers(0, 3),
        cohorts,
    ),
    max_size=5,
    unique_by=lambda one: one.version,
)


@given(records, names, names)
def test_whoever_is_routed_to_a_version_may_declare_it(found: list[VersionRecord], agent: str, account: str) -> None:
    version = routed(found, agent=agent, account=account)
    assert version is None or may_declare(version, agent=agent, account=account)
    assert version is None or version.state in MINTABLE


@given(records, names, names, st.randoms(use_true_random=False))
def test_the_order_in_which_versions_are_held_means_nothing(
    found: list[VersionRecord], agent: str, account: str, chance: object
) -> None:
    distinct = [
        VersionRecord(one.tool, one.version, one.state, DIGEST, DIGEST, since=one.since, seq=at, cohort=one.cohort)
        for at, one in enumerate(found)
    ]
    shuffled = distinct[:]
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert routed(distinct, agent=agent, account=account) == routed(shuffled, agent=agent, account=account)


@given(st.integers(0, 10_000), st.integers(0, 10_000), names, names)
def test_a_share_that_grows_keeps_those_it_had(one: int, other: int, agent: str, account: str) -> None:
    less, more = sorted((one, other))
    if in_cohort(canary(less), agent=agent, account=account):
        assert in_cohort(canary(more), agent=agent, account=account)


@given(names, names)
def test_nobody_is_in_no_share_and_everybody_in_the_whole(agent: str, account: str) -> None:
    assert not in_cohort(canary(0), agent=agent, account=account)
    assert in_cohort(canary(10_000), agent=agent, account=account)


@given(names, names)
def test_who_is_named_gets_the_canary_whatever_its_share(agent: str, account: str) -> None:
    stable = record("1", State.STABLE, since=9)
    for name in (agent, account):
        assert routed([stable, canary(0, name)], agent=agent, account=account) == canary(0, name)
    newer = canary(10_000, since=5, number="3")
    named = canary(0, account, since=1)
    assert routed([stable, newer, named], agent=agent, account=account) == named


def test_a_share_is_that_share_of_many_principals() -> None:
    for weight in (100, 2_500, 5_000):
        inside = sum(in_cohort(canary(weight), agent="agent", account=f"account-{n}") for n in range(20_000))
        assert abs(inside / 20_000 - weight / 10_000) < 0.015


def test_two_canaries_draw_their_shares_anew() -> None:
    people = [f"account-{n}" for n in range(4_000)]
    shares = [
        {who for who in people if in_cohort(canary(5_000, number=number), agent="a", account=who)} for number in "23"
    ]
    assert 0.2 < len(shares[0] & shares[1]) / len(people) < 0.3


def test_a_hash_is_pinned_so_that_all_replicas_route_alike() -> None:
    assert [in_cohort(canary(5_000), agent="agent-7", account=who) for who in ("alice", "bob", "carol", "dave")] == [
        in_share("2", who) for who in ("alice", "bob", "carol", "dave")
    ]


def in_share(number: str, account: str) -> bool:
    import hashlib

    seed = b"db.query\x00" + number.encode() + b"\x00agent-7\x00" + account.encode()
    return int(hashlib.sha256(seed).hexdigest()[:16], 16) % 10_000 < 5_000


def test_without_a_stable_version_the_last_deprecated_one_is_served() -> None:
    older, newer = record("1", State.DEPRECATED, since=1), record("2", State.DEPRECATED, since=2)
    assert routed([newer, older], agent="a", account="b") == newer
    assert routed([record("1", State.PUBLISHED), record("2", State.RETIRED)], agent="a", account="b") is None


def test_a_canary_may_be_declared_only_by_whom_it_is_served_to() -> None:
    assert not may_declare(canary(0, "bob"), agent="agent-7", account="alice")
    assert may_declare(canary(0, "bob"), agent="agent-7", account="bob")
    for state in (State.STABLE, State.DEPRECATED):
        assert may_declare(record("1", state), agent="agent-7", account="alice")
    for state in (State.PUBLISHED, State.RETIRED, State.ROLLED_BACK):
        assert not may_declare(record("1", state), agent="agent-7", account="alice")
