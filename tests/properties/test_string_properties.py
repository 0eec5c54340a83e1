"""The strings that a subschema accepts lie between the bounds that are given for them."""

from __future__ import annotations

import json

from broker.domain.schema.regular import matches
from broker.domain.schema.strings import integers, spelled_language, string_language
from broker.engines.schemas import compile_schema
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

_WORDS = ["", "a", "b", "ab", "ba", "aab", "a/b", "..", "1", "-1", "12", "b" * 5]
_PATTERNS = ["^[ab]+$", "^a", "b$", "ab", r"^\w*$", "^[^/]*$", "^(?!ab)[ab]*$", "^.{2}$", "^(a|b){1,3}$"]
_KINDS = ["string", "integer", "number", "null", ["string", "null"], ["integer", "string"]]
_BOUNDS = st.tuples(st.integers(-15, 15), st.integers(-15, 15) | st.floats(-15, 15))
_LEAVES = st.one_of(
    st.booleans(),
    st.sampled_from(_PATTERNS).map(lambda pattern: {"pattern": pattern}),
    st.sampled_from(_PATTERNS).map(lambda pattern: {"type": "string", "pattern": pattern, "format": "uri"}),
    st.tuples(st.integers(0, 3), st.integers(0, 4)).map(lambda pair: {"minLength": pair[0], "maxLength": pair[1]}),
    st.sampled_from(_WORDS).map(lambda word: {"const": word}),
    st.lists(st.sampled_from([*_WORDS, 1, -1, 12, 3.0, None, True]), min_size=1, max_size=4).map(
        lambda words: {"enum": words}
    ),
    st.sampled_from(_KINDS).map(lambda kind: {"type": kind}),
    _BOUNDS.map(lambda pair: {"minimum": pair[0], "maximum": pair[1]}),
    _BOUNDS.map(lambda pair: {"exclusiveMinimum": pair[0], "exclusiveMaximum": pair[1]}),
    st.sampled_from(
        [{"multipleOf": 3}, {"$ref": "#/$defs/word"}, {"$ref": "#/$defs/loop"}, {"properties": {"a": False}}]
    ),
)
_SCHEMAS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["allOf", "anyOf", "oneOf"]), st.lists(inner, min_size=1, max_size=3)).map(
            lambda pair: {pair[0]: pair[1]}
        ),
        inner.map(lambda schema: {"not": schema}),
        st.tuples(inner, inner, inner).map(lambda three: {"if": three[0], "then": three[1], "else": three[2]}),
        st.tuples(inner, inner).map(lambda pair: {"allOf": [pair[0]], "anyOf": [pair[1], False]}),
    ),
    max_leaves=5,
)
_DEFINITIONS = {
    "word": {"type": "string", "pattern": "^[ab]{0,2}$"},
    "loop": {"anyOf": [{"const": "a"}, {"properties": {"a": {"$ref": "#/$defs/loop"}}, "maxLength": 2}]},
}


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_SCHEMAS, st.lists(st.text(alphabet="ab/.1", max_size=4), max_size=6))
def test_the_bounds_hold_what_the_validator_accepts(schema, strings):
    root = {"allOf": [schema], "$defs": _DEFINITIONS}
    valid = compile_schema(root, "").is_valid
    bounds = string_language(schema, root)
    loose = string_language(schema, root, witness=True)
    for string in {*strings, *_WORDS}:
        accepted = valid(string)
        if accepted:
            assert matches(bounds.upper, string), (schema, string)
        else:
            assert not matches(bounds.lower, string), (schema, string)
        if loose.exact:
            assert matches(loose.upper, string) == accepted, (schema, string)


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_SCHEMAS, st.lists(st.integers(-20, 20), min_size=5, max_size=8))
def test_an_integer_is_its_spelling(schema, numbers):
    root = {"allOf": [schema], "$defs": _DEFINITIONS}
    valid = compile_schema(root, "").is_valid
    bounds = spelled_language(schema, root)
    for number in numbers:
        if valid(number):
            assert matches(bounds.upper, json.dumps(number)), (schema, number)
        elif not valid(str(number)):
            assert not matches(bounds.lower, json.dumps(number)), (schema, number)


@settings(max_examples=250, deadline=None)
@given(st.none() | st.integers(-3_000, 3_000), st.none() | st.integers(-3_000, 3_000), st.integers(-30_000, 30_000))
def test_a_range_holds_the_spellings_of_its_integers(low, high, number):
    language = integers(low, high)
    near = [bound + step for bound in (low, high) if bound is not None for step in (-1, 0, 1)]
    for one in (number, 0, *near):
        inside = (low is None or one >= low) and (high is None or one <= high)
        assert matches(language, str(one)) is inside, (low, high, one)
    assert not matches(language, "-0")
    assert not matches(language, "007")
