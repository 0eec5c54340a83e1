"""What a broker makes of findings: what it would change for the worse stops it, old troubles do not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from broker.adapters.policyfile.folder import load_tree
from broker.domain.ids import ToolName, Version, VersionId
from broker.domain.policy.findings import ExceptionUse, Finding, Place, Report, RuleId, Severity
from broker.domain.policy.judgement import PolicyRefusedError, follows_unread, judge
from broker.domain.policy.report_wire import read_report, report_json

TREE = load_tree(Path(__file__).parents[4] / "policies", with_keys=False)
TOOL = ToolName("db.query")
THREE, FOUR = VersionId("db.query@3"), VersionId("db.query@4")
NOBODY: frozenset[VersionId] = frozenset()


def finding(
    rule: RuleId, version: str | None = "3", severity: Severity = Severity.REFUSED, tool: str = "db.query"
) -> Finding:
    place = Place("db.query.yaml", 9, 5, "/versions/3", '  "3":')
    number = Version(version) if version is not None else None
    return Finding(rule, severity, ToolName(tool), number, "key", place, "what", "why", "mend")


def severities(
    *findings: Finding,
    published: frozenset[VersionId] = frozenset({THREE}),
    unread: frozenset[VersionId] = NOBODY,
    tolerated: frozenset[VersionId] = NOBODY,
) -> list[tuple[str, str]]:
    judged = judge(findings, TREE, published=published, unread=unread, tolerated=tolerated)
    return [(one.rule.value, one.severity.value) for one in judged]


@pytest.mark.parametrize("severity", [Severity.REFUSED, Severity.UNDECIDED])
def test_what_is_said_of_a_version_to_come_stands(severity: Severity) -> None:
    assert severities(finding(RuleId.SCOPE_DEAD, "4", severity)) == [("scope.dead", severity.value)]
    assert severities(finding(RuleId.TEST_MISSING, None, severity)) == [("test.missing", severity.value)]


@pytest.mark.parametrize("rule", [rule for rule in RuleId if rule is not RuleId.VERSION_EDITED])
def test_a_published_version_was_judged_when_it_was_published(rule: RuleId) -> None:
    assert severities(finding(rule)) == [(rule.value, "notice")]


def test_what_was_excepted_stays_excepted() -> None:
    assert severities(finding(RuleId.SCOPE_DEAD, severity=Severity.EXCEPTED)) == [("scope.dead", "excepted")]


def test_an_edit_of_a_published_version_stops_a_load_unless_it_is_in_force_already() -> None:
    edit = finding(RuleId.VERSION_EDITED)
    assert severities(edit) == [("version.edited", "refused")]
    assert severities(edit, tolerated=frozenset({THREE})) == [("version.edited", "notice")]


def test_a_published_version_whose_text_is_nowhere_is_edited_whatever_else_is_said_of_it() -> None:
    said = (finding(RuleId.SCOPE_DEAD), finding(RuleId.LOCKSTEP_ALONE))
    assert severities(*said, unread=frozenset({THREE})) == [("version.edited", "refused")]
    at_start = severities(*said, unread=frozenset({THREE}), tolerated=frozenset({THREE}))
    assert at_start == [("version.edited", "notice")]


def test_a_version_that_follows_it_is_undecided() -> None:
    made = follows_unread(TREE, TOOL, Version("4"), Version("3"))
    assert (made.rule, made.severity) == (RuleId.RELATION_UNDECIDED, Severity.UNDECIDED)
    assert made.place.file == "db.query.yaml"
    assert severities(made, published=frozenset({THREE})) == [("relation.undecided", "undecided")]


def test_an_error_shows_what_stops_the_policy_and_no_notices() -> None:
    report = Report((finding(RuleId.SCOPE_DEAD), finding(RuleId.WORDS_CHANGED, severity=Severity.NOTICE)))
    assert str(PolicyRefusedError(report)) == "db.query.yaml:9:5: scope.dead: what\n  mend"


def test_a_long_error_is_cut_and_says_so() -> None:
    said = str(PolicyRefusedError(Report(tuple(finding(RuleId.SCOPE_DEAD) for _ in range(25)))))
    assert said.endswith("\nand 5 more")


def test_a_report_is_read_as_it_was_sent() -> None:
    place = Place("db.query.yaml", 3, 1, tree="published")
    whole = replace(
        finding(RuleId.SCOPE_WIDENED), witness=None, has_witness=True, shows="shows", related=((place, "as it was"),)
    )
    use = ExceptionUse("scope.dead", "db.query", "3", None, "reason", ("ada", "bo"), "2027-01-01", place, used=True)
    report = Report((whole, finding(RuleId.SCOPE_DEAD, None)), (use,), {"tools": 2})
    assert read_report(json.loads(json.dumps(report_json(report)))) == report


@pytest.mark.parametrize(
    "value", [None, [], {}, {"v": 2}, {"v": 1}, {"v": 1, "findings": [{}], "exceptions": [], "counts": {}}]
)
def test_what_is_no_report_is_not_read(value: object) -> None:
    assert read_report(value) is None
