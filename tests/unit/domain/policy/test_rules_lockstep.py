"""Lockstep: inputs and scopes come down together, or the step is refused; what cannot be told is undecided."""

from __future__ import annotations

import pytest
from broker.domain.policy.findings import Severity

from rules_parts import SAFE, Rules, excepted, inputs, needs, said, task, the, version

BOTH = inputs(["mode"], mode=["read", "write"])
READ = inputs(["mode"], mode=["read"])
SCOPES = {"files:read": True, "files:write": needs("mode", "write")}
OLD = version(BOTH, scopes=SCOPES)
LONGER = {"type": "string", "maxLength": 40}


def test_a_step_that_changes_nothing_is_lawful(rules: Rules) -> None:
    assert said(rules.step(OLD, OLD)) == set()


def test_inputs_and_the_scope_that_they_needed_go_together(rules: Rules) -> None:
    assert said(rules.step(OLD, version(READ, scopes={"files:read": True}))) == set()


def test_a_scope_that_no_input_needs_any_more_is_not_kept(rules: Rules) -> None:
    report = rules.step(OLD, version(READ, scopes=SCOPES))
    assert said(report) == {("lockstep.scope-kept", "files:write"), ("lockstep.alone", "inputs")}
    kept = the(report, "lockstep.scope-kept")
    assert kept.witness == {"mode": "write"}
    assert "work" in kept.what
    assert kept.place.source.strip().startswith('"files:write"')


def test_a_scope_that_inputs_still_need_is_not_cut(rules: Rules) -> None:
    report = rules.step(OLD, version(BOTH, scopes={"files:read": True}))
    assert said(report) == {("lockstep.schema-kept", "files:write"), ("lockstep.alone", "scopes")}
    cut = the(report, "lockstep.schema-kept")
    assert cut.witness == {"mode": "write"}
    assert [place.tree for place, _ in cut.related] == ["base"]


def test_a_scope_that_one_task_loses_and_another_keeps_is_no_cut(rules: Rules) -> None:
    tasks = {"work": task("files:read", "files:write"), "more": task("files:write", "files:read")}
    old = version(BOTH, scopes=SCOPES, tasks=tasks)
    new = version(BOTH, scopes=SCOPES, tasks={**tasks, "work": task("files:read")})
    assert said(rules.step(old, new)) == set()


def test_a_condition_that_no_longer_holds_for_an_accepted_input_cuts_the_scope(rules: Rules) -> None:
    three = inputs(["mode"], mode=["read", "write", "admin"])
    old = version(three, scopes={"files:read": True, "files:write": needs("mode", "write", "admin")})
    new = version(three, scopes={"files:read": True, "files:write": needs("mode", "write")})
    report = rules.step(old, new)
    assert ("lockstep.schema-kept", "files:write") in said(report)
    assert the(report, "lockstep.schema-kept").witness == {"mode": "admin"}


def test_a_condition_that_is_false_cuts_the_scope_though_its_name_stays(rules: Rules) -> None:
    new = version(BOTH, scopes={"files:read": True, "files:write": False})
    assert {rule for rule, _ in said(rules.step(OLD, new))} == {"lockstep.schema-kept", "lockstep.scope-kept"}


def test_a_condition_that_asks_for_one_no_longer_holds_for_true(rules: Rules) -> None:
    schema = inputs(["force"], force={"type": ["boolean", "integer"]})
    before, after = (version(schema, scopes={"files:read": True, "files:write": needs("force", v)}) for v in (True, 1))
    report = rules.step(before, after)
    assert said(report) == {("lockstep.schema-kept", "files:write"), ("scope.widened", "files:write")}
    assert the(report, "lockstep.schema-kept").witness == {"force": True}
    assert the(report, "scope.widened").witness == {"force": 1}


def test_terms_that_need_true_and_one_between_them_bind_both(rules: Rules) -> None:
    schema = inputs(["force", "a", "b"], force={"enum": [True, 1]}, a=SAFE, b=SAFE)
    bound = {"files:{/a}": needs("force", True), "files:{/b}": needs("force", 1)}
    report = rules.step(version(schema, scopes={"files": True}), version(schema, scopes=bound))
    assert "lockstep.schema-kept" not in {rule for rule, _ in said(report)}


def test_inputs_lost_alone_are_refused_with_an_input_that_is_lost(rules: Rules) -> None:
    old = version(inputs(note={"type": "string"}), scopes={"files:read": True})
    report = rules.step(old, version(inputs(note=LONGER), scopes={"files:read": True}))
    found = the(report, "lockstep.alone")
    assert found.severity is Severity.REFUSED
    assert isinstance(found.witness, dict)
    assert len(str(found.witness["note"])) > 40
    assert "unrelated" in found.mend


def test_a_reason_excuses_inputs_that_no_scope_and_no_permission_depends_on(rules: Rules) -> None:
    old = version(inputs(note={"type": "string"}), scopes={"files:read": True})
    new = version(inputs(note=LONGER), scopes={"files:read": True}, unrelated="a note is a note")
    assert said(rules.step(old, new)) == set()


@pytest.mark.parametrize(
    ("before", "after", "scopes", "because"),
    [
        ({"path": {"type": "string"}}, {"path": LONGER}, {"files:read": True}, "its name says so"),
        ({"mode": ["a", "b"]}, {"mode": ["a"]}, {"files:read": True, "files:b": needs("mode", "a", "b")}, "depends on it"),
        ({"note": {**SAFE, "maxLength": 60}}, {"note": SAFE}, {"files:read": True, "files:on": needs("note")}, "depends on it"),
    ],
)  # fmt: skip
def test_a_reason_does_not_excuse_a_permission_that_changed(
    rules: Rules, before: dict, after: dict, scopes: dict, because: str
) -> None:
    old = version(inputs(**before), scopes=scopes)
    new = version(inputs(**after), scopes=scopes, unrelated="nothing to do with it")
    found = the(rules.step(old, new), "lockstep.alone")
    assert found.severity is Severity.REFUSED
    assert because in found.what


@pytest.mark.parametrize(
    "condition",
    [
        {"$defs": {"it": needs("m")}, "$ref": "#/$defs/it"},
        {"patternProperties": {"^m$": {"minLength": 1}}, "minProperties": 1},
        {"not": {"const": {}}},
    ],
)
def test_a_reason_does_not_excuse_what_a_condition_may_depend_on_without_naming_it(
    rules: Rules, condition: dict
) -> None:
    old, new = (
        version(inputs(m={"type": "string", "maxLength": most}), scopes={"files:read": True, "files:write": condition})
        for most in (9, 5)
    )
    report = rules.step(old, {**new, "unrelated": "A shorter word."})
    assert "what is accepted changed" in the(report, "lockstep.alone").what


def test_a_reason_does_not_excuse_a_scope_that_was_cut(rules: Rules) -> None:
    new = version(BOTH, scopes={"files:read": True}, unrelated="nobody writes")
    assert ("lockstep.alone", "scopes") in said(rules.step(OLD, new))


def test_a_reason_that_excuses_nothing_is_noticed(rules: Rules) -> None:
    report = rules.step(OLD, version(READ, scopes={"files:read": True}, unrelated="who knows"))
    assert said(report) == set()
    assert ("lockstep.alone", "unrelated") in said(report, Severity.NOTICE)


def test_in_reach_mode_inputs_lost_alone_are_a_notice_where_no_permission_changed(rules: Rules) -> None:
    old = version(inputs(note={"type": "string"}), scopes={"files:read": True})
    report = rules.step(old, version(inputs(note=LONGER), scopes={"files:read": True}), lockstep="reach")
    assert said(report) == set()
    assert ("lockstep.alone", "inputs") in said(report, Severity.NOTICE)


def test_in_reach_mode_inputs_lost_alone_are_refused_where_a_permission_changed(rules: Rules) -> None:
    old = version(inputs(path={"type": "string"}), scopes={"files:read": True})
    report = rules.step(old, version(inputs(path=LONGER), scopes={"files:read": True}), lockstep="reach")
    assert ("lockstep.alone", "inputs") in said(report)


def test_binding_an_argument_goes_with_tightening_it(rules: Rules) -> None:
    old = version(inputs(["path"], path={"type": "string", "maxLength": 9}), scopes={"files:read": True})
    both = version(inputs(["path"], path={**SAFE, "maxLength": 8}), scopes={"files:read:{/path}": True})
    alone = version(inputs(["path"], path={"type": "string", "maxLength": 9}), scopes={"files:read:{/path}": True})
    assert said(rules.step(old, both)) == set()
    assert ("lockstep.alone", "scopes") in said(rules.step(old, alone))


def test_binding_a_scope_for_some_inputs_only_leaves_others_without(rules: Rules) -> None:
    schema = inputs(["name"], name=SAFE, mode=["a", "b"])
    old = version(schema, scopes={"files:all": True, "files:read": True})
    new = version(schema, scopes={"files:all": True, "files:read:{/name}": needs("mode", "a")})
    found = the(rules.step(old, new), "lockstep.schema-kept")
    assert found.key == "files:read"
    assert found.witness["mode"] != "a" if "mode" in found.witness else True


def test_tightening_an_argument_that_a_template_names_shrinks_the_scope_with_it(rules: Rules) -> None:
    old = version(inputs(["name"], name={**SAFE, "maxLength": 40}), scopes={"files:read:{/name}": True})
    new = version(inputs(["name"], name={**SAFE, "maxLength": 20}), scopes={"files:read:{/name}": True})
    assert said(rules.step(old, new)) == set()


HARD = {"type": "string", "pattern": "^(?=[a-z]*q)[a-z]{1,30}$"}
HARDER = {"type": "string", "pattern": "^(?=[a-z]*z)[a-z]{1,30}(?<!qq)$"}


def test_what_cannot_be_told_is_undecided_and_says_what_stands_in_the_way(rules: Rules) -> None:
    old = version(inputs(["note"], note=HARD), scopes={"files:read": True})
    report = rules.step(old, version(inputs(["note"], note=HARDER), scopes={"files:read": True}))
    found = the(report, "relation.undecided", "inputs")
    assert found.severity is Severity.UNDECIDED
    assert "pattern" in found.what
    assert report.exit_code == 2


def test_an_exception_lets_an_undecided_step_through_and_stays_listed(rules: Rules) -> None:
    old = version(inputs(["note"], note=HARD), scopes={"files:read": True})
    new = version(inputs(["note"], note=HARDER), scopes={"files:read": True})
    report = rules.step(old, new, exceptions=[excepted("relation.undecided", "2", "ann", "bob")])
    assert said(report) == set()
    assert the(report, "relation.undecided").severity is Severity.EXCEPTED
    assert [use.used for use in report.exceptions] == [True]


def test_an_exception_for_one_rule_does_not_cover_another(rules: Rules) -> None:
    report = rules.step(OLD, version(READ, scopes=SCOPES), exceptions=[excepted("lockstep.alone", "2")])
    assert said(report) == {("lockstep.scope-kept", "files:write")}


@pytest.mark.parametrize("wide", [{"oneOf": [{"type": "string"}, {"type": "integer"}]}, {"$ref": "#/$defs/any"}])
def test_tightening_behind_a_choice_or_a_reference_is_tightening(rules: Rules, wide: dict) -> None:
    definitions = {"$defs": {"any": {"allOf": [{"type": ["string", "integer"]}]}}}
    old = version({**inputs(note=wide), **definitions}, scopes={"files:read": True})
    new = version({**inputs(note={"type": "integer"}), **definitions}, scopes={"files:read": True})
    assert ("lockstep.alone", "inputs") in said(rules.step(old, new))


def test_a_predecessor_is_found_without_replaces(rules: Rules) -> None:
    report = rules.report({"1": OLD, "2": version(READ, scopes=SCOPES)})
    assert ("lockstep.scope-kept", "files:write") in said(report)


def test_what_is_taken_over_by_extends_is_compared_too(rules: Rules) -> None:
    new = version(READ, extends="1")
    assert ("lockstep.scope-kept", "files:write") in said(rules.step(OLD, new))
    cut = version(READ, extends="1", scopes={"files:write": None}, tasks={"work": task("files:read")})
    assert said(rules.step(OLD, cut)) == set()


def test_one_person_does_not_excuse_what_is_unknown(rules: Rules) -> None:
    """Something could have grown behind it: that takes two, and so does not knowing."""
    old = version(inputs(["note"], note=HARD), scopes={"files:read": True})
    new = version(inputs(["note"], note=HARDER), scopes={"files:read": True})
    report = rules.step(old, new, exceptions=[excepted("relation.undecided", "2", "ann")])
    assert {"relation.undecided", "exception.invalid"} <= {
        finding.rule for finding in (*report.undecided, *report.refused)
    }
