"""The shipped policies do what their own tests say, and what the published JSON Schema says."""

from __future__ import annotations

from pathlib import Path

import jsonschema_rs
import pytest
import yaml
from broker.cli.policy import spell_schema
from broker.domain.canonical import parse_json_object
from broker.domain.errors import Refusal
from broker.domain.policy.decide import Permit, decide
from broker.domain.policy.document import Principal
from broker.engines.arguments import VersionMatcher

ROOT = Path(__file__).parents[4]
CASES = [
    (path.name, case)
    for path in sorted((ROOT / "policies" / "tests").glob("*.yaml"))
    for case in yaml.safe_load(path.read_text())["cases"]
]


@pytest.mark.parametrize(("file", "case"), CASES, ids=[case["name"] for _, case in CASES])
def test_a_case_of_the_shipped_tests_comes_out_as_it_says(tree, file, case):
    policy = tree.load()
    request = case["request"]
    version = policy.tools[file.removesuffix(".yaml")].versions[request["version"]]
    arguments = request.get("arguments")
    principal = Principal(
        account_issuer=request["issuer"],
        account="account",
        agent_issuer=request["issuer"],
        agent="agent",
        client=request["client"],
        claims={name: frozenset(values) for name, values in request.get("claims", {}).items()},
        expires_at=2_000_000_000,
    )
    outcome = decide(
        version,
        principal=principal,
        task=request.get("task"),
        arguments=arguments,
        facts=None if arguments is None else VersionMatcher(version).facts(arguments),
        requested=frozenset(request["scope"]) if "scope" in request else None,
        policy=policy,
    )
    match outcome:
        case Permit():
            assert sorted(outcome.scopes) == sorted(case["permit"])
        case Refusal():
            assert outcome.reason.value == case.get("refuse"), outcome


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
