"""The rules about one version by itself: scopes that are dead or missing, arguments that nothing bounds, empty contracts."""

from __future__ import annotations

from typing import Any

import pytest
from broker.domain.policy.findings import Severity
from broker.domain.schema.closure import accepted_inputs

from rules_parts import SAFE, Rules, inputs, needs, said, task, the, version

TEXT = {"type": "string"}


def alone(rules: Rules, schema: dict[str, Any], scopes: dict[str, Any] | None = None, **more: Any) -> Any:
    return rules.report({"1": version(schema, scopes=scopes or {"files:read": True}, **more)})


def test_a_scope_that_no_input_needs_is_dead(rules: Rules) -> None:
    report = alone(rules, inputs(mode=["read"]), {"files:read": True, "files:write": needs("mode", "write")})
    assert said(report) == {("scope.dead", "files:write")}
    assert not the(report, "scope.dead").has_witness


def test_a_scope_that_an_input_needs_and_no_task_grants_is_missing(rules: Rules) -> None:
    scopes = {"files:read": True, "files:write": needs("mode", "write")}
    report = alone(rules, inputs(mode=["read", "write"]), scopes, tasks={"work": task("files:read")})
    assert said(report) == {("scope.missing", "files:write")}
    assert the(report, "scope.missing").witness == {"mode": "write"}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("path", "path"), ("outputDir", "path"), ("file_name", "path"), ("webhook-url", "url"), ("host", "host"),
        ("command", "command"), ("sql", "query"), ("code", "code"), ("branch", "ref"), ("base_ref", "ref"),
    ],
)  # fmt: skip
def test_free_text_that_is_a_permission_by_its_name_is_flagged_with_an_attack(
    rules: Rules, arithmetic: Any, name: str, kind: str
) -> None:
    schema = inputs([name], **{name: TEXT})
    found = the(alone(rules, schema), "argument.undeclared")
    assert found.key == f"/{name}"
    assert f" a {kind}" in found.what.replace("URL", "url")
    assert arithmetic.accepts(accepted_inputs(schema), found.witness)


@pytest.mark.parametrize(
    "schema",
    [
        TEXT,
        {**TEXT, "maxLength": 200},
        {**TEXT, "pattern": "^.*$"},
        {**TEXT, "pattern": "^[a-z./]+$"},
        {**TEXT, "pattern": "^/srv/.*$"},
        {"type": ["string", "null"]},
        {"anyOf": [TEXT, {"type": "integer"}]},
        {"allOf": [TEXT, {"minLength": 3}]},
        {"$ref": "#/$defs/text"},
        {"type": "array", "items": TEXT},
        {"type": "array"},
        {"type": "array", "prefixItems": [TEXT]},
        {"not": {"const": ""}},
        {"if": TEXT, "then": {"minLength": 1}},
        {"properties": {"depth": {"type": "integer"}}},
        True,
        {},
    ],
)
def test_no_form_of_schema_hides_a_path_that_leads_anywhere(rules: Rules, schema: Any) -> None:
    whole = {**inputs(["path"], path=schema), "$defs": {"text": TEXT}}
    assert ("argument.undeclared", "/path") in said(alone(rules, whole))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"path": TEXT}},
        {"type": "array", "items": {"type": "object", "properties": {"path": TEXT}}},
        {"oneOf": [{"type": "object", "properties": {"path": TEXT}}, {"type": "integer"}]},
    ],
)
def test_a_path_is_found_below_objects_lists_and_choices(rules: Rules, schema: dict) -> None:
    assert ("argument.undeclared", "/to/path") in said(alone(rules, {"type": "object", "properties": {"to": schema}}))


def test_a_path_that_only_another_argument_brings_in_is_found(rules: Rules) -> None:
    schema = {
        "type": "object",
        "properties": {"mode": {"enum": ["a"]}},
        "dependentSchemas": {"mode": {"properties": {"path": TEXT}}},
    }
    assert ("argument.undeclared", "/path") in said(alone(rules, schema))


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        ({**TEXT, "pattern": "^[A-Za-z0-9_-]+$"}, {}),
        ({"enum": ["a", "../b"]}, {}),
        (TEXT, {"/path": {"kind": "path", "within": ["/srv"]}}),
        (TEXT, {"/path": {"kind": "path", "enforced_by": ["files:read"]}}),
    ],
)
def test_a_path_that_is_bounded_is_not_flagged(rules: Rules, schema: dict, arguments: dict) -> None:
    assert said(alone(rules, inputs(path=schema), arguments=arguments)) == set()


def test_a_template_bounds_the_argument_that_it_names(rules: Rules) -> None:
    arguments = {"/path": {"kind": "path"}}
    schema = inputs(["path"], path={**TEXT, "pattern": "^[a-z./]+$"})
    assert said(alone(rules, schema, {"files:read:{/path}": True}, arguments=arguments)) == set()


@pytest.mark.parametrize(
    ("scopes", "granted", "argument"),
    [
        ({"files:read": True, "files:other": False}, ["files:read"], {"enforced_by": ["files:other"]}),
        ({"files:read": True, "files:at:{/path}": False}, ["files:read"], {}),
        ({"files:read": True, "files:at:{/path}": True}, ["files:read"], {}),
        ({"files:read": True, "files:at:{/path}": needs("mode", "at")}, None, {}),
        ({"files:read": True}, None, {"within": ["/"]}),
    ],
)
def test_what_looks_like_a_bound_and_is_none_does_not_count(
    rules: Rules, scopes: dict, granted: list[str] | None, argument: dict
) -> None:
    tasks = {"work": task(*(granted or scopes))}
    schema = inputs(["path"], path={**TEXT, "pattern": "^[a-z./]+$"}, mode=["at", "on"])
    arguments = {"/path": {"kind": "path", **argument}}
    report = alone(rules, schema, scopes, tasks=tasks, arguments=arguments)
    found = the(report, "argument.undeclared")
    assert found.key == "/path"
    assert "mode" not in found.witness or found.witness["mode"] != "at"


def test_an_argument_that_says_in_words_what_it_is_is_flagged(rules: Rules) -> None:
    schema = inputs(target={**TEXT, "description": "The absolute path of the file."})
    assert ("argument.undeclared", "/target") in said(alone(rules, schema))


def test_a_contract_with_more_arguments_than_are_looked_at_is_undecided(rules: Rules) -> None:
    schema = inputs(path=TEXT, **{f"note{number}": TEXT for number in range(600)})
    assert ("relation.undecided", "") in said(alone(rules, schema))


def test_a_path_nested_deeper_than_is_looked_at_is_undecided(rules: Rules) -> None:
    schema = inputs(path=TEXT)
    for number in range(13):
        schema = inputs(**{f"level{number}": schema})
    assert ("relation.undecided", "") in said(alone(rules, schema))


def test_a_path_behind_more_choices_than_are_looked_at_is_undecided(rules: Rules) -> None:
    others = [inputs([f"one{number}"], **{f"one{number}": [number]}) for number in range(140)]
    schema = inputs(what={"anyOf": [inputs(["path"], path=TEXT), *others]})
    assert ("relation.undecided", "") in said(alone(rules, schema))


@pytest.mark.parametrize("value", [TEXT, {**TEXT, "pattern": "^[a-z:]+$"}, {**TEXT, "pattern": "^[a-z]*$"}])
def test_a_value_that_no_scope_can_carry_is_refused_where_a_template_names_it(
    rules: Rules, arithmetic: Any, value: dict
) -> None:
    schema = inputs(["name"], name=value)
    found = the(alone(rules, schema, {"files:read:{/name}": True}), "argument.separator")
    assert arithmetic.accepts(accepted_inputs(schema), found.witness)
    assert not found.witness["name"] or set(found.witness["name"]) - set("abcdefghijklmnopqrstuvwxyz")


@pytest.mark.parametrize("value", [SAFE, {"type": "integer"}, {"enum": ["a", "b-c"]}])
def test_a_value_that_a_scope_can_carry_is_lawful(rules: Rules, value: dict) -> None:
    assert said(alone(rules, inputs(["name"], name=value), {"files:read:{/name}": True})) == set()


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "additionalProperties": True},
        {"type": "object", "$ref": "#/$defs/any", "$defs": {"any": {"type": "object"}}},
        {"type": "object", "properties": {}, "additionalProperties": {}},
    ],
)
def test_a_contract_that_takes_everything_is_refused(rules: Rules, schema: dict) -> None:
    assert ("contract.anything", "contract") in said(alone(rules, schema))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {}},
        {"type": "object", "additionalProperties": False},
        {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": True},
        {"type": "object", "additionalProperties": {"type": "integer"}},
    ],
)
def test_a_contract_that_says_what_it_takes_is_lawful(rules: Rules, schema: dict) -> None:
    assert "contract.anything" not in {rule for rule, _ in said(alone(rules, schema))}


def test_versions_that_grant_the_same_answer_each_for_themselves(rules: Rules) -> None:
    one = version(inputs(path=TEXT), scopes={"files:read": True})
    report = rules.report({"1": one, "2": one})
    found = [finding for finding in report.findings if finding.rule == "argument.undeclared"]
    assert [finding.version for finding in found] == ["1", "2"]
    assert [finding.place.file for finding in found] == ["contracts/files.read/1.json", "contracts/files.read/2.json"]


def test_what_is_published_already_is_noticed_and_does_not_stop_the_rest(rules: Rules) -> None:
    one = {"1": version(inputs(path=TEXT), scopes={"files:read": True})}
    report = rules.report(one, one)
    assert said(report) == set()
    assert ("argument.undeclared", "/path") in said(report, Severity.NOTICE)
