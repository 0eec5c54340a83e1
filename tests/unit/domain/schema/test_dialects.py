"""Every keyword in every dialect: the newest form of a schema accepts what the schema itself accepts, value by value."""

from __future__ import annotations

from typing import Any

import pytest
from broker.domain.contracts.contract import ContractError
from broker.domain.schema.dialect import SchemaError, modern
from broker.engines.schemas import compile_schema

DIALECTS = {
    4: "http://json-schema.org/draft-04/schema#",
    6: "http://json-schema.org/draft-06/schema#",
    7: "http://json-schema.org/draft-07/schema#",
    2019: "https://json-schema.org/draft/2019-09/schema",
    2020: "https://json-schema.org/draft/2020-12/schema",
}
SCHEMAS: tuple[dict[str, Any], ...] = (
    {"contentMediaType": "application/json"},
    {"contentEncoding": "base64"},
    {"contentMediaType": "application/json", "contentSchema": {"type": "string"}},
    {"format": "email"},
    {"dependencies": {"a": ["b"]}},
    {"dependencies": {"a": {"required": ["b"]}}},
    {"dependencies": {"a": ["b"]}, "dependentRequired": {"b": ["a"]}},
    {"dependencies": {"a": {"required": ["b"]}}, "dependentSchemas": {"b": {"required": ["a"]}}, "allOf": [{}]},
    {"properties": {"a": {"dependencies": {"x": ["y"]}}}},
    {"dependentRequired": {"a": ["b"]}},
    {"dependentSchemas": {"a": False}},
    {"additionalItems": False},
    {"items": [{"type": "string"}], "additionalItems": False},
    {"items": [{"type": "string"}]},
    {"prefixItems": [{"type": "string"}]},
    {"prefixItems": [True], "items": False},
    {"items": {"type": "integer"}},
    {"const": 1},
    {"contains": {"const": 1}},
    {"contains": {"const": 1}, "minContains": 0},
    {"contains": {"const": 1}, "maxContains": 1},
    {"minContains": 2},
    {"propertyNames": {"maxLength": 1}},
    {"exclusiveMinimum": 1},
    {"minimum": 1, "exclusiveMinimum": True},
    {"exclusiveMaximum": True},
    {"if": {"type": "object"}, "then": False},
    {"unevaluatedProperties": False},
    {"unevaluatedItems": False},
    {"$recursiveAnchor": True},
    {"$ref": "#/definitions/s", "maxLength": 1, "definitions": {"s": {"type": "string"}}},
    {"$ref": "#/$defs/s", "minLength": 1, "$defs": {"s": {"type": "string"}}},
    {"$anchor": "here", "properties": {"a": {"$ref": "#here"}}, "type": "object"},
    {"type": "string", "nullable": True},
    {"disallow": "string", "divisibleBy": 2, "extends": {"type": "string"}},
    {"maxLength": 2.0},
    {"multipleOf": 0.5},
)
VALUES: tuple[Any, ...] = (
    "zz", "aaa", "[1]", "aGk=", "", None, True, 1, 2, 2.5, {}, {"a": 1}, {"a": {}}, {"a": {"x": 1}}, {"a": 1, "b": 1},
    {"b": 1}, {"ab": 1}, [], [1], ["a"], ["a", 1], [1, 1], ["a", "b"],
)  # fmt: skip


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_newest_form_accepts_what_the_dialect_accepts(dialect):
    asked = 0
    for keywords in SCHEMAS:
        schema = {"$schema": DIALECTS[dialect], **keywords}
        try:
            own = compile_schema(schema, "").is_valid
        except ContractError:
            continue  # the dialect does not allow the schema
        newest = compile_schema(modern(schema), "").is_valid
        assert [value for value in VALUES if own(value) != newest(value)] == [], schema
        asked += 1
    assert asked > len(SCHEMAS) * 3 // 4


def test_draft_04_takes_a_number_written_with_a_fraction_for_no_integer_and_the_contract_sees_to_that():
    schema = {"$schema": DIALECTS[4], "type": "integer"}
    assert not compile_schema(schema, "").is_valid(2.0)
    assert compile_schema(modern(schema), "").is_valid(2.0)


def test_what_a_text_encodes_is_no_constraint_in_any_dialect():
    for declared in DIALECTS.values():
        schema = {"$schema": declared, "properties": {"a": {"contentEncoding": "base64", "type": "string"}}}
        assert compile_schema(schema, "").is_valid({"a": "no base64 at all!"})


def test_a_schema_that_is_in_the_newest_form_is_not_copied():
    schema = {"type": "object", "properties": {"a": {"dependentRequired": {"b": ["c"]}}}}
    assert modern(schema) is schema


@pytest.mark.parametrize("keyword", ["$recursiveRef", "$dynamicRef"])
def test_a_reference_whose_target_depends_on_who_refers_is_refused(keyword):
    with pytest.raises(SchemaError, match=r"/properties/a/\$"):
        modern({"properties": {"a": {keyword: "#"}}})
