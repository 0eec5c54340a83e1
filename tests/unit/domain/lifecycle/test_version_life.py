"""Every row of the table of states, and every pair that stands in no row; what each command does besides."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from broker.domain.canonical import JsonObject
from broker.domain.errors import Reason, Refusal
from broker.domain.ids import Digest, ToolName, Version, VersionId
from broker.domain.lifecycle.rollout import (
    Canary,
    Change,
    Deprecate,
    Promote,
    Publish,
    Retire,
    Rollback,
    VersionCommand,
    apply,
    narrow,
)
from broker.domain.lifecycle.states import (
    MINTABLE,
    Cohort,
    LifecycleView,
    State,
    VersionRecord,
    read_record,
    record_json,
    spell_record,
)

TOOL = ToolName("db.query")
CONTRACT, POLICY, OTHER = (Digest("sha256:" + letter * 64) for letter in "abc")
NOW = 1_790_000_000
DAY = 86_400
BOB = Cohort(("bob",), 250)


def version(number: str, state: State, **members: Any) -> VersionRecord:
    return VersionRecord(TOOL, Version(number), state, CONTRACT, POLICY, since=NOW - DAY, **members)


def view(*records: VersionRecord) -> LifecycleView:
    return LifecycleView(gen=1, seq=7, versions={VersionId(record.id): record for record in records})


def command(name: str, number: str = "2", **members: Any) -> VersionCommand:
    kinds: dict[str, Any] = {
        "publish": lambda: Publish(TOOL, Version(number), CONTRACT, POLICY),
        "canary": lambda: Canary(TOOL, Version(number), BOB),
        "promote": lambda: Promote(TOOL, Version(number)),
        "rollback": lambda: Rollback(TOOL, Version(number), **members),
        "deprecate": lambda: Deprecate(TOOL, Version(number), **members),
        "retire": lambda: Retire(TOOL, Version(number), **members),
    }
    found: VersionCommand = kinds[name]()
    return found


# from → what each command makes of it; what is not here is refused
TABLE = {
    ("canary", "published"): "canary",
    ("canary", "canary"): "canary",
    ("canary", "rolled_back"): "canary",
    ("promote", "published"): "stable",
    ("promote", "canary"): "stable",
    ("rollback", "canary"): "rolled_back",
    ("rollback", "stable"): "rolled_back",
    ("rollback", "deprecated"): "rolled_back",
    ("deprecate", "stable"): "deprecated",
    ("deprecate", "deprecated"): "deprecated",
    ("retire", "canary"): "retired",
    ("retire", "stable"): "retired",
    ("retire", "deprecated"): "retired",
}
COMMANDS = ("canary", "promote", "rollback", "deprecate", "retire")
GOING = {"rollback": {"force": True}, "retire": {"emergency": "a reason"}}


@pytest.mark.parametrize(("name", "state"), itertools.product(COMMANDS, [state.value for state in State]))
def test_a_command_goes_where_the_table_says_and_nowhere_else(name: str, state: str) -> None:
    before = version("2", State(state))
    outcome = apply(command(name, **GOING.get(name, {})), view(before), now=NOW)
    target = TABLE.get((name, state))
    if target is None:
        assert isinstance(outcome, Refusal)
        assert outcome.reason is Reason.TRANSITION_NOT_ALLOWED
        assert outcome.data == (("state", state),)
        return
    assert isinstance(outcome, Change)
    after = outcome.updates[0].after
    assert (after.id, after.state.value) == ("db.query@2", target)
    assert (after.contract, after.policy) == (CONTRACT, POLICY)
    assert after.since == (before.since if (name, state) == ("deprecate", "deprecated") else NOW)
    revokes = name in ("rollback", "retire")
    assert outcome.revokes == (("version:db.query@2",) if revokes else ())
    assert after.cohort == (BOB if name == "canary" else Cohort())


@pytest.mark.parametrize("name", COMMANDS)
def test_a_version_that_was_never_published_is_unknown_to_every_command(name: str) -> None:
    outcome = apply(command(name, "9", **GOING.get(name, {})), view(version("2", State.STABLE)), now=NOW)
    assert isinstance(outcome, Refusal)
    assert outcome.reason is Reason.VERSION_NOT_PUBLISHED


def test_credentials_are_minted_for_canary_stable_and_deprecated_alone() -> None:
    assert {state.value for state in MINTABLE} == {"canary", "stable", "deprecated"}


@pytest.mark.parametrize("state", State)
def test_publishing_the_same_again_changes_nothing_whatever_its_state(state: State) -> None:
    assert apply(command("publish"), view(version("2", state)), now=NOW) == Change(apply_name("publish"), ())


def apply_name(name: str) -> Any:
    from broker.domain.lifecycle.states import Command

    return Command(name)


@pytest.mark.parametrize(("contract", "policy", "where"), [(OTHER, POLICY, "contract"), (CONTRACT, OTHER, "policy")])
def test_a_published_version_never_changes(contract: Digest, policy: Digest, where: str) -> None:
    outcome = apply(Publish(TOOL, Version("2"), contract, policy), view(version("2", State.RETIRED)), now=NOW)
    assert isinstance(outcome, Refusal)
    assert (outcome.reason, outcome.where) == (Reason.DIGEST_CONFLICT, where)


def test_promote_deprecates_the_stable_version_with_a_sunset_a_year_away() -> None:
    outcome = apply(command("promote"), view(version("1", State.STABLE), version("2", State.CANARY)), now=NOW)
    assert isinstance(outcome, Change)
    new, old = (update.after for update in outcome.updates)
    assert (new.state, new.replaced, new.sunset) == (State.STABLE, "1", None)
    assert (old.id, old.state, old.sunset, old.since) == ("db.query@1", State.DEPRECATED, NOW + 365 * DAY, NOW)
    assert outcome.revokes == ()


def test_what_is_only_published_cannot_take_the_place_of_the_stable_version() -> None:
    outcome = apply(command("promote"), view(version("1", State.STABLE), version("2", State.PUBLISHED)), now=NOW)
    assert isinstance(outcome, Refusal)
    assert outcome.reason is Reason.TRANSITION_NOT_ALLOWED


def test_a_stable_version_of_another_tool_is_no_obstacle() -> None:
    other = VersionRecord(ToolName("other"), Version("1"), State.STABLE, CONTRACT, POLICY, since=NOW)
    outcome = apply(command("promote"), view(other, version("2", State.PUBLISHED)), now=NOW)
    assert isinstance(outcome, Change)
    assert len(outcome.updates) == 1


def test_rollback_of_the_stable_version_brings_back_the_one_it_replaced() -> None:
    old = version("1", State.DEPRECATED, sunset=NOW + DAY, advisory="CVE-1")
    outcome = apply(command("rollback"), view(old, version("2", State.STABLE, replaced=Version("1"))), now=NOW)
    assert isinstance(outcome, Change)
    gone, back = (update.after for update in outcome.updates)
    assert gone.state is State.ROLLED_BACK
    assert (back.id, back.state, back.sunset, back.advisory) == ("db.query@1", State.STABLE, None, None)
    assert outcome.revokes == ("version:db.query@2",)


@pytest.mark.parametrize("state", [State.RETIRED, State.ROLLED_BACK, State.PUBLISHED, State.CANARY, None])
def test_without_a_deprecated_predecessor_a_rollback_of_the_stable_version_must_be_forced(state: State | None) -> None:
    records = [version("2", State.STABLE, replaced=Version("1")), *([version("1", state)] if state else [])]
    outcome = apply(command("rollback"), view(*records), now=NOW)
    assert isinstance(outcome, Refusal)
    assert outcome.reason is Reason.NO_VERSION_LEFT
    forced = apply(command("rollback", force=True), view(*records), now=NOW)
    assert isinstance(forced, Change)
    assert [update.after.state for update in forced.updates] == [State.ROLLED_BACK]


def test_rollback_of_the_last_deprecated_version_must_be_forced_where_only_canaries_would_be_left() -> None:
    last, canary = version("1", State.DEPRECATED, sunset=NOW), version("3", State.CANARY)
    outcome = apply(command("rollback", "1"), view(last, canary), now=NOW)
    assert isinstance(outcome, Refusal)
    assert outcome.reason is Reason.NO_VERSION_LEFT
    for state in (State.STABLE, State.DEPRECATED):
        assert isinstance(apply(command("rollback", "1"), view(last, version("2", state)), now=NOW), Change)
    assert isinstance(apply(command("rollback", "1", force=True), view(last, canary), now=NOW), Change)


def test_rollback_of_a_canary_leaves_the_stable_version_alone() -> None:
    outcome = apply(command("rollback"), view(version("1", State.STABLE), version("2", State.CANARY)), now=NOW)
    assert isinstance(outcome, Change)
    assert [update.after.id for update in outcome.updates] == ["db.query@2"]


@pytest.mark.parametrize(
    ("days", "advisory", "is_allowed"),
    [(365, None, True), (364, None, False), (90, "CVE-1", True), (89, "CVE-1", False), (-1, "CVE-1", False)],
)
@pytest.mark.parametrize("state", [State.STABLE, State.DEPRECATED])
def test_a_sunset_has_a_floor(state: State, days: int, advisory: str | None, is_allowed: bool) -> None:
    asked = Deprecate(TOOL, Version("2"), sunset=NOW + days * DAY, advisory=advisory)
    outcome = apply(asked, view(version("2", state)), now=NOW)
    if is_allowed:
        assert isinstance(outcome, Change)
        after = outcome.updates[0].after
        assert (after.sunset, after.advisory) == (NOW + days * DAY, advisory)
    else:
        assert isinstance(outcome, Refusal)
        assert outcome.reason is Reason.SUNSET_TOO_EARLY


def test_a_sunset_that_is_not_named_is_a_year_away() -> None:
    outcome = apply(command("deprecate"), view(version("2", State.STABLE)), now=NOW)
    assert isinstance(outcome, Change)
    assert outcome.updates[0].after.sunset == NOW + 365 * DAY


@pytest.mark.parametrize(("sunset", "reason"), [(NOW, None), (NOW - 1, None), (NOW + 1, "not"), (None, "not")])
def test_a_deprecated_version_is_retired_once_its_sunset_has_passed(sunset: int | None, reason: str | None) -> None:
    outcome = apply(command("retire"), view(version("2", State.DEPRECATED, sunset=sunset)), now=NOW)
    if reason is None:
        assert isinstance(outcome, Change)
    else:
        assert isinstance(outcome, Refusal)
        assert outcome.reason is Reason.SUNSET_NOT_REACHED


@pytest.mark.parametrize("state", [State.CANARY, State.STABLE])
def test_a_version_that_is_not_deprecated_is_retired_in_an_emergency_only(state: State) -> None:
    outcome = apply(command("retire"), view(version("2", state)), now=NOW)
    assert isinstance(outcome, Refusal)
    assert outcome.reason is Reason.TRANSITION_NOT_ALLOWED
    assert isinstance(apply(command("retire", emergency="leaks"), view(version("2", state)), now=NOW), Change)


def test_a_records_bytes_are_pinned_and_read_back() -> None:
    record = version("2", State.CANARY, seq=9, cohort=BOB, replaced=Version("1"), sunset=5, advisory="CVE-1")
    spelled = spell_record(record)
    assert spelled == (
        b'{"advisory":"CVE-1","cohort":{"principals":["bob"],"weight":250},"contract":"sha256:' + b"a" * 64 + b'",'
        b'"policy":"sha256:' + b"b" * 64 + b'","replaced":"1","seq":9,"since":1789913600,"state":"canary","sunset":5,'
        b'"tool":"db.query","v":1,"version":"2"}'
    )
    assert read_record(spelled) == record
    assert read_record(record_json(record)) == record


def test_a_record_keeps_what_was_granted_and_its_bytes_are_pinned() -> None:
    granted = version("2", State.STABLE, grant={"v": 1, "frozen": "sha256:f", "tasks": {}})
    spelled = spell_record(granted)
    assert spelled == (
        b'{"advisory":null,"cohort":{"principals":[],"weight":0},"contract":"sha256:' + b"a" * 64 + b'",'
        b'"grant":{"frozen":"sha256:f","tasks":{},"v":1},"policy":"sha256:' + b"b" * 64 + b'","replaced":null,"seq":0,'
        b'"since":1789913600,"state":"stable","sunset":null,"tool":"db.query","v":1,"version":"2"}'
    )
    assert read_record(spelled) == granted


def test_what_was_granted_stays_with_a_version_through_its_life() -> None:
    grant: JsonObject = {"v": 1, "frozen": "sha256:f", "tasks": {}}
    published = apply(Publish(TOOL, Version("2"), CONTRACT, POLICY, grant), view(), now=NOW)
    assert isinstance(published, Change)
    record = published.updates[0].after
    for name in ("promote", "deprecate", "rollback"):
        moved = apply(command(name, force=True) if name == "rollback" else command(name), view(record), now=NOW)
        assert isinstance(moved, Change)
        record = moved.updates[0].after
        assert record.grant == grant


def test_a_narrower_grant_takes_its_place_and_revokes_what_the_wider_one_gave() -> None:
    before = version("2", State.CANARY, cohort=BOB, grant={"v": 1, "tasks": {"a": {}}})
    update, revoked = narrow(before, policy=Digest("sha256:narrower"), grant={"v": 1, "tasks": {}})
    assert revoked == f"policy:{before.policy}"
    assert update.after == replace(before, policy=Digest("sha256:narrower"), grant={"v": 1, "tasks": {}})


@pytest.mark.parametrize("change", [{"v": 2}, {"v": None}, {"state": "asleep"}, {"cohort": None}, {"cohort": {}}])
def test_a_record_of_another_format_is_not_read(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        read_record({**record_json(version("2", State.STABLE)), **change})
