"""RFC 8785: the vectors of its reference implementation, the number table of its appendix B, and what has no spelling."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import pytest
from broker.domain.canonical import JsonError, canonical_json, parse_json
from broker.domain.digests import digest_of

SHARED = Path(__file__).parents[3] / "shared" / "data" / "vectors" / "rfc8785" / "testdata"
NAMES = ["arrays", "french", "structures", "unicode", "values", "weird"]


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/data is not here, so its RFC 8785 vectors are not run")
@pytest.mark.parametrize("name", NAMES)
def test_a_reference_vector_is_spelled_byte_for_byte(name: str) -> None:
    value = parse_json((SHARED / "input" / f"{name}.json").read_bytes())
    assert canonical_json(value) == bytes.fromhex((SHARED / "outhex" / f"{name}.txt").read_text())


@pytest.mark.parametrize(
    ("bits", "spelling"),
    [
        ("0000000000000000", "0"),
        ("8000000000000000", "0"),
        ("0000000000000001", "5e-324"),
        ("8000000000000001", "-5e-324"),
        ("7fefffffffffffff", "1.7976931348623157e+308"),
        ("ffefffffffffffff", "-1.7976931348623157e+308"),
        ("4340000000000000", "9007199254740992"),
        ("c340000000000000", "-9007199254740992"),
        ("4430000000000000", "295147905179352830000"),
        ("44b52d02c7e14af5", "9.999999999999997e+22"),
        ("44b52d02c7e14af6", "1e+23"),
        ("44b52d02c7e14af7", "1.0000000000000001e+23"),
        ("444b1ae4d6e2ef4e", "999999999999999700000"),
        ("444b1ae4d6e2ef4f", "999999999999999900000"),
        ("444b1ae4d6e2ef50", "1e+21"),
        ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
        ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("41b3de4355555553", "333333333.3333332"),
        ("41b3de4355555554", "333333333.33333325"),
        ("41b3de4355555555", "333333333.3333333"),
        ("41b3de4355555556", "333333333.3333334"),
        ("41b3de4355555557", "333333333.33333343"),
        ("becbf647612f3696", "-0.0000033333333333333333"),
        ("43143ff3c1cb0959", "1424953923781206.2"),
    ],
)
def test_a_number_of_appendix_b_is_spelled_as_ecmascript_does(bits: str, spelling: str) -> None:
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical_json(number) == spelling.encode()


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        -math.inf,
        2**53 + 1,
        -(2**53) - 1,
        2**60,
        10**21,
        10**5_000,
        "\ud800",
        {1: 2},
        {"a": b""},
        {1},
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_exact_spelling_is_refused_not_rounded(value: object) -> None:
    with pytest.raises(JsonError):
        canonical_json(value)


@pytest.mark.parametrize("value", [2**53, -(2**53), 10**17, 295147905179352830000])
def test_an_integer_beyond_2_53_keeps_its_digits_or_is_refused(value: int) -> None:
    assert canonical_json(value) == str(value).encode() == canonical_json(float(value))


def test_members_are_sorted_by_utf_16_units_not_by_code_points() -> None:
    assert canonical_json({"\ue000": 1, "\U0001f600": 2, "a": 3}) == '{"a":3,"\U0001f600":2,"\ue000":1}'.encode()


def test_a_digest_does_not_depend_on_the_order_of_members() -> None:
    assert digest_of({"b": 1, "a": [True, None]}) == digest_of(parse_json('{ "a" : [ true, null ], "b" : 1.0 }'))
    assert digest_of({}) == "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
