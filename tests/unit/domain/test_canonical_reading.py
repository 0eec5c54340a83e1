"""Reading JSON that has one reading."""

from __future__ import annotations

import pytest
from broker.domain.canonical import MAX_DEPTH, MAX_DIGITS, JsonError, parse_json, parse_json_object


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"\xff", "not UTF-8 at byte 0"),
        ("", "line 1 column 1"),
        ("{} {}", "column 4"),
        ("[1,]", "column"),
        ("{'a':1}", "column 2"),
        ("NaN", "NaN is not a JSON number"),
        ("[Infinity]", "Infinity is not a JSON number"),
        ("[-Infinity]", "-Infinity is not a JSON number"),
        ("1e400", "out of range"),
        ("9" * (MAX_DIGITS + 1), f"at most {MAX_DIGITS}"),
        ("0." + "1" * MAX_DIGITS, f"at most {MAX_DIGITS}"),
        ('{"a":1,"b":{"c":1,"c":2}}', "'c' stands twice"),
        ('{"a":1,"\\u0061":2}', "'a' stands twice"),
        ("[" * 100_000, f"deeper than {MAX_DEPTH}"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), f"deeper than {MAX_DEPTH}"),
        ('{"a":' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1), f"deeper than {MAX_DEPTH}"),
        ("\ufeff{}", ""),
        ("01", ""),
        ('"\t"', ""),
    ],
)
def test_what_has_no_single_reading_is_refused_and_says_where(text: str | bytes, says: str) -> None:
    with pytest.raises(JsonError) as caught:
        parse_json(text)
    assert says in str(caught.value)


def test_the_deepest_allowed_nesting_is_read() -> None:
    value = parse_json("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    for _ in range(MAX_DEPTH - 1):
        assert isinstance(value, list)
        (value,) = value
    assert value == []


def test_many_shallow_members_are_not_taken_for_deep_ones() -> None:
    assert parse_json("[" + ",".join(["{}"] * 1_000) + "]") == [{}] * 1_000


def test_numbers_keep_their_kind() -> None:
    assert [type(value) for value in parse_json("[1, 1.0, 1e2, true]")] == [int, float, float, bool]  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ["[]", "1", "null", '"{}"'])
def test_where_an_object_is_expected_nothing_else_will_do(text: str) -> None:
    with pytest.raises(JsonError, match="object was expected"):
        parse_json_object(text)
