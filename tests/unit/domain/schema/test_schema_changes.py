"""What changed from one schema to another is listed, each change of its own kind, where it stands, in one plain sentence."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
from broker.domain.schema.change_words import words
from broker.domain.schema.changes import ChangeKind, Effect
from broker.domain.schema.differences import schema_changes

VECTORS = json.loads((Path(__file__).parents[3] / "vectors" / "schema_changes.json").read_text())


def holding(x) -> dict:
    return {"type": "object", "properties": {"x": x}}


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_a_change_has_its_kind_its_effect_and_its_sentence(vector):
    (change,) = schema_changes(vector["old"], vector["new"])
    assert (change.kind, change.effect, words(change)) == (vector["kind"], vector["effect"], vector["words"])


def test_every_kind_that_a_schema_can_show_has_a_vector():
    elsewhere = {"property-renamed", "not-compared", "tool-renamed", "output-schema-added", "output-schema-removed"}
    assert {vector["kind"] for vector in VECTORS} == {kind.value for kind in ChangeKind} - elsewhere


def test_a_renamed_property_says_that_this_is_a_guess_and_its_schema_is_compared_on():
    old = holding({})
    old["properties"]["timeout_ms"] = {"type": "integer", "maximum": 1000}
    new = holding({})
    new["properties"]["timeout"] = {"type": "integer", "maximum": 10}
    said = [words(change) for change in schema_changes(old, new)]
    assert said == [
        "`timeout_ms` (optional integer) was renamed `timeout`, going by their likeness; "
        "callers that send the old name are refused",
        "`timeout` must now be at most 10; before it had to be at most 1000",
    ]


def test_properties_that_share_only_their_type_are_not_taken_for_one():
    old, new = holding({}), holding({})
    old["properties"]["verbose"] = {"type": "boolean"}
    new["properties"]["dry_run"] = {"type": "boolean"}
    kinds = [change.kind for change in schema_changes(old, new)]
    assert kinds == [ChangeKind.PROPERTY_ADDED_OPTIONAL, ChangeKind.PROPERTY_REMOVED]


# pairs that say the same
EQUAL = {
    "the order of keys": ({"minLength": 1, "type": "string"}, {"type": "string", "minLength": 1}),
    "the order of an enum": ({"enum": ["a", "b", "a"]}, {"enum": ["b", "a"]}),
    "the order of types": ({"type": ["null", "string"]}, {"type": ["string", "null"]}),
    "integer within number": ({"type": ["number", "integer"]}, {"type": "number"}),
    "the order of options": ({"anyOf": [{"minLength": 2}, {"const": 1}]}, {"anyOf": [{"const": 1}, {"minLength": 2}]}),
    "a const and an enum of one": ({"const": 1}, {"enum": [1.0]}),
    "null as an option": ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": ["string", "null"]}),
    "a bound that bounds nothing": ({"type": "string", "minLength": 0}, {"type": "string"}),
    "allOf of one": ({"allOf": [{"type": "string"}], "title": "A"}, {"type": "string", "title": "A"}),
    "a schema of everything": (True, {}),
    "items of everything": ({"type": "array", "items": {}}, {"type": "array"}),
}


@pytest.mark.parametrize(("old", "new"), EQUAL.values(), ids=EQUAL)
def test_what_is_spelled_otherwise_and_means_the_same_is_no_change(old, new):
    assert schema_changes(holding(old), holding(new)) == ()
    assert schema_changes(holding(new), holding(old)) == ()


def test_definitions_under_other_names_inlined_or_unused_are_no_change():
    by_name = {
        **holding({"$ref": "#/$defs/Mode", "description": "D"}),
        "$defs": {"Mode": {"enum": ["a"]}, "Unused": {}},
    }
    renamed = {**holding({"$ref": "#/definitions/M", "description": "D"}), "definitions": {"M": {"enum": ["a"]}}}
    inlined = holding({"enum": ["a"], "description": "D"})
    for old in (by_name, renamed, inlined):
        for new in (by_name, renamed, inlined):
            assert schema_changes(old, new) == ()


def test_a_change_behind_a_reference_names_the_property_and_points_to_the_definition():
    old = {**holding({"$ref": "#/$defs/Mode"}), "$defs": {"Mode": {"enum": ["a", "b"]}}}
    new = {**holding({"$ref": "#/$defs/M"}), "$defs": {"M": {"enum": ["a"]}}}
    (change,) = schema_changes(old, new)
    assert words(change) == '`x` no longer accepts "b"'
    assert (change.pointer_old, change.pointer_new) == ("/$defs/Mode/enum", "/$defs/M/enum")


def test_recursion_ends_and_is_looked_into_once():
    node = {"type": "object", "properties": {"name": {"type": "string"}, "child": {"$ref": "#/$defs/Node"}}}
    old = {**holding({"$ref": "#/$defs/Node"}), "$defs": {"Node": node}}
    new = copy.deepcopy(old)
    new["$defs"]["Node"]["properties"]["name"]["maxLength"] = 5
    (change,) = schema_changes(old, new)
    assert change.where == "x.name"
    assert change.pointer_new == "/$defs/Node/properties/name/maxLength"


def test_references_that_lead_in_circles_or_nowhere_are_compared_by_name():
    circle = {**holding({"$ref": "#/$defs/A"}), "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}}
    assert schema_changes(circle, circle) == ()
    (change,) = schema_changes(holding({"$ref": "#/$defs/A"}), holding({"$ref": "#/$defs/B"}))
    assert change.kind is ChangeKind.CONSTRAINT_CHANGED


def test_references_that_double_at_every_step_are_bounded():
    def doubling(last):
        steps = {f"s{n}": {"anyOf": [{"$ref": f"#/$defs/s{n + 1}"}] * 2} for n in range(60)}
        return {**holding({"$ref": "#/$defs/s0"}), "$defs": {**steps, "s60": last}}

    changes = schema_changes(doubling({"type": "string"}), doubling({"type": "integer"}))
    assert changes
    assert not any(change.effect is Effect.WORDS for change in changes)


def test_more_places_than_are_walked_is_said():
    def many(kind):
        return {
            "type": "object",
            "properties": {f"p{n}": {"type": "object", "properties": {"q": {"type": kind}}} for n in range(3000)},
        }

    last = schema_changes(many("string"), many("integer"))[-1]
    assert (last.kind, last.effect) == (ChangeKind.NOT_COMPARED, Effect.EITHER)


# what narrows inside is, for the whole
SIGNS = [
    ({"not": {"type": "string"}}, {"not": {"type": "string", "minLength": 2}}, "widens", "what it may not be"),
    ({"if": {"type": "string"}}, {"if": {"type": "string", "minLength": 2}}, "either", "its `if`"),
    ({"anyOf": [{"type": "string"}]}, {"anyOf": [{"type": "string", "minLength": 2}]}, "narrows", "option 1"),
    ({"oneOf": [{"type": "string"}]}, {"oneOf": [{"type": "string", "minLength": 2}]}, "either", "option 1"),
]


@pytest.mark.parametrize(("old", "new", "effect", "aside"), SIGNS)
def test_what_a_change_does_to_the_whole_depends_on_where_it_stands(old, new, effect, aside):
    (change,) = schema_changes(holding(old), holding(new))
    assert (change.kind, change.effect, change.aside) == ("lower-bound-tightened", effect, aside)
    assert f"`x` ({aside})" in words(change)


def test_an_option_that_changed_is_known_by_its_discriminator():
    def options(*bounds):
        kinds = [
            {"type": "object", "properties": {"kind": {"const": name}, "n": {"maximum": most}}} for name, most in bounds
        ]
        return holding({"oneOf": kinds})

    (change,) = schema_changes(options(("a", 1), ("b", 2)), options(("b", 1), ("a", 1)))
    assert (change.where, change.aside, change.before, change.after) == ("x.n", "option 1", 2, 1)


def test_older_dialects_are_read_as_what_they_mean():
    draft7 = {"$schema": "http://json-schema.org/draft-07/schema#", **holding({"items": [{"type": "string"}]})}
    latest = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **holding({"prefixItems": [{"type": "string"}]}),
    }
    assert [change.kind for change in schema_changes(draft7, latest)] == [ChangeKind.DIALECT_CHANGED]
    draft4 = {"$schema": "http://json-schema.org/draft-04/schema#", **holding({"minimum": 0, "exclusiveMinimum": True})}
    said = [words(change) for change in schema_changes(draft4, {**latest, **holding({"minimum": 0})})]
    assert said[1:] == ["`x` has to be at least 0 now; before it had to be above 0"]


def test_for_an_output_it_is_the_readers_who_lose():
    old = {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]}
    new = {"type": "object", "properties": {"a": {"type": "string"}, "c": {}}}
    told = {words(change): change.effect for change in schema_changes(old, new, output=True)}
    assert told == {
        "`a` of the output may be missing now; it was always given": Effect.WIDENS,
        "`c` of the output (optional) was added": Effect.NARROWS,
        "`b` of the output (optional) was removed; readers that count on it find nothing": Effect.WIDENS,
    }


HOSTILE = "\x1b[31mred\n\u202eevil\u200b" + "a" * 500


@pytest.mark.parametrize("keyword", ["pattern", "const", "default", "description", "title", "format", "x-anything"])
def test_text_of_a_contract_is_short_printable_and_on_one_line(keyword):
    (change,) = schema_changes(holding({}), holding({keyword: HOSTILE}))
    said = words(change)
    assert said.isprintable()
    assert len(said) < 260
    (renamed,) = [words(change) for change in schema_changes({}, {"properties": {HOSTILE: {}}})]
    assert renamed.isprintable()
    assert len(renamed) < 260


def test_a_const_beside_an_enum_counts():
    (change,) = schema_changes(holding({"enum": ["a", 2]}), holding({"enum": ["a", 2], "const": 2}))
    assert words(change) == '`x` no longer accepts "a"'
