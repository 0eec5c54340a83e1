"""Inclusion by structure: proved where it holds, never where it does not."""

from __future__ import annotations

import pytest
from broker.domain.schema.bare import bare, text
from broker.domain.schema.structure import contained

STRING = {"type": "string"}
TREE = {"type": "object", "properties": {"v": STRING, "c": {"items": {"$ref": "#/$defs/t"}}}, "required": ["v"]}


def tree(**changed) -> dict:
    return {"$defs": {"t": {**TREE, **changed}}, "$ref": "#/$defs/t"}


def unfolded() -> dict:
    """The same trees, with one level written out and the definition under another name."""
    inner = {**TREE, "properties": {"v": STRING, "c": {"items": {"$ref": "#/$defs/node"}}}}
    return {"$defs": {"node": inner}, **inner}


def kinds(*names: str, required: list[str] | None = None) -> dict:
    """Objects that say which kind they are."""
    demanded = ["kind"] if required is None else required
    each = [
        {"type": "object", "properties": {"kind": {"const": name}, "v": STRING}, "required": demanded} for name in names
    ]
    return {"oneOf": each}


def is_contained(one: dict, other: dict) -> bool:
    return contained(bare(one), bare(other))


CONTAINED = {
    "recursion, one level unfolded": (unfolded(), tree()),
    "recursion, one level folded": (tree(), unfolded()),
    "recursion that demands more": (tree(required=["v", "c"]), tree()),
    "integer in number": ({"type": "integer"}, {"type": ["number", "string"]}),
    "bounds": ({"type": "integer", "minimum": 3, "maximum": 5}, {"exclusiveMinimum": 2, "maximum": 5}),
    "bounds of another type do not matter": ({"type": "string"}, {"minimum": 3, "required": ["a"]}),
    "closed names": (
        {"type": "object", "properties": {"a": {}}, "unevaluatedProperties": False},
        {"properties": {"a": {}, "b": STRING}, "unevaluatedProperties": False},
    ),
    "additional false and unevaluated false": (
        {"type": "object", "properties": {"a": {}}, "additionalProperties": False},
        {"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False},
    ),
    "a map in a map": ({"additionalProperties": {"type": "integer"}}, {"additionalProperties": {"type": "number"}}),
    "a name that is refused may demand anything": (
        {"type": "object", "properties": {"a": {}}, "additionalProperties": False},
        {"properties": {"zz": False}},
    ),
    "fewer choices": ({"enum": ["a"]}, {"enum": ["b", "a"]}),
    "one branch": ({"type": "string", "maxLength": 3}, {"anyOf": [{"type": "null"}, STRING]}),
    "each branch": ({"anyOf": [{"type": "null"}, STRING]}, {"type": ["string", "null", "array"]}),
    "what is refused is refused": ({"not": {"type": ["string", "null"]}}, {"not": {"type": "null"}}),
    "tuples": ({"prefixItems": [STRING], "items": {"type": "integer"}}, {"items": {"type": ["string", "number"]}}),
    "multiples": ({"type": "integer", "multipleOf": 6}, {"multipleOf": 3}),
    "same unique": ({"uniqueItems": True, "maxItems": 3}, {"uniqueItems": True}),
    "the same words": ({"oneOf": [{"minimum": 1}, {"maximum": 3}], "type": "integer"}, {"oneOf": [{"minimum": 1}, {"maximum": 3}]}),
}  # fmt: skip
CONTAINED |= {
    "a choice, branch by branch": (
        {"allOf": [{"anyOf": [{"minimum": 2}, {"type": "null"}]}, {"anyOf": [{"maximum": 8}, {"type": "null"}]}]},
        {"allOf": [{"anyOf": [{"minimum": 1}, {"type": "null"}]}, {"anyOf": [{"maximum": 9}, {"type": "null"}]}]},
    ),
    "exactly one of branches that exclude each other": (kinds("a", "b"), kinds("a", "b", "c")),
}
NOT_CONTAINED = {
    "recursion that demands less": (tree(), tree(required=["v", "c"])),
    "recursion that differs far inside": (
        tree(),
        tree(properties={"v": {"maxLength": 3}, "c": {"items": {"$ref": "#/$defs/t"}}}),
    ),
    "a claim about the value itself is no induction": (
        {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, STRING]}}, "$ref": "#/$defs/a"},
        {"$defs": {"b": {"anyOf": [{"$ref": "#/$defs/b"}, {"type": "null"}]}}, "$ref": "#/$defs/b"},
    ),
    "number in integer": ({"type": "number"}, {"type": "integer"}),
    "a bound that is not strict": ({"minimum": 3}, {"exclusiveMinimum": 3}),
    "open names": ({"properties": {"a": {}}}, {"properties": {"a": {}}, "unevaluatedProperties": False}),
    "one name more": (
        {"properties": {"a": {}, "b": {}}, "unevaluatedProperties": False},
        {"properties": {"a": {}}, "unevaluatedProperties": False},
    ),
    "a name that counts only in one branch": (
        {"properties": {"a": {}}, "additionalProperties": False},
        {"anyOf": [{"properties": {"a": {"type": "null"}}, "required": ["a"]}, {}], "unevaluatedProperties": False},
    ),
    "true is not 1": ({"const": True}, {"enum": [1]}),
    "a branch too many": ({"anyOf": [{"type": "null"}, STRING]}, {"type": "null"}),
    "the other way round under not": ({"not": {"type": "null"}}, {"not": {"type": ["string", "null"]}}),
    "exactly one of branches that do not exclude each other": (
        kinds("a", "b", required=[]),
        kinds("a", "b", "c", required=[]),
    ),
    "exactly one of branches with the same kind": (kinds("a"), kinds("a", "a")),
    "exactly one": ({"type": "integer"}, {"oneOf": [{"type": "integer"}, {"minimum": 5}]}),
    "a place of a tuple": ({"prefixItems": [{}], "items": STRING}, {"items": STRING}),
    "names by pattern": ({"patternProperties": {"^x": STRING}}, {"additionalProperties": STRING}),
    "the same words in another document": (
        {"$defs": {"p": {"type": "null"}}, "not": {"$ref": "#/$defs/p"}},
        {"$defs": {"p": STRING}, "not": {"$ref": "#/$defs/p"}},
    ),
    "longest of a list": ({"maxItems": 3}, {"maxItems": 2}),
    "multiples": ({"multipleOf": 3}, {"multipleOf": 6}),
    "unique": ({"type": "array"}, {"uniqueItems": True}),
}  # fmt: skip


@pytest.mark.parametrize(("inner", "outer"), CONTAINED.values(), ids=CONTAINED)
def test_it_is_proved(inner, outer):
    assert is_contained(inner, outer)


@pytest.mark.parametrize(("inner", "outer"), NOT_CONTAINED.values(), ids=NOT_CONTAINED)
def test_it_is_not_proved_where_it_does_not_hold(inner, outer):
    assert not is_contained(inner, outer)


def test_what_has_no_end_is_given_up():
    deep: dict = {}
    for _ in range(100):
        deep = {"anyOf": [deep, {"properties": {"x": deep}}]}
    assert not contained(deep, {"properties": {"x": {"properties": {"x": STRING}}}})


def test_names_of_definitions_and_annotations_do_not_count():
    one = {"$defs": {"t": {**TREE, "title": "Tree"}, "unused": False}, "$ref": "#/$defs/t", "description": "a"}
    other = {"$defs": {"u": {**TREE, "$anchor": "here"}}, "$ref": "#here"}
    other["$defs"]["u"]["properties"] = {"v": STRING, "c": {"items": {"$ref": "#here"}}}
    assert text(bare(one)) == text(bare(other))


def test_values_and_names_are_no_annotations():
    assert text(bare({"const": {"title": "a"}})) != text(bare({"const": {"title": "b"}}))
    assert text(bare({"properties": {"title": {"type": "null"}}})) != text(bare({"properties": {}}))
    assert text(bare({"enum": [{"default": 1}]})) != text(bare({"enum": [{"default": 2}]}))
