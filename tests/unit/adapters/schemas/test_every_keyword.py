"""No keyword is overlooked: wherever one alone makes the difference, the relation says so, however deep it stands.

Each keyword stands beside the same schema without it, in places where different proofs are at work. The validator says first
that there is a difference at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from broker.adapters.schemas.arithmetic import Arithmetic, open_arithmetic
from broker.domain.schema.answers import No, Unknown, Yes
from broker.engines.schemas import compile_schema

Schema = dict[str, Any]
S: Schema = {"properties": {"p": {"type": "string"}}}
# keyword: (what stands beside it, its value, a value that it alone refuses)
KEYWORDS: dict[str, tuple[Schema, Any, Any]] = {
    "type": ({}, "string", 1),
    "type, a list": ({}, ["string", "null"], 1),
    "enum": ({}, ["a", 1], "b"),
    "const": ({}, {"x": 1}, {"x": 2}),
    "multipleOf": ({"type": "number"}, 2, 3),
    "maximum": ({"type": "number"}, 2, 3),
    "exclusiveMaximum": ({"type": "number"}, 2, 2),
    "minimum": ({"type": "number"}, 2, 1),
    "exclusiveMinimum": ({"type": "number"}, 2, 2),
    "maxLength": ({"type": "string"}, 2, "abc"),
    "minLength": ({"type": "string"}, 2, "a"),
    "pattern": ({"type": "string"}, "^[a-z]*$", "1"),
    "maxItems": ({"type": "array"}, 1, [1, 2]),
    "minItems": ({"type": "array"}, 1, []),
    "uniqueItems": ({"type": "array"}, True, [1, 1]),
    "items": ({"type": "array"}, {"type": "string"}, [1]),
    "prefixItems": ({"type": "array"}, [{"type": "string"}], [1]),
    "contains": ({"type": "array"}, {"type": "string"}, [1]),
    "minContains": ({"type": "array", "contains": {"type": "string"}}, 2, ["a"]),
    "maxContains": ({"type": "array", "contains": {"type": "string"}}, 1, ["a", "b"]),
    "unevaluatedItems": ({"type": "array", "prefixItems": [{}]}, False, [1, 2]),
    "maxProperties": ({"type": "object"}, 1, {"a": 1, "b": 1}),
    "minProperties": ({"type": "object"}, 1, {}),
    "required": ({"type": "object"}, ["a"], {}),
    "dependentRequired": ({"type": "object"}, {"a": ["b"]}, {"a": 1}),
    "dependentSchemas": ({"type": "object"}, {"a": {"required": ["b"]}}, {"a": 1}),
    "dependencies": ({"type": "object"}, {"a": ["b"]}, {"a": 1}),
    "dependencies, a schema": ({"type": "object"}, {"a": {"required": ["b"]}}, {"a": 1}),
    "properties": ({"type": "object"}, {"a": {"type": "string"}}, {"a": 1}),
    "patternProperties": ({"type": "object"}, {"^x[0-9]$": {"type": "string"}}, {"x1": 1}),
    "additionalProperties": ({"type": "object", **S}, False, {"q": 1}),
    "propertyNames": ({"type": "object"}, {"maxLength": 2}, {"abc": 1}),
    "unevaluatedProperties": ({"type": "object", "allOf": [S]}, False, {"q": 1}),
    "allOf": ({}, [{"type": "string"}], 1),
    "anyOf": ({}, [{"type": "string"}, {"type": "null"}], 1),
    "oneOf": ({}, [{"type": "integer"}, {"type": "number"}], 1),
    "not": ({}, {"type": "integer"}, 1),
    "then": ({"if": {"type": "string"}}, {"maxLength": 1}, "ab"),
    "else": ({"if": {"type": "string"}}, {"type": "null"}, 1),
    "if": ({"then": {"maxLength": 1}}, {"type": "string"}, "ab"),
    "$ref": ({}, "#/$defs/text", 1),
}
DEFINITIONS: Schema = {"text": {"type": "string"}}


def in_a_property(node: Schema) -> tuple[Schema, Callable[[Any], Any]]:
    return {"type": "object", "properties": {"v": node}, "$defs": DEFINITIONS}, lambda value: {"v": value}


def in_a_schema_that_refers_to_itself(node: Schema) -> tuple[Schema, Callable[[Any], Any]]:
    return (
        {"type": "object", "properties": {"v": node, "next": {"$ref": "#"}}, "$defs": DEFINITIONS},
        lambda value: {"next": {"v": value}},
    )


def below_a_reference(node: Schema) -> tuple[Schema, Callable[[Any], Any]]:
    return (
        {"type": "object", "properties": {"l": {"items": {"$ref": "#/$defs/n"}}}, "$defs": {"n": node, **DEFINITIONS}},
        lambda value: {"l": [value]},
    )


def in_a_choice(node: Schema) -> tuple[Schema, Callable[[Any], Any]]:
    return (
        {
            "type": "object",
            "properties": {"v": {"anyOf": [{"type": "object", "required": ["in"], "properties": {"in": node}}, False]}},
            "$defs": DEFINITIONS,
        },
        lambda value: {"v": {"in": value}},
    )


# Where a schema refers to itself, the library proves nothing, and our own proof knows these keywords by their text alone.
UNPROVED_IN_RECURSION = {"minContains", "maxContains", "if", "then", "else"}
PLACES = (in_a_property, in_a_schema_that_refers_to_itself, below_a_reference, in_a_choice)


@pytest.fixture(scope="module")
def arithmetic() -> Iterator[Arithmetic]:
    made = open_arithmetic(None)
    yield made
    made.close()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", KEYWORDS)
def test_a_keyword_alone_makes_a_difference_that_is_seen(arithmetic, name, place):
    beside, value, refused = KEYWORDS[name]
    without, wrap = place(beside)
    with_it, _ = place({**beside, name.partition(",")[0]: value})
    shown = wrap(refused)
    assert compile_schema(without, "").is_valid(shown)
    assert not compile_schema(with_it, "").is_valid(shown)
    added, taken_away = arithmetic.relate(without, with_it), arithmetic.relate(with_it, without)
    assert isinstance(added.lost, Yes), added
    unproved = place is in_a_schema_that_refers_to_itself and name in UNPROVED_IN_RECURSION
    assert isinstance(added.gained, Unknown if unproved else No), added
    assert isinstance(taken_away.gained, Yes), taken_away
    assert isinstance(taken_away.lost, Unknown if unproved else No), taken_away


@pytest.mark.parametrize("name", KEYWORDS)
def test_what_a_keyword_alone_refuses_is_not_common(arithmetic, name):
    beside, value, refused = KEYWORDS[name]
    with_it, wrap = in_a_property({**beside, name.partition(",")[0]: value})
    assert not isinstance(arithmetic.common([{"const": wrap(refused)}, with_it]), Yes | Unknown)


@pytest.mark.parametrize(
    ("keyword", "value"),
    [
        ("title", "T"),
        ("description", "words"),
        ("default", 1),
        ("examples", [1]),
        ("deprecated", True),
        ("readOnly", True),
        ("$comment", "words"),
        ("format", "email"),
        ("contentEncoding", "base64"),
        ("contentMediaType", "application/json"),
        ("x-order", 1),
        ("maxLenght", 1),
        ("nullable", True),
        ("$defs", {"unused": {"type": "string"}}),
    ],
)
def test_a_keyword_that_binds_nothing_makes_none(arithmetic, keyword, value):
    old, _ = in_a_schema_that_refers_to_itself({"type": "string"})
    new, _ = in_a_schema_that_refers_to_itself({"type": "string", keyword: value})
    related = arithmetic.relate(old, new)
    assert (related.lost, related.gained) == (No("same text"), No("same text"))
