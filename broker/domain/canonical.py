"""JSON that has one reading and one spelling.

Reading (`parse_json`), each broken rule a `JsonError` with where it is:
1. valid UTF-8, RFC 8259 grammar, no NaN or Infinity, also not by overflow (`1e400`);
2. no member name twice in one object (RFC 8259 §4 only says "should");
3. nesting at most `MAX_DEPTH`, numbers at most `MAX_DIGITS` characters.

Spelling (`canonical_json`): RFC 8785, whose numbers are ECMAScript's. An integer beyond 2^53 that would be spelled with
other digits than its own is refused rather than rounded, so what was spelled reads back and spells the same.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from json.encoder import encode_basestring
from typing import Final, TypeAlias

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
JsonObject: TypeAlias = "dict[str, JsonValue]"

MAX_DEPTH: Final = 64
MAX_DIGITS: Final = 64
MAX_INTEGER: Final = 2**53 - 1


class JsonError(ValueError):
    """The text is not JSON with one reading; the message says what and where."""


def _pairs(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise JsonError(f"the member {twice[:64]!r} stands twice in one object")
    return made


def _constant(text: str) -> float:
    raise JsonError(f"{text} is not a JSON number")


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise JsonError(f"a number of {len(text)} characters; at most {MAX_DIGITS} are read")
    return int(text)


def _float(text: str) -> float:
    if len(text) > MAX_DIGITS:
        raise JsonError(f"a number of {len(text)} characters; at most {MAX_DIGITS} are read")
    value = float(text)
    if not math.isfinite(value):
        raise JsonError("a number out of range")
    return value


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_constant=_constant, parse_int=_integer, parse_float=_float
)


def parse_json(text: str | bytes) -> JsonValue:
    """Read JSON that has one reading. Raises `JsonError`."""
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise JsonError(f"not UTF-8 at byte {error.start}") from None
    try:
        value: JsonValue = _DECODER.decode(text)
    except RecursionError:
        raise JsonError(f"nested deeper than {MAX_DEPTH}") from None
    except JsonError:
        raise
    except json.JSONDecodeError as error:
        raise JsonError(f"{error.msg} at line {error.lineno} column {error.colno}") from None
    # Depth costs a walk, so the text is asked first whether it could be deep at all.
    if len(text) > MAX_DEPTH and text.count("[") + text.count("{") > MAX_DEPTH:
        _check_depth(value)
    return value


def _check_depth(value: JsonValue) -> None:
    level: list[JsonValue] = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for node in level
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return
    raise JsonError(f"nested deeper than {MAX_DEPTH}")


def parse_json_object(text: str | bytes) -> JsonObject:
    """Read a JSON object that has one reading. Raises `JsonError`."""
    value = parse_json(text)
    if not isinstance(value, dict):
        raise JsonError("a JSON object was expected")
    return value


_WORDS: Final = {None: "null", True: "true", False: "false"}
_spell_string = encode_basestring  # RFC 8785 §3.2.2.2 escapes just what this does


def canonical_json(value: object) -> bytes:
    """The RFC 8785 spelling of a JSON value. Raises `JsonError` where it has none."""
    try:
        return _spell(value, 0).encode("utf-8")
    except UnicodeEncodeError:
        raise JsonError("a string holds a lone surrogate, which UTF-8 cannot carry") from None


def _spell(value: object, depth: int) -> str:
    # by exact type first: this stands on the road of every exchange
    if type(value) is str:
        return _spell_string(value)
    if value is None or type(value) is bool:
        return _WORDS[value]
    if type(value) is dict:
        return _spell_object(value, depth)
    match value:
        case int():
            if abs(value) > MAX_INTEGER and not _is_spelled_as_itself(value):
                raise JsonError("an integer beyond 2^53, where numbers are no longer exact")
            return str(int(value))
        case float():
            return _spell_number(value)
        case list() | tuple():
            _check_spelling_depth(depth)
            return f"[{','.join([_spell(item, depth + 1) for item in value])}]"
        case str():
            return _spell_string(str(value))
        case Mapping():
            return _spell_object(value, depth)
    raise JsonError(f"{type(value).__name__} is not a JSON value")


def _spell_object(value: Mapping[str, object], depth: int) -> str:
    _check_spelling_depth(depth)
    try:
        plain = "".join(value).isascii()
    except TypeError:
        raise JsonError("a member name is not a string") from None
    names = sorted(value) if plain else sorted(value, key=_utf16)
    return f"{{{','.join([f'{_spell_string(name)}:{_spell(value[name], depth + 1)}' for name in names])}}}"


def _check_spelling_depth(depth: int) -> None:
    if depth > 4 * MAX_DEPTH:
        raise JsonError(f"nested deeper than {4 * MAX_DEPTH}")


def _utf16(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")


def _is_spelled_as_itself(value: int) -> bool:
    return abs(value) < 10**21 and _spell_number(float(value)) == str(value)


def _spell_number(value: float) -> str:
    """ECMAScript's Number::toString, which Python's shortest `repr` shares but for where the exponent begins."""
    if not math.isfinite(value):
        raise JsonError("NaN and Infinity are not JSON")
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    if fraction == "0":
        fraction = ""
    digits = whole + fraction
    point = len(whole) + (int(exponent) if exponent else 0)
    stripped = digits.lstrip("0")
    point -= len(digits) - len(stripped)
    digits = stripped.rstrip("0") or "0"
    count = len(digits)
    if count <= point <= 21:
        body = digits + "0" * (point - count)
    elif 0 < point <= 21:
        body = f"{digits[:point]}.{digits[point:]}"
    elif -6 < point <= 0:
        body = "0." + "0" * -point + digits
    else:
        power = point - 1
        tail = f".{digits[1:]}" if count > 1 else ""
        body = f"{digits[0]}{tail}e{'+' if power >= 0 else '-'}{abs(power)}"
    return sign + body
