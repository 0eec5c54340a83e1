"""The closed view refuses names that a schema does not know, and keeps the meaning of everything else."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import jsonschema_rs
import pytest
from broker.domain.schema.closure import close, omitted_defaults, required_defaults
from broker.domain.schema.dialect import SchemaError, dialect_of, modern

VECTORS = json.loads((Path(__file__).parents[3] / "vectors" / "closed_view.json").read_text())["vectors"]
SHARED = Path(__file__).parents[5] / "shared" / "data" / "cases.jsonl"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def accepts(schema, value) -> bool:
    """Whether a value is accepted by the schema in its own dialect and by its closed view."""
    own = jsonschema_rs.validator_for(schema, offline=True)
    return own.is_valid(value) and jsonschema_rs.Draft202012Validator(close(schema), offline=True).is_valid(value)


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_a_vector_gets_its_verdict(vector):
    assert accepts(vector["schema"], vector["arguments"]) is (vector["verdict"] == "accept")


@pytest.mark.shared
def test_the_vectors_hold_every_variant_of_the_shared_case():
    if not SHARED.exists():
        pytest.skip("the folder ../shared/data is not here")
    cases = [json.loads(line) for line in SHARED.read_text().split("\n") if line]
    case = next(case for case in cases if case["id"] == "F3-03")
    # A repeated JSON name never reaches a validator; a property with a default is `omitted_defaults`.
    variants = set(case["input"]["variants"]) - {"dup_json_key", "absent_default"}
    assert {vector["name"] for vector in VECTORS} == {f"F3-03 {variant}" for variant in variants}


NODE = {"type": "object", "properties": {"name": {"type": "string"}, "next": {"$ref": "#/$defs/Node"}}}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"properties": {"a": {}}, "additionalProperties": True}, {"a": 1}, {"b": 1}),
        ({"properties": {"a": {}}, "unevaluatedProperties": True}, {"a": 1}, {"b": 1}),
        ({"properties": {"a": {"properties": {"b": {}}}}}, {"a": {"b": 1}}, {"a": {"c": 1}}),
        ({"properties": {"a": True}}, {"a": {}}, {"a": {"c": 1}}),
        ({"properties": {"a": {"items": {"properties": {"b": {}}}}}}, {"a": [{"b": 1}]}, {"a": [{"c": 1}]}),
        ({"properties": {"a": {"prefixItems": [{"properties": {"b": {}}}]}}}, {"a": [{"b": 1}]}, {"a": [{"c": 1}]}),
        ({"$ref": "#/$defs/Node", "$defs": {"Node": NODE}}, {"next": {"name": "x"}}, {"next": {"next": {"nam": "x"}}}),
        ({"properties": {"self": {"$ref": "#"}, "a": {}}}, {"self": {"self": {"a": 1}}}, {"self": {"self": {"b": 1}}}),
        (
            {
                "properties": {"a": {"$ref": "#/$defs/A"}},
                "$defs": {"A": {"properties": {"b": {}}, "additionalProperties": True}},
            },
            {"a": {"b": 1}},
            {"a": {"c": 1}},
        ),
        (
            {"properties": {"a": {"$ref": "#x"}}, "$defs": {"X": {"$anchor": "x", "properties": {"b": {}}}}},
            {"a": {"b": 1}},
            {"a": {"c": 1}},
        ),
        (
            {"properties": {"a": {"anyOf": [{"properties": {"b": {}}}, {"type": "null"}]}}},
            {"a": {"b": 1}},
            {"a": {"c": 1}},
        ),
        ({"if": {"required": ["a"]}, "then": {"properties": {"a": {}, "b": {}}}}, {"a": 1, "b": 2}, {"b": 2}),
        ({"properties": {"a": {}}, "dependentSchemas": {"a": {"properties": {"b": {}}}}}, {"a": 1, "b": 2}, {"b": 2}),
    ],
)
def test_a_name_that_is_not_known_is_refused_at_every_position(schema, good, bad):
    schema = {"type": "object", **schema}
    assert accepts(schema, good)
    assert not accepts(schema, bad)
    assert jsonschema_rs.validator_for(schema, offline=True).is_valid(bad), "the open schema would have let it through"


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"additionalProperties": {"type": "integer"}}, {"anything": 1}),
        ({"additionalProperties": True}, {"anything": {"at": "all"}}),
        ({"properties": {"env": {"type": "object", "additionalProperties": {"type": "string"}}}}, {"env": {"A": "b"}}),
        ({"properties": {"env": {"type": "object", "additionalProperties": True}}}, {"env": {"A": {"b": 1}}}),
        ({"patternProperties": {"^x-": {"properties": {"a": {}}}}}, {"x-1": {"b": 1}}),
        ({"allOf": [{"properties": {"a": {"properties": {"b": {}}}}}]}, {"a": {"c": 1}}),
        (
            {
                "properties": {
                    "a": {"not": {"properties": {"b": {"const": 1}}, "required": ["b"]}, "additionalProperties": {}}
                }
            },
            {"a": {"c": 2}},
        ),
        ({"properties": {"a": {"enum": [{"x": 1}], "additionalProperties": {}}}}, {"a": {"x": 1}}),
        (
            {"allOf": [{"$ref": "#/$defs/A"}], "properties": {"b": {}}, "$defs": {"A": {"properties": {"a": {}}}}},
            {"a": 1, "b": 2},
        ),
    ],
)
def test_maps_stay_maps_and_combinators_keep_their_meaning(schema, value):
    assert accepts({"type": "object", **schema}, value)


def test_a_definition_is_closed_where_a_property_uses_it_and_open_where_a_combinator_does():
    schema = {
        "type": "object",
        "properties": {
            "strict": {"$ref": "#/$defs/A"},
            "free": {"allOf": [{"$ref": "#/$defs/A"}], "additionalProperties": {}},
        },
        "$defs": {"A": {"properties": {"in": {"properties": {"x": {}}}}}},
    }
    assert accepts(schema, {"free": {"in": {"y": 1}, "more": 1}})
    assert not accepts(schema, {"strict": {"in": {"y": 1}}})
    assert not accepts(schema, {"strict": {"in": {"x": 1}, "more": 1}})


def test_the_schema_itself_is_not_changed():
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/closed-0"}},
        "$defs": {"closed-0": NODE, "Node": NODE},
    }
    before = copy.deepcopy(schema)
    closed = close(schema)
    assert schema == before
    assert closed["$defs"]["closed-0"] == NODE


def test_what_cannot_be_an_object_is_left_as_it_is():
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"enum": [1, 2]}, "c": {"const": None}}}
    assert close(schema) == {**schema, "unevaluatedProperties": False}


# Dialects


def test_an_older_dialect_is_closed_too():
    schema = {"$schema": DRAFT_7, "type": "object", "properties": {"a": {"properties": {"b": {}}}}}
    assert accepts(schema, {"a": {"b": 1}})
    assert not accepts(schema, {"a": {"c": 1}})
    assert not accepts(schema, {"c": 1})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            {"items": [{"type": "string"}], "additionalItems": False},
            {"prefixItems": [{"type": "string"}], "items": False},
        ),
        ({"items": {"type": "string"}, "additionalItems": False}, {"items": {"type": "string"}}),
        (
            {"dependencies": {"a": ["b"], "c": {"required": ["d"]}}},
            {"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"required": ["d"]}}},
        ),
        (
            {"$ref": "#/definitions/A", "minimum": 3, "definitions": {"A": {}}},
            {"$ref": "#/definitions/A", "definitions": {"A": {}}},
        ),
        ({"unevaluatedProperties": False, "prefixItems": [{}]}, {}),
        ({"not": {"items": [{}]}}, {"not": {"prefixItems": [{}]}}),
    ],
)
def test_draft_7_is_read_in_the_new_form(old, new):
    assert modern({"$schema": DRAFT_7, **old}) == {"$schema": "https://json-schema.org/draft/2020-12/schema", **new}


def test_draft_4_bounds_become_numbers():
    draft_4 = "http://json-schema.org/draft-04/schema#"
    assert modern({"$schema": draft_4, "id": "x", "minimum": 1, "exclusiveMinimum": True, "const": 7}) == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "exclusiveMinimum": 1,
    }


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"$schema": "https://example.com/own"}, "/$schema"),
        ({"$schema": 7}, "/$schema"),
        ({"properties": {"a": {"$id": "https://a.example/"}}}, "/properties/a/$id"),
        ({"$defs": {"a/b": {"$schema": DRAFT_7}}}, "/$defs/a~1b/$schema"),
        ({"allOf": [{"$dynamicRef": "#x"}]}, "/allOf/0/$dynamicRef"),
        ({"properties": {"a": {"$ref": "https://a.example/b"}}}, "/$ref"),
        ({"properties": {"a": {"$ref": "#/$defs/none"}}}, "/$ref"),
        ({"properties": {"a": {"$ref": "#none"}}}, "/$ref"),
    ],
)
def test_a_schema_without_one_reading_is_refused_with_its_place(schema, pointer):
    with pytest.raises(SchemaError) as caught:
        close({"type": "object", **schema})
    assert str(caught.value).startswith(pointer)


def test_the_usual_dialects_are_known():
    assert [dialect_of({"$schema": uri}) for uri in (DRAFT_7, "https://json-schema.org/draft/2020-12/schema")] == [
        7,
        2020,
    ]
    assert dialect_of({}) == 2020


def test_a_schema_nested_without_end_is_refused():
    schema = {"type": "object"}
    for _ in range(100):
        schema = {"type": "object", "properties": {"a": schema}}
    with pytest.raises(SchemaError):
        close(schema)


# Defaults

DEFAULTS = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "timeout_ms": {"type": "integer", "default": 30000},
        "page": {"type": "object", "properties": {"size": {"default": 10}, "from": {}}},
        "sort": {"type": "array", "items": {"properties": {"order": {"default": "asc"}}}},
        "maybe": {"anyOf": [{"$ref": "#/$defs/Maybe"}, {"type": "null"}]},
    },
    "allOf": [{"properties": {"dry_run": {"default": None}}}],
    "$defs": {"Maybe": {"properties": {"deep": {"default": 1}}}},
}


def test_properties_with_a_default_are_found_along_positions():
    assert required_defaults(DEFAULTS) == (
        "/properties/dry_run",
        "/properties/maybe/properties/deep",
        "/properties/page/properties/size",
        "/properties/sort/items/properties/order",
        "/properties/timeout_ms",
    )


@pytest.mark.parametrize(
    ("arguments", "omitted"),
    [
        ({"timeout_ms": 1, "dry_run": None}, ()),
        ({"query": "x"}, ("/dry_run", "/timeout_ms")),
        ({"timeout_ms": 1, "dry_run": 1, "page": {}}, ("/page/size",)),
        ({"timeout_ms": 1, "dry_run": 1, "sort": [{"order": "asc"}, {}]}, ("/sort/1/order",)),
        ({"timeout_ms": 1, "dry_run": 1, "maybe": {}}, ("/maybe/deep",)),
        ({"timeout_ms": 1, "dry_run": 1, "maybe": None, "page": None}, ()),
    ],
)
def test_what_a_framework_would_fill_in_is_named(arguments, omitted):
    assert omitted_defaults(DEFAULTS, arguments) == omitted


def test_references_that_multiply_are_refused_and_not_followed():
    definitions = {f"D{n}": {"allOf": [{"$ref": f"#/$defs/D{n + 1}"}] * 2} for n in range(40)}
    schema = {"type": "object", "$ref": "#/$defs/D0", "$defs": {**definitions, "D40": {}}}
    with pytest.raises(SchemaError):
        omitted_defaults(schema, {})
    with pytest.raises(SchemaError):
        required_defaults(schema)
