"""What the gate lets through and what the checker reasons about are the same arguments, schema by schema, value by value.

Three readings of one input schema are asked about the same values: the gate's (contract in its own dialect, and closure), the
checker's (`accepted_inputs`), and what the prover makes of the checker's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import jsonschema_rs
import pytest
from broker.adapters.schemas.arithmetic import Arithmetic, open_arithmetic
from broker.domain.contracts.contract import ContractError, parse_contract
from broker.domain.schema.answers import Blocker
from broker.domain.schema.closure import accepted_inputs, close
from broker.domain.schema.dialect import SchemaError, dialect_of
from broker.engines.arguments import ArgumentValidator
from broker.engines.schemas import compile_schema
from hypothesis import given, settings
from hypothesis import strategies as st

from schema_making import SchemaMaker
from schema_sampling import Sampler

VECTORS = Path(__file__).parents[1] / "vectors" / "closed_view.json"
CONTRACTS = Path(__file__).parents[3] / "shared" / "data" / "mcp_contracts.jsonl"
SAMPLES = 40
A = {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"properties": {"z": {}}}}, "required": ["x"]}
MAP: dict[str, Any] = {"additionalProperties": {}}
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
CORPUS: dict[str, dict[str, Any]] = {
    "oneOf": {"properties": {"a": {"oneOf": [A, {"properties": {"p": {}}, "required": ["p"]}]}}},
    "oneOf at the root": {"oneOf": [{"properties": {"a": A}, "required": ["a"]}, {"properties": {"b": {}}}]},
    "not": {"properties": {"a": A, "b": {}}, "not": {"required": ["a", "b"]}},
    "not a property": {"properties": {"a": {"properties": {"x": {}}, "not": {"properties": {"x": {"const": 1}}}}}},
    "not the whole": {
        "properties": {"a": {}, "b": MAP},
        "not": {"properties": {"b": {"$ref": "#"}}, "required": ["b"]},
    },
    "not a property's schema": {
        "properties": {"a": {"properties": {"x": {}}}, "b": MAP},
        "not": {"properties": {"b": {"$ref": "#/properties/a"}}, "required": ["b"]},
    },
    "if that the closure must not close": {
        "properties": {"a": {"properties": {"x": {}}}, "b": MAP},
        "if": {"properties": {"b": {"$ref": "#/properties/a"}}, "required": ["b"]},
        "then": {"properties": {"a": {"maxProperties": 0}}},
        "else": {"properties": {"c": {}}},
    },
    "a definition that refers to the whole": {
        "properties": {"a": {"type": "integer"}, "b": {"anyOf": [{"$ref": "#/$defs/N"}, {"type": "string"}], **MAP}},
        "$defs": {"N": {"not": {"$ref": "#"}}},
    },
    "an anchor at a property": {
        "properties": {"a": {"$anchor": "here", "properties": {"x": {}}}, "b": MAP},
        "not": {"properties": {"b": {"$ref": "#here"}}, "required": ["b"]},
    },
    "an anchor at the root": {
        "$anchor": "top",
        "properties": {"a": {}, "b": {}},
        "oneOf": [
            {"properties": {"b": {"$ref": "#top"}}, "required": ["b"]},
            {"properties": {"b": {"type": "object"}}},
        ],
    },
    "allOf": {"allOf": [{"properties": {"a": A}}, {"properties": {"b": {}}}], "properties": {"c": A}},
    "if": {
        "properties": {"a": {}},
        "if": {"required": ["a"]},
        "then": {"properties": {"b": A}},
        "else": {"required": ["b"]},
    },
    "$ref": {"properties": {"a": {"$ref": "#/$defs/A"}, "b": {"not": {"$ref": "#/$defs/A"}}}, "$defs": {"A": A}},
    "recursion": {
        "properties": {"node": {"$ref": "#/$defs/N"}},
        "$defs": {"N": {"properties": {"next": {"$ref": "#/$defs/N"}, "v": {"type": "integer"}}}},
    },
    "recursion through the root": {"properties": {"self": {"$ref": "#"}, "v": {"type": "integer"}}, "minProperties": 1},
    "dependentSchemas": {
        "properties": {"a": {}},
        "dependentSchemas": {"a": {"properties": {"b": A}, "required": ["b"]}},
    },
    "patternProperties": {"patternProperties": {"^a": A, "b$": {"type": "object"}}},
    "a map": {"properties": {"env": {"type": "object", "additionalProperties": A}}},
    "a free map": {"properties": {"env": {"type": "object", "additionalProperties": True}}},
    "said to be open": {"properties": {"a": A}, "additionalProperties": True},
    "unevaluatedProperties": {"allOf": [{"properties": {"a": A}}], "unevaluatedProperties": A},
    "a list": {"properties": {"l": {"type": "array", "items": A, "contains": {"required": ["y"]}}}},
    "a tuple": {"properties": {"l": {"prefixItems": [A, {"type": "string"}], "items": False}}},
    "a choice with null": {"properties": {"a": {"anyOf": [A, {"type": "null"}]}}},
    "draft-07": {
        "$schema": DRAFT_7,
        "properties": {
            "a": {"$ref": "#/definitions/A", "maxProperties": 0},
            "l": {"items": [A], "additionalItems": False},
        },
        "dependencies": {"a": ["l"], "l": {"properties": {"b": {}}}},
        "definitions": {"A": A},
    },
    "draft-07, with keywords that came later": {
        "$schema": DRAFT_7,
        "properties": {"a": A},
        "dependentRequired": {"a": ["zz"]},
        "unevaluatedProperties": False,
        "not": {"properties": {"a": {"$ref": "#"}}, "required": ["a"]},
    },
    "dependencies, which 2020-12 no longer has": {"properties": {"a": A, "b": {}}, "dependencies": {"a": ["b"]}},
    "draft-07, with contents": {
        "$schema": DRAFT_7,
        "properties": {"a": {"type": "string", "contentEncoding": "base64", "contentMediaType": "application/json"}},
    },
    "draft-04": {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "properties": {"n": {"type": "integer", "minimum": 1, "exclusiveMinimum": True}, "a": A, "c": {"const": 1}},
    },
}


def own(schema: dict[str, Any]) -> Any:
    """The schema's own validator, in its own dialect."""
    return compile_schema(schema, "").is_valid


def newest(schema: dict[str, Any]) -> Any:
    return jsonschema_rs.Draft202012Validator(schema, offline=True, validate_formats=False).is_valid


@pytest.fixture(scope="module")
def prover() -> Iterator[Arithmetic]:
    made = open_arithmetic(None)
    yield made
    made.close()


def as_proved(prover: Arithmetic, schema: dict[str, Any]) -> Any:
    """The schema as the prover has taken it in, where it can say that: the schema without nothing."""
    made = prover.difference(schema, {"not": {}})
    return newest(schema if made is None else made)


def with_fractions(value: Any) -> bool:
    """Whether a whole number is written with a fraction somewhere: draft-04 takes 2.0 for no integer."""
    if isinstance(value, dict | list):
        return any(map(with_fractions, value.values() if isinstance(value, dict) else value))
    return isinstance(value, float) and value.is_integer()


def claims_nothing(prover: Arithmetic, schema: dict[str, Any]) -> bool:
    """Whether the checker has no reading either of a schema that the gate does not take."""
    try:
        own(schema)
        return isinstance(prover.compiled(accepted_inputs(schema)), Blocker)
    except (ContractError, SchemaError):
        return True


def views_agree(prover: Arithmetic, schema: dict[str, Any], chance: Random, samples: int = SAMPLES) -> tuple[int, int]:
    """Ask all readings about values by chance; how many were accepted, and of how many."""
    try:
        contract = parse_contract({"name": "t", "inputSchema": schema})
    except ContractError as error:
        if "beyond 2^53" not in str(error):
            raise
        return 0, 0
    try:
        gate = ArgumentValidator(contract).accepts
    except ContractError:
        assert claims_nothing(prover, schema)
        return 0, 0
    checked = accepted_inputs(schema)
    in_schema, in_closure, in_checked = own(schema), newest(close(schema)), newest(checked)
    in_proof = as_proved(prover, checked)
    accepted = 0
    values = list(Sampler(chance, checked, schema).values(samples))
    if dialect_of(schema) == 4:
        values = [value for value in values if not with_fractions(value)]
    for value in values:
        assert not in_closure(value) or in_schema(value), f"the closure accepts what the schema refuses: {value!r}"
        assert in_checked(value) == in_proof(value), f"the prover reads the schema differently: {value!r}"
        if isinstance(value, dict):
            assert gate(value) == in_checked(value), f"gate and checker disagree: {value!r}"
            accepted += in_checked(value)
        else:
            assert not in_checked(value), "arguments are an object"
    return accepted, len(values)


@pytest.mark.parametrize("name", CORPUS)
def test_the_gate_and_the_checker_agree_on_the_corpus(prover, name):
    accepted, tried = views_agree(prover, {"type": "object", **CORPUS[name]}, Random(name), 400)
    assert 0 < accepted < tried


@given(st.integers(0, 2**32))
@settings(deadline=None, max_examples=250, derandomize=True)
def test_they_agree_on_schemas_by_chance(prover, seed):
    chance = Random(seed)
    views_agree(prover, {**SchemaMaker(chance).document(), "type": "object"}, chance)


@given(st.integers(0, 2**32))
@settings(deadline=None, max_examples=250, derandomize=True)
def test_they_agree_on_schemas_in_older_dialects(prover, seed):
    chance = Random(seed)
    maker = SchemaMaker(chance)
    schema = {**maker.older(maker.document()), "type": "object"}
    try:
        own(schema)
    except ContractError:
        return
    views_agree(prover, schema, chance)


def test_they_agree_on_the_vectors_of_the_closed_view(prover):
    for vector in json.loads(VECTORS.read_text())["vectors"]:
        views_agree(prover, vector["schema"], Random(vector["name"]))


@pytest.mark.shared
def test_they_agree_on_every_real_contract(prover):
    if not CONTRACTS.is_file():
        pytest.skip("the folder ../shared/data is not here")
    for line in CONTRACTS.read_text().splitlines():
        contract = json.loads(line)["contract"]
        if contract.get("inputSchema"):
            views_agree(prover, {**contract["inputSchema"], "type": "object"}, Random(contract["name"]), 25)
