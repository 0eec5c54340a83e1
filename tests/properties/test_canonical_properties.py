"""RFC 8785 against a second implementation, over all kinds of values."""

from __future__ import annotations

import json

import rfc8785
from broker.domain.canonical import JsonError, canonical_json, parse_json
from hypothesis import given
from hypothesis import strategies as st

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=12
)


@given(VALUES)
def test_two_implementations_spell_a_value_alike(value: object) -> None:
    assert canonical_json(value) == rfc8785.dumps(value)  # type: ignore[arg-type]


@given(VALUES)
def test_a_spelling_reads_back_as_the_value_and_spells_the_same(value: object) -> None:
    spelled = canonical_json(value)
    again = parse_json(spelled)
    assert json.dumps(again, sort_keys=True) == json.dumps(json.loads(spelled), sort_keys=True)
    assert canonical_json(again) == spelled


@given(st.binary(max_size=64) | st.text(max_size=64).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        parse_json(data)
    except JsonError:
        pass
