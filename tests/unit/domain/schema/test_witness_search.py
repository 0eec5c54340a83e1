"""The search for witnesses: what it builds fits, it finds what is hidden, it ends, and it shows the plainest value."""

from __future__ import annotations

import json
import time
from itertools import islice

import jsonschema_rs
import pytest
from broker.domain.schema.branches import variants
from broker.domain.schema.building import Builder
from broker.domain.schema.fits import fits
from broker.domain.schema.shrinking import shrink
from broker.domain.schema.telling import telling_strings
from broker.domain.schema.witness import candidates, find

TEXT = {"type": "string"}


def accepts(schema):
    return jsonschema_rs.Draft202012Validator(schema, offline=True, validate_formats=False).is_valid


def first_built(*schemas):
    return Builder().drawn([(schema, schema) for schema in schemas]).first()


BUILDABLE = {
    "a constant": {"const": {"a": [1]}},
    "a text of a form": {"type": "string", "pattern": "^/srv/[a-z]{3,}$", "minLength": 12},
    "a number between": {"type": "number", "exclusiveMinimum": 1, "exclusiveMaximum": 1.2},
    "a multiple": {"type": "integer", "multipleOf": 7, "minimum": 50},
    "what names what": {"type": "object", "required": ["a"], "dependentRequired": {"a": ["b"], "b": ["c"]}},
    "a branch that is not the first": {"anyOf": [False, {"type": "null", "const": 1}, {"type": "string", "minLength": 3}]},
    "exactly one": {"oneOf": [{"minimum": 0, "type": "integer"}, {"maximum": 10, "type": "integer"}]},
    "the other case": {"if": {"required": ["a"]}, "then": False, "else": {"required": ["b"]}, "type": "object"},
    "different members": {"type": "array", "items": {"enum": ["x", "y", "z"]}, "uniqueItems": True, "minItems": 3},
    "a member that is asked for": {"type": "array", "items": TEXT, "contains": {"minLength": 4}, "minContains": 2},
    "a tuple": {"type": "array", "prefixItems": [TEXT, {"type": "integer"}], "minItems": 2, "items": False},
    "many members": {"type": "object", "minProperties": 4, "propertyNames": {"pattern": "^k[0-9]$"}},
    "a tree": {
        "$defs": {"t": {"type": "object", "properties": {"kids": {"items": {"$ref": "#/$defs/t"}, "minItems": 1}}}},
        "$ref": "#/$defs/t",
        "required": ["kids"],
    },
    "what it may not be": {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "not": {"required": ["a"]}, "minProperties": 1},
    "closed, with a name by pattern": {
        "type": "object",
        "patternProperties": {"^x-[a-z]+$": {"type": "integer"}},
        "unevaluatedProperties": False,
        "minProperties": 1,
    },
}  # fmt: skip


@pytest.mark.parametrize("schema", BUILDABLE.values(), ids=BUILDABLE)
def test_what_is_built_is_accepted(schema):
    (value,) = first_built(schema)
    assert accepts(schema)(value)
    assert fits(schema, value, schema)


def test_what_several_ask_for_is_built_together():
    schemas = (
        {
            "type": "object",
            "properties": {"path": {"type": "string", "pattern": "^/srv/[a-z/]+$"}},
            "required": ["path"],
        },
        {"properties": {"path": {"minLength": 9}, "mode": {"const": "write"}}, "required": ["mode"]},
    )
    (value,) = first_built(*schemas)
    assert all(accepts(schema)(value) for schema in schemas)


def test_nothing_is_built_where_nothing_fits():
    assert first_built({"type": "string", "minLength": 3}, {"maxLength": 2}) == []
    endless = {"type": "object", "required": ["t"], "properties": {"t": {"$ref": "#/$defs/t"}}}
    assert first_built({"$defs": {"t": endless}, "$ref": "#/$defs/t"}) == []


def test_each_branch_of_each_choice_is_tried_once():
    choice = [{"const": "a"}, {"const": "b"}, {"const": "c"}]
    schema = {"allOf": [{"anyOf": choice}, {"oneOf": [{}, {}]}, {"if": {}, "then": {}}]}
    assert len(list(variants([(schema, schema)]))) == 1 + 2 + 1 + 1


def behind(most: int) -> dict:
    """A member that cannot be tried without two others that have to be there."""
    others = {"x": {"pattern": "^k[0-9]{3}$"}, "y": {"enum": [7]}}
    return {"type": "object", "required": ["x", "y"], "properties": {**others, "z": {"maximum": most}}}


def nodes(inner: dict) -> dict:
    return {"$defs": {"t": {"properties": {"n": inner, "v": TEXT}}}, "$ref": "#/$defs/t"}


MODES = {"type": "object", "properties": {"m": {"enum": ["r", "w"]}}}
WRITING = {"properties": {"m": {"const": "w"}}, "required": ["m"]}
DIFFERENT = {
    "one value of many": ({"enum": list(range(50))}, {"enum": list(range(49))}),
    "deep inside": (
        {"properties": {"a": {"properties": {"b": {"items": {"properties": {"c": {"maxLength": 8}}}}}}}},
        {"properties": {"a": {"properties": {"b": {"items": {"properties": {"c": {"maxLength": 7}}}}}}}},
    ),
    "behind what has to be there": (behind(5), behind(4)),
    "two members together": ({"type": "object"}, {"type": "object", "dependentSchemas": {"a": {"properties": {"b": TEXT}}}}),
    "only in one case": (MODES, {**MODES, "if": WRITING, "then": {"required": ["p"]}}),
    "a long list": ({"type": "array"}, {"type": "array", "maxItems": 200}),
    "an unknown name": ({"properties": {"a": TEXT}}, {"properties": {"a": TEXT}, "additionalProperties": False}),
    "one recursion down": (nodes({"$ref": "#/$defs/t"}), nodes({"properties": {"v": {"maxLength": 1}}})),
    "between two patterns": ({"pattern": "^[a-z]+(/[a-z]+)*$"}, {"pattern": "^[a-z]+(/[a-z]+){0,2}$"}),
}  # fmt: skip


@pytest.mark.parametrize(("one", "other"), DIFFERENT.values(), ids=DIFFERENT)
def test_the_difference_is_found(one, other):
    in_other = accepts(other)
    strings = telling_strings([one, other])
    found = find(
        candidates([one, other], strings=strings, limit=3_000), accepts(one), lambda value: not in_other(value)
    )
    assert found is not None


def test_the_same_question_gets_the_same_suggestions_each_once():
    schemas = list(DIFFERENT["only in one case"])
    first = [json.dumps(value) for value in candidates(schemas, limit=500)]
    assert first == [json.dumps(value) for value in candidates(schemas, limit=500)]
    assert len(first) == len(set(first))


def test_the_number_of_suggestions_is_bounded():
    wide = {"type": "object", "properties": {f"p{n}": {"enum": list(range(30))} for n in range(60)}}
    assert len(list(candidates([wide, {"type": "object"}], limit=1_000))) == 1_000


def test_no_suggestion_is_larger_than_a_person_could_look_at():
    huge = {"type": ["string", "array", "object"], "minLength": 10**9, "minItems": 10**9, "minProperties": 10**9}
    sizes = [len(json.dumps(value)) for value in candidates([huge, {"maxLength": 9_999}], limit=2_000)]
    assert max(sizes) < 60_000


def test_a_tangle_of_references_is_searched_in_little_time():
    every = [{"properties": {f"x{n}": {"$ref": f"#/$defs/t{n}"}}} for n in range(8)]
    tangle = {"$defs": {f"t{n}": {"anyOf": [*every, TEXT]} for n in range(8)}, "$ref": "#/$defs/t0"}
    started = time.monotonic()
    list(islice(candidates([tangle, {"type": "object"}], limit=2_000), 2_000))
    assert time.monotonic() - started < 10


def test_a_reference_that_leads_nowhere_ends_the_search():
    assert list(candidates([{"$ref": "#/$defs/none"}], limit=10)) == []


def test_a_witness_is_made_plain():
    noise = {
        "mode": "write",
        "path": "/srv/reports/2026",
        "limit": 17.25,
        "tags": ["x", "yy", "zzz"],
        "more": {"a": {"b": 1}},
    }
    assert shrink(noise, lambda value: isinstance(value, dict) and value.get("mode") == "write") == {"mode": "write"}
    assert shrink("x" * 5_000, lambda value: isinstance(value, str) and len(value) > 12) == "x" * 13
    assert shrink([5, 6, 7, 8], lambda value: isinstance(value, list) and len(value) >= 2) == [1, 1]
    assert shrink(-17.5, lambda value: isinstance(value, float | int) and value < 0) == -1


def test_making_plain_ends_whatever_holds():
    assert shrink({"a": [None, True, 3, "b"]}, lambda value: True) is not None
    value = {str(n): [n] * 20 for n in range(50)}
    tries = []
    shrink(value, lambda plainer: tries.append(plainer) is not None)
    assert len(tries) <= 600
