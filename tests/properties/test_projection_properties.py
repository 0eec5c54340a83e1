"""What may stand at a pointer holds all that accepted values hold there, and where it is the whole truth, no more."""

from __future__ import annotations

import copy
import json

from broker.domain.schema.projection import project
from broker.domain.schema.regular import matches
from broker.engines.schemas import compile_schema
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

_WORDS = ["", "a", "b", "ab", "ba", "/", "1", "12"]
_TEXTS = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "pattern": "^[ab]+$"},
        {"pattern": "^a"},
        {"enum": ["a", "b", 1]},
        {"type": "string", "maxLength": 1},
        {"type": ["string", "null"]},
        {"type": "integer", "maximum": 5},
        {"$ref": "#/$defs/word"},
        True,
        False,
        {},
    ]
)


def _with_lists(inner: st.SearchStrategy) -> st.SearchStrategy:
    return st.one_of(
        inner,
        inner.map(lambda schema: {"type": "array", "items": schema}),
        inner.map(lambda schema: {"items": schema}),
        st.tuples(inner, st.integers(0, 2), st.integers(0, 3)).map(
            lambda three: {"type": "array", "items": three[0], "minItems": three[1], "maxItems": three[2]}
        ),
        st.tuples(inner, inner).map(lambda pair: {"type": "array", "prefixItems": [pair[0]], "items": pair[1]}),
        st.tuples(st.sampled_from(["anyOf", "oneOf", "allOf"]), inner, inner).map(lambda three: {three[0]: list(three[1:])}),
        inner.map(lambda schema: {"anyOf": [schema, {"type": "array", "items": {"type": "string", "maxLength": 1}}]}),
        inner.map(lambda schema: {"not": schema}),
    )  # fmt: skip


_LEAVES = _with_lists(_with_lists(_TEXTS))
_NAMES = st.sampled_from(["x", "y"])


def _objects(leaves: st.SearchStrategy) -> st.SearchStrategy:
    plain = st.fixed_dictionaries(
        {"properties": st.dictionaries(_NAMES, leaves, min_size=1)},
        optional={
            "required": st.lists(_NAMES, max_size=2, unique=True),
            "additionalProperties": st.one_of(st.booleans(), _TEXTS),
            "patternProperties": st.just({"^x": {"maxLength": 2}}),
            "type": st.sampled_from(["object", ["object", "null"]]),
            "unevaluatedProperties": st.just(False),
            "maxProperties": st.just(1),
            "dependentRequired": st.just({"x": ["y"]}),
        },
    )
    return st.one_of(
        plain,
        st.tuples(plain, plain).map(lambda pair: {**pair[0], "allOf": [pair[1]]}),
        st.tuples(plain, plain, st.sampled_from(["anyOf", "oneOf"])).map(
            lambda three: {**three[0], three[2]: [three[1], {"required": ["y"]}]}
        ),
        st.tuples(plain, plain).map(lambda pair: {**pair[0], "if": {"required": ["y"]}, "then": pair[1]}),
        st.tuples(plain, plain).map(lambda pair: {**pair[0], "not": pair[1]}),
        st.tuples(plain, plain).map(lambda pair: {"oneOf": list(pair)}),
    )  # fmt: skip


_LISTED = _objects(_LEAVES).map(lambda schema: {"type": "array", "items": schema})
_ROOTS = st.one_of(_objects(_LEAVES), _objects(_objects(_LEAVES)), _objects(_LISTED))
_SCALARS = st.sampled_from([*_WORDS, 1, 7, None, True])
_VALUES_AT_END = st.one_of(
    _SCALARS, st.lists(_SCALARS, max_size=2), st.lists(st.lists(_SCALARS, max_size=1), max_size=1)
)
_FLAT = st.dictionaries(_NAMES, _VALUES_AT_END, max_size=2)
_VALUES = st.one_of(_FLAT, st.dictionaries(_NAMES, st.one_of(_FLAT, st.lists(_FLAT, max_size=2), _SCALARS), max_size=2))
_DEFINITIONS = {"word": {"type": "string", "pattern": "^b*$"}}


def _found(value: object, steps: list[str]) -> list[object]:
    if isinstance(value, list):
        return [one for item in value for one in _found(item, steps)]
    if not steps:
        return [value]
    if isinstance(value, dict):
        return _found(value[steps[0]], steps[1:]) if steps[0] in value else []
    return [value]


def _exchanged(value: object, steps: list[str], other: object) -> object:
    """The same value with another at the pointer; lists on the way keep the one member that leads there."""
    if not steps:
        return other
    if isinstance(value, list):
        return [_exchanged(item, steps, other) for item in value if _found(item, steps)]
    assert isinstance(value, dict)
    made = copy.deepcopy(value)
    made[steps[0]] = _exchanged(value[steps[0]], steps[1:], other)
    return made


def _reaches(value: object, steps: list[str]) -> bool:
    """Whether the way to the pointer is there to its end."""
    if not steps:
        return True
    if isinstance(value, list):
        return any(_reaches(item, steps) for item in value)
    return isinstance(value, dict) and steps[0] in value and _reaches(value[steps[0]], steps[1:])


@settings(max_examples=350, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(_ROOTS, st.sampled_from(["/x", "/x/x", "/x/y"]), st.lists(_VALUES, min_size=8, max_size=16))
def test_a_projection_holds_what_stands_there(schema, pointer, values):
    root = {"type": "object", "allOf": [schema], "$defs": _DEFINITIONS}
    valid = compile_schema(root, "").is_valid
    there = project(root, pointer)
    steps = pointer.split("/")[1:]
    for value in values:
        if not valid(value):
            continue
        found = [one for one in _found(value, steps) if isinstance(one, str | int) and not isinstance(one, bool)]
        for one in found:
            text = one if isinstance(one, str) else json.dumps(one)
            assert matches(there.bounds.upper, text), (root, pointer, value)
        if there.whole and len(found) == 1 and len(_found(value, steps)) == 1 and _reaches(value, steps):
            event("exchanged")
            for word in _WORDS:
                if matches(there.bounds.lower, word):
                    others = [
                        word,
                        [word],
                        [[word]],
                        *([int(word), [int(word)], [[int(word)]]] if word.isdecimal() else []),
                    ]
                    assert any(valid(_exchanged(value, steps, other)) for other in others), (root, pointer, value, word)
