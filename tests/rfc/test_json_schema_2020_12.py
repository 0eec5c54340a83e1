"""JSON Schema 2020-12 (core, validation), with RFC 8259 below and RFC 8785 beside it: where implementations are known to differ.

Each vector goes through the real parser, then to the validator, to the relation and to the search for common values: all have
to hold the same view. The official suite is run where it is at hand; what is refused there, and why, is listed by name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker.adapters.schemas.arithmetic import Arithmetic, open_arithmetic
from broker.domain.canonical import JsonError, canonical_json, parse_json
from broker.domain.contracts.contract import ContractError, parse_contract
from broker.domain.schema.answers import No, Unknown, Yes
from broker.domain.schema.closure import accepted_inputs
from broker.domain.schema.dialect import SchemaError
from broker.engines.arguments import ArgumentValidator
from broker.engines.schemas import compile_schema

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "json_schema.json").read_text())
SHARED = Path(__file__).parents[3] / "shared" / "data"
SUITE = SHARED / "schema" / "json-schema-test-suite" / "tests" / "draft2020-12"
READ = [vector for vector in VECTORS["values"] if vector["verdict"] != "not read"]

# Nothing is fetched: these groups refer to documents that the suite serves on a port.
REMOTE = {
    "dynamicRef.json": {
        "strict-tree schema, guards against misspelled properties",
        "tests for implementation dynamic anchor and reference link",
        "$ref and $dynamicAnchor are independent of order - $defs first",
        "$ref and $dynamicAnchor are independent of order - $ref first",
        "$ref to $dynamicRef finds detached $dynamicAnchor",
    },
    "optional/cross-draft.json": {"refs to historic drafts are processed as historic drafts"},
    "refRemote.json": {
        "remote ref",
        "fragment within remote ref",
        "anchor within remote ref",
        "ref within remote ref",
        "base URI change",
        "base URI change - change folder",
        "base URI change - change folder in subschema",
        "root ref in remote ref",
        "remote ref with ref to defs",
        "Location-independent identifier in remote ref",
        "retrieved nested refs resolve relative to their URI not $id",
        "remote HTTP ref with different $id",
        "remote HTTP ref with different URN $id",
        "remote HTTP ref with nested absolute ref",
        "$ref to $ref finds detached $anchor",
    },
}
# A dialect that its author made up has no one reading here.
OWN_DIALECT = {
    "optional/format-assertion.json": {
        "schema that uses custom metaschema with format-assertion: false",
        "schema that uses custom metaschema with format-assertion: true",
    },
    "vocabulary.json": {
        "schema that uses custom metaschema with with no validation vocabulary",
        "ignore unrecognized optional vocabulary",
    },
}


@pytest.fixture(scope="module")
def arithmetic() -> Iterator[Arithmetic]:
    made = open_arithmetic(None)
    yield made
    made.close()


def names(vectors) -> list[str]:
    return [vector["name"] for vector in vectors]


@pytest.mark.parametrize("vector", VECTORS["values"], ids=names(VECTORS["values"]))
def test_a_text_is_read_and_gets_its_verdict_from_the_validator(vector):
    if vector["verdict"] == "not read":
        with pytest.raises(JsonError):
            parse_json(vector["text"])
    else:
        accepts = compile_schema(vector["schema"], "").is_valid
        assert accepts(parse_json(vector["text"])) is (vector["verdict"] == "valid")


@pytest.mark.parametrize("vector", READ, ids=names(READ))
def test_the_relation_and_the_common_values_hold_the_validators_view(arithmetic, vector):
    value, schema = parse_json(vector["text"]), vector["schema"]
    valid = vector["verdict"] == "valid"
    lost = arithmetic.relate({"const": value}, schema).lost
    shared = arithmetic.common([{"const": value}, schema])
    if vector.get("relation") == "undecided":
        assert isinstance(lost, Unknown)
        assert isinstance(shared, Unknown)
        return
    assert isinstance(lost, No if valid else Yes)
    assert isinstance(shared, Yes if valid else No)


@pytest.mark.parametrize("vector", READ, ids=names(READ))
def test_an_argument_gets_the_same_verdict_at_the_gate(vector):
    value = parse_json(vector["text"])
    schema = {"type": "object", "properties": {"v": {"allOf": [vector["schema"]], "additionalProperties": {}}}}
    contract = {"name": "t", "inputSchema": schema}
    if "993" in json.dumps(vector["schema"]):
        with pytest.raises(ContractError, match=r"beyond 2\^53"):
            parse_contract(contract)
        return
    gate = ArgumentValidator(parse_contract(contract))
    assert gate.accepts({"v": value}) is (vector["verdict"] == "valid")


def test_arguments_that_are_no_object_are_refused_whatever_the_schema_says_of_them(arithmetic):
    schema = {"properties": {"a": {"type": "string"}}, "required": ["a"]}
    assert compile_schema(schema, "").is_valid("str")
    assert not arithmetic.accepts(accepted_inputs(schema), "str")
    with pytest.raises(ContractError, match='"type": "object"'):
        parse_contract({"name": "t", "inputSchema": schema})


@pytest.mark.parametrize("vector", VECTORS["canonical"], ids=names(VECTORS["canonical"]))
def test_a_text_has_its_canonical_bytes_or_none(vector):
    if "error" in vector:
        with pytest.raises(JsonError, match=vector["error"].replace("^", r"\^")):
            canonical_json(parse_json(vector["text"]))
    else:
        assert canonical_json(parse_json(vector["text"])) == vector["bytes"].encode()


@pytest.mark.shared
@pytest.mark.parametrize("case", ["F4-01", "F4-04", "F4-06"])
def test_the_vectors_hold_every_variant_of_the_shared_case(case):
    if not SHARED.is_dir():
        pytest.skip("the folder ../shared/data is not here")
    cases = [json.loads(line) for line in (SHARED / "cases.jsonl").read_text().split("\n") if line]
    variants = next(known for known in cases if known["id"] == case)["input"]["variants"]
    here = {name.partition(",")[0] for name in names(VECTORS["values"]) + names(VECTORS["canonical"])}
    assert {f"{case} {variant}" for variant in variants} <= here


def suite() -> Iterator[tuple[str, dict]]:
    if not SUITE.is_dir():
        pytest.skip("the folder ../shared/data is not here")
    for path in sorted(SUITE.rglob("*.json")):
        if "format" not in path.parts:  # `format` is an annotation
            for group in json.loads(path.read_text()):
                yield str(path.relative_to(SUITE)), group


def as_object(schema):
    return schema if isinstance(schema, dict) else {"allOf": [schema]}


@pytest.mark.shared
def test_the_validator_passes_the_official_suite_except_what_it_refuses_to_read():
    refused: dict[str, set[str]] = {}
    wrong, right = [], 0
    for file, group in suite():
        try:
            accepts = compile_schema(as_object(group["schema"]), "").is_valid
        except ContractError:
            refused.setdefault(file, set()).add(group["description"])
            continue
        for case in group["tests"]:
            if accepts(case["data"]) is case["valid"]:
                right += 1
            else:
                wrong.append((file, group["description"], case["description"]))
    assert wrong == []
    assert refused == REMOTE | OWN_DIALECT
    assert right > 1_400


@pytest.mark.shared
def test_no_claim_about_a_schema_of_the_official_suite_contradicts_its_verdicts(arithmetic, capsys):
    wrong: list[tuple[str, str, str]] = []
    claims = undecided = 0
    for file, group in suite():
        schema = as_object(group["schema"])
        for case in group["tests"]:
            try:
                value = parse_json(json.dumps(case["data"]))
            except JsonError:
                continue
            for claim, answer in (
                (case["valid"], arithmetic.common([{"const": value}, schema])),
                (not case["valid"], arithmetic.relate({"const": value}, schema).lost),
            ):
                claims += not isinstance(answer, Unknown)
                undecided += isinstance(answer, Unknown)
                if isinstance(answer, No if claim else Yes):
                    wrong.append((file, group["description"], case["description"]))
    with capsys.disabled():
        print(f"\nofficial suite: {claims} claims, {undecided} undecided")
    assert wrong == []
    assert undecided < claims / 5


@pytest.mark.shared
def test_a_closed_schema_of_the_official_suite_accepts_nothing_more():
    for _, group in suite():
        schema = as_object(group["schema"])
        try:
            own, checked = compile_schema(schema, "").is_valid, compile_schema(accepted_inputs(schema), "").is_valid
        except (ContractError, SchemaError):
            continue
        more = [case["description"] for case in group["tests"] if checked(case["data"]) and not own(case["data"])]
        assert more == [], group["description"]
