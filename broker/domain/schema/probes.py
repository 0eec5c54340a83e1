"""Numbers and strings at the edges of what schemas say: just inside, just outside, and plain ones.

Lengths over `MAX_TEXT` are not built: such an edge is left to proof.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, isfinite
from typing import Final

from broker.domain.canonical import JsonValue
from broker.domain.schema.answers import Yes
from broker.domain.schema.fits import number_at
from broker.domain.schema.patterns import Unportable, parse_pattern
from broker.domain.schema.regular import Language, complement, member, of_length

MAX_TEXT: Final = 10_000
_MAX_NUMBER: Final = 10**300
_STEPS: Final = 2_000
_BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")


def numbers_within(schemas: Sequence[JsonValue], *, whole: bool) -> Iterator[float | int]:
    """Numbers that probably satisfy all bounds together, the plainest first."""
    lows = [
        number
        for schema in schemas
        for keyword in ("minimum", "exclusiveMinimum")
        if (number := number_at(schema, keyword)) is not None
    ]
    highs = [
        number
        for schema in schemas
        for keyword in ("maximum", "exclusiveMaximum")
        if (number := number_at(schema, keyword)) is not None
    ]
    steps = [number for schema in schemas if (number := number_at(schema, "multipleOf"))]
    step = _common_step(steps)
    low, high = max(lows, default=None), min(highs, default=None)
    around: list[float | int] = [0, 1] if low is None and high is None else []
    if low is not None and abs(low) < _MAX_NUMBER:
        around += [low, low + 1]
        if not whole:
            around.append((low + high) / 2 if high is not None and abs(high) < _MAX_NUMBER else low + 0.5)
    if high is not None and abs(high) < _MAX_NUMBER:
        around += [high, high - 1]
    if not whole:
        around += [0.5, 1.5]
    for number in around:
        if step:
            yield from _multiples(number, step)
        elif whole:
            yield ceil(number) if isfinite(number) else 0
        else:
            yield number


def edge_numbers(schemas: Sequence[JsonValue]) -> Iterator[float | int]:
    """Numbers on both sides of every bound, multiples and what is none."""
    for schema in schemas:
        for keyword in _BOUNDS:
            bound = number_at(schema, keyword)
            if bound is not None:
                yield from (_plain(bound), _plain(bound + 1), _plain(bound - 1))
                if abs(bound) < 2**52:
                    yield from (bound + 0.5, bound - 0.5)
        step = number_at(schema, "multipleOf")
        if step and abs(step) < _MAX_NUMBER / 8:
            yield from (_plain(step), _plain(2 * step), _plain(3 * step), _plain(5 * step), step * 1.5)


def texts_within(schemas: Sequence[JsonValue]) -> Iterator[str | Language]:
    """Plain texts of the lengths that all schemas allow, and those lengths as languages, in turn."""
    low = max([int(number_at(schema, "minLength") or 0) for schema in schemas], default=0)
    highs = [int(number) for schema in schemas if (number := number_at(schema, "maxLength")) is not None]
    high = min(highs, default=None)
    if low > MAX_TEXT or (high is not None and high < low):
        return
    yield of_length(low, high)
    if low == 0 and high != 0:
        yield "a"
        yield of_length(1, high)
    for length in dict.fromkeys((low, low + 1, low + 2)):
        if high is None or length <= high:
            yield from (letter * length for letter in "abcdefgh")
            yield of_length(length, length)


def edge_texts(schemas: Sequence[JsonValue]) -> Iterator[str]:
    """Texts on both sides of every length, and in and out of every pattern."""
    lengths = [
        int(number)
        for schema in schemas
        for keyword in ("minLength", "maxLength")
        if (number := number_at(schema, keyword)) is not None
    ]
    for length in dict.fromkeys(lengths):
        for near in (length, length - 1, length + 1):
            if 0 <= near <= MAX_TEXT:
                yield "a" * near
    patterns = dict.fromkeys(
        str(schema["pattern"])
        for schema in schemas
        if isinstance(schema, dict) and isinstance(schema.get("pattern"), str)
    )
    for pattern in patterns:
        language = parse_pattern(pattern)
        if isinstance(language, Unportable):
            continue
        for asked in (language, complement(language)):
            answer = member(asked, steps=_STEPS)
            if isinstance(answer, Yes) and isinstance(answer.witness, str):
                yield answer.witness


def _common_step(steps: Sequence[float | int]) -> float | int | None:
    """A number that is a multiple of all steps, where that is simple to say."""
    if not steps:
        return None
    made: float | int = steps[0]
    for step in steps[1:]:
        if isinstance(made, int) and isinstance(step, int):
            product = made * step
            while step:
                made, step = step, made % step
            made = product // made
        elif abs(step) > abs(made):
            made = step
    return made


def _multiples(number: float, step: float) -> Iterator[float | int]:
    try:
        times = ceil(number / step)
    except (OverflowError, ValueError):
        times = 0
    for near in (times, times - 1, times + 1):
        yield _plain(near * step)


def _plain(number: float) -> float | int:
    """Without a fraction that says nothing: 5, not 5.0."""
    if isinstance(number, float) and isfinite(number) and number.is_integer() and abs(number) < 2**53:
        return int(number)
    return number if isinstance(number, int) or isfinite(number) else 0
