"""The shipped policies do what their own tests say, and what the published JSON Schema says."""

from __future__ import annotations

from pathlib import Path

import jsonschema_rs
import pytest
import yaml
from broker.adapters.policyfile.folder import load_tree
from broker.app.arguments import CompiledArguments
from broker.cli.policy import spell_schema
from broker.domain.canonical import parse_json_object
from broker.domain.policy.trials import Status
from broker.services.policy_test import PolicyTester

ROOT = Path(__file__).parents[4]
TREE = load_tree(ROOT / "policies", with_keys=False)
RUN = PolicyTester(CompiledArguments()).run(TREE)


@pytest.mark.parametrize("result", RUN.results, ids=[f"{one.case.tool}: {one.case.name}" for one in RUN.results])
def test_a_case_of_the_shipped_tests_comes_out_as_it_says(result):
    assert result.status is Status.OK, (result.departs, result.outcome)


def test_every_shipped_tool_has_cases():
    assert len(RUN.results) >= 80
    assert RUN.untested == ()


@pytest.mark.parametrize("kind", ["policy", "trust", "tests", "exceptions"])
def test_the_shipped_schema_is_the_one_that_the_reader_goes_by(kind):
    shipped = (ROOT / "broker" / "docs" / f"{kind}.schema.json").read_text()
    assert shipped == spell_schema(kind), f"broker policy schema {kind} > broker/docs/{kind}.schema.json"


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("db.query.yaml", "policy"),
        ("files.read.yaml", "policy"),
        ("trust.yaml", "trust"),
        ("tests/db.query.yaml", "tests"),
        ("tests/files.read.yaml", "tests"),
    ],
)
def test_the_shipped_files_fit_the_shipped_schema(file, kind):
    schema = parse_json_object((ROOT / "broker" / "docs" / f"{kind}.schema.json").read_bytes())
    jsonschema_rs.Draft202012Validator(schema).validate(yaml.safe_load((ROOT / "policies" / file).read_text()))


@pytest.mark.parametrize(
    ("kind", "document"),
    [
        (
            "policy",
            {
                "tool": "a",
                "audience": "https://a",
                "owners": ["a"],
                "versions": {"1": {"contract": "contracts/a.json"}},
            },
        ),
        ("policy", {"tool": "a", "audience": "https://a", "owners": ["a"], "versions": {}}),
        ("policy", {"tool": "a", "audience": "https://a", "owners": ["a"], "version": {}}),
        ("trust", {"issuers": {}, "clients": {}}),
        ("tests", {"tool": "a", "cases": [{"name": "b", "request": {}, "permit": ["a"]}]}),
    ],
)
def test_the_shipped_schema_refuses_what_the_reader_refuses(kind, document):
    schema = parse_json_object(spell_schema(kind))
    assert not jsonschema_rs.Draft202012Validator(schema).is_valid(document)


def test_the_shipped_folder_holds_no_keys():
    assert not (ROOT / "policies" / "keys").exists()
