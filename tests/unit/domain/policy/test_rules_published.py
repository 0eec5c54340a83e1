"""What is published stays as it is; what an author says is held against what is so; exceptions and tests are checked too."""

from __future__ import annotations

import pytest
from broker.domain.policy.findings import Severity

from rules_parts import Rules, both_ways, excepted, inputs, needs, said, task, the, version

SCHEMA = inputs(["mode"], mode=["read", "write"])
SCOPES = {"files:read": True, "files:write": needs("mode", "write")}
WORK = task("files:read", "files:write", ttl="60s", uses=2)
ONE = version(SCHEMA, scopes=SCOPES, tasks={"work": WORK})


@pytest.mark.parametrize(
    ("edited", "key"),
    [
        (version(inputs(mode=["read", "write"]), scopes=SCOPES, tasks={"work": WORK}), "contract"),
        (version(SCHEMA, words="Other words.", scopes=SCOPES, tasks={"work": WORK}), "contract"),
        (version(SCHEMA, scopes={**SCOPES, "files:more": True}, tasks={"work": WORK}), "scopes/files:more"),
        (version(SCHEMA, scopes={"files:read": True, "files:write": True}, tasks={"work": WORK}), "scopes/files:write"),
        (version(SCHEMA, scopes=SCOPES, tasks={"work": {**WORK, "scopes": ["files:read"]}}), "tasks/work/scopes"),
        (version(SCHEMA, scopes=SCOPES, tasks={"work": {**WORK, "ttl": "70s"}}), "tasks/work/ttl"),
        (version(SCHEMA, scopes=SCOPES, tasks={"work": {**WORK, "uses": 3}}), "tasks/work/uses"),
        (version(SCHEMA, scopes=SCOPES, tasks={"work": {**WORK, "allow": {"clients": ["robots"]}}}), "tasks/work/allow"),
        (version(SCHEMA, scopes=SCOPES, tasks={"work": WORK, "more": WORK}), "tasks/more"),
        (version(SCHEMA, scopes=SCOPES, tasks={"work": WORK}, arguments={"/mode": {"kind": "ref"}}), "arguments/~1mode"),
    ],
)  # fmt: skip
def test_a_published_version_is_not_edited_in_place(rules: Rules, edited: dict, key: str) -> None:
    report = rules.report({"1": edited}, {"1": ONE})
    assert ("version.edited", key) in said(report)
    assert all(place.tree == "base" for place, _ in the(report, "version.edited", key).related)


@pytest.mark.parametrize("less", [{"ttl": "50s"}, {"uses": 1}, {"online": True}, {"allow": {}}])
def test_access_to_a_published_version_may_shrink_in_place(rules: Rules, less: dict) -> None:
    shrunk = version(SCHEMA, scopes=SCOPES, tasks={"work": {**WORK, **less}})
    assert said(rules.report({"1": shrunk}, {"1": ONE})) == set()


def test_what_is_asked_about_at_each_use_stays_so(rules: Rules) -> None:
    asked = version(SCHEMA, scopes=SCOPES, tasks={"work": {**WORK, "online": True}})
    for less in (WORK, {**WORK, "online": False}):
        edited = version(SCHEMA, scopes=SCOPES, tasks={"work": less})
        assert ("version.edited", "tasks/work/online") in said(rules.report({"1": edited}, {"1": asked}))


def test_a_published_task_may_be_taken_away(rules: Rules) -> None:
    two = version(SCHEMA, scopes=SCOPES, tasks={"work": WORK, "more": WORK})
    assert said(rules.report({"1": ONE}, {"1": two})) == set()


def test_a_condition_that_asks_for_one_is_not_the_one_that_asks_for_true(rules: Rules) -> None:
    schema = inputs(["force"], force={"type": ["boolean", "integer"]})
    before, after = (version(schema, scopes={**SCOPES, "files:write": needs("force", one)}) for one in (True, 1))
    assert ("version.edited", "scopes/files:write") in said(rules.report({"1": after}, {"1": before}))


def test_another_audience_is_an_edit_of_every_version(rules: Rules) -> None:
    report = rules.report({"1": ONE, "2": ONE}, {"1": ONE}, audience="https://evil.example")
    assert ("version.edited", "audience") in said(report)


def test_a_published_version_that_is_gone_is_noticed_where_it_was(rules: Rules) -> None:
    report = rules.report({"2": ONE}, {"1": ONE, "2": ONE})
    assert said(report) == set()
    gone = the(report, "version.edited")
    assert (gone.severity, gone.place.tree, gone.version) == (Severity.NOTICE, "base", "1")


def test_one_person_does_not_approve_an_edit_in_place(rules: Rules) -> None:
    grown = version(SCHEMA, scopes=SCOPES, tasks={"work": {**WORK, "ttl": "70s"}})
    one = rules.report({"1": grown}, {"1": ONE}, exceptions=[excepted("version.edited", "1", "ann")])
    assert {rule for rule, _ in said(one)} == {"version.edited", "exception.invalid"}
    two = rules.report({"1": grown}, {"1": ONE}, exceptions=[excepted("version.edited", "1", "ann", "bob")])
    assert said(two) == set()


# change.claim and words.changed


@pytest.mark.parametrize(
    ("claim", "key"),
    [({"inputs": "equal"}, "inputs"), ({"scopes": "equal"}, "scopes"), ({"class": "compatible"}, "class")],
)
def test_a_claim_that_is_not_so_is_refused(rules: Rules, claim: dict, key: str) -> None:
    new = version(inputs(["mode"], mode=["read"]), scopes={"files:read": True}, change=claim)
    report = rules.step(version(SCHEMA, scopes=SCOPES), new)
    assert said(report) == {("change.claim", key)}
    assert the(report, "change.claim").has_witness == (key == "inputs")


def test_a_claim_that_is_so_is_lawful(rules: Rules) -> None:
    claim = {"inputs": "narrowed", "scopes": "reduced", "class": "breaking"}
    new = version(inputs(["mode"], mode=["read"]), scopes={"files:read": True}, change=claim)
    assert said(rules.step(version(SCHEMA, scopes=SCOPES), new)) == set()


def test_words_that_changed_alone_are_acknowledged_or_refused(rules: Rules) -> None:
    old = version(SCHEMA, scopes=SCOPES)
    new = version(SCHEMA, words="Reads, and at most ten at a time.", scopes=SCOPES)
    report = rules.step(old, new)
    assert said(report) == {("words.changed", "words")}
    assert "description" in the(report, "words.changed").what
    assert said(rules.step(old, {**new, "change": {"class": "semantic only"}})) == set()


# exceptions


GROWN = version(SCHEMA, scopes=SCOPES, tasks={"work": {**WORK, "ttl": "70s"}})


@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        ({"expires": "2026-11-30"}, "ran out"),
        ({"expires": "2027-03-02"}, "91 days"),
        ({"expires": "2027-02-30"}, "no day"),
        ({"reason": " "}, "no reason"),
        ({"version": "1"}, "nothing in"),
        ({"key": "work/uses"}, "nothing in"),
    ],
)
def test_an_exception_that_does_not_hold_covers_nothing(rules: Rules, more: dict, wrong: str) -> None:
    listed = [{**excepted("scope.widened", "2", "ann", "bob"), **more}]
    report = rules.step(ONE, GROWN, exceptions=listed)
    assert ("scope.widened", "work/ttl") in said(report)
    assert wrong in the(report, "exception.invalid").what


def test_an_exception_holds_on_its_last_day(rules: Rules) -> None:
    listed = [excepted("scope.widened", "2", "ann", "bob", expires="2026-12-01", key="work/ttl")]
    assert said(rules.step(ONE, GROWN, exceptions=listed)) == set()


def test_an_exception_that_nothing_needs_is_noticed(rules: Rules) -> None:
    report = rules.step(ONE, ONE, exceptions=[excepted("scope.dead", "2")])
    assert said(report) == set()
    assert the(report, "exception.invalid").severity is Severity.NOTICE


# test.missing


def test_a_version_is_tested_both_ways(rules: Rules) -> None:
    permit, refuse = both_ways("1")
    assert said(rules.report({"1": ONE}, cases=[permit, refuse])) == set()
    assert said(rules.report({"1": ONE}, cases=[permit])) == {("test.missing", "refuse")}
    assert said(rules.report({"1": ONE}, cases=[refuse])) == {("test.missing", "permit")}


@pytest.mark.parametrize(
    ("request_", "what"),
    [({"version": "9"}, "version 9"), ({"task": "wrok"}, "task wrok"), ({"arguments": {"mdoe": "read"}}, "argument mdoe")],
)  # fmt: skip
def test_a_test_that_asks_for_what_is_not_there_is_refused(rules: Rules, request_: dict, what: str) -> None:
    odd = {"name": "odd", "request": {**both_ways("1")[0]["request"], **request_}, "permit": ["files:read"]}
    report = rules.report({"1": ONE}, cases=[*both_ways("1"), odd])
    found = the(report, "test.missing")
    assert what in found.what
    assert found.place.file == "tests/files.read.yaml"
