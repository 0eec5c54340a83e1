"""The strings that a subschema accepts, as a language; between two bounds where it is not known exactly.

1. `lower` holds only strings that are accepted, `upper` every string that is. They are one language where that is exact.
2. Keywords about strings restrict; keywords about other kinds of values say nothing. `format` is an annotation.
3. `allOf`, `anyOf`, `oneOf`, `not`, `if` and `$ref` are followed; under `not` the bounds change places.
4. A pattern that is merely not anchored lies between its two readings: the whole string, and anywhere in it. One that
   validators read differently (`is_portable`) says nothing: lower is nothing, upper is the rest.
5. An integer is its decimal spelling: a scope can name one.

A `witness` reading takes every pattern as the gate's validator does: to find candidates that it then confirms.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, floor
from typing import Final

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.schema.closure import resolve
from broker.domain.schema.dialect import SchemaError
from broker.domain.schema.patterns import Unportable, is_portable, parse_pattern
from broker.domain.schema.regular import (
    Language,
    any_text,
    char_set,
    complement,
    concatenation,
    intersection,
    nothing,
    of_length,
    one_of,
    repetition,
    text,
    union,
)

_MAX_DEPTH: Final = 48
_MAX_NODES: Final = 2_000
_MAX_EXCLUSIVE: Final = 32
_ENDLESS_DIGITS: Final = 40
_DIGIT: Final = one_of(char_set([(0x30, 0x39)]))
_MINUS: Final = text("-")


@dataclass(frozen=True, slots=True)
class Bounds:
    """lower lies within the true language, which lies within upper."""

    lower: Language
    upper: Language

    @property
    def exact(self) -> bool:
        return self.lower is self.upper

    @classmethod
    def exactly(cls, language: Language) -> Bounds:
        return cls(language, language)

    def complement(self) -> Bounds:
        return Bounds(complement(self.upper), complement(self.lower))


ANYTHING: Final = Bounds.exactly(any_text())
NONE: Final = Bounds.exactly(nothing())
UNKNOWN: Final = Bounds(nothing(), any_text())


def all_of(bounds: Iterable[Bounds]) -> Bounds:
    """What lies in each."""
    found = list(bounds)
    return Bounds(intersection(*(one.lower for one in found)), intersection(*(one.upper for one in found)))


def any_of(bounds: Iterable[Bounds]) -> Bounds:
    """What lies in any."""
    found = list(bounds)
    return Bounds(union(*(one.lower for one in found)), union(*(one.upper for one in found)))


def string_language(schema: JsonValue, root: JsonObject, *, witness: bool = False) -> Bounds:
    """The strings that a schema accepts; `root` is the document that its references lead into, in 2020-12 form."""
    return _Reading(root, witness=witness).bounds(schema, frozenset(), 0)


def spelled_language(schema: JsonValue, root: JsonObject, *, witness: bool = False) -> Bounds:
    """The strings, and the spellings of the integers, that a schema accepts."""
    numbers = all_of((Bounds.exactly(INTEGERS), _Integers(root, witness=witness).bounds(schema, frozenset(), 0)))
    return any_of((string_language(schema, root, witness=witness), numbers))


def integers(low: int | None, high: int | None) -> Language:
    """The decimal spellings of the integers from low to high; None is without end."""
    if low is not None and high is not None and low > high:
        return nothing()
    found = [_naturals(max(low or 0, 0), high)] if high is None or high >= 0 else []
    if low is None or low < 0:
        negative = _naturals(max(1, -high) if high is not None and high < 0 else 1, None if low is None else -low)
        found.append(concatenation(_MINUS, negative))
    return union(*found)


def _naturals(low: int, high: int | None) -> Language:
    """No sign, no leading zeros; 0 <= low."""
    if high is not None and high < low:
        return nothing()
    digits = len(str(low))
    longest = len(str(high)) if high is not None else digits
    if max(digits, longest) > _ENDLESS_DIGITS:
        raise SchemaError("/maximum: a bound with too many digits")
    found = []
    for length in range(digits, longest + 1):
        first = max(low, 10 ** (length - 1) if length > 1 else 0)
        last = 10**length - 1 if high is None else min(high, 10**length - 1)
        found.append(_same_length(str(first), str(last)))
    if high is None:
        found.append(concatenation(one_of(char_set([(0x31, 0x39)])), repetition(_DIGIT, digits, None)))
    return union(*found)


def _same_length(low: str, high: str) -> Language:
    """The digit strings from low to high, which are equally long."""
    made = text("")
    # From the last digit on: what may follow a prefix that equals low's, high's, both, or lies between.
    above = below = between = made
    both = made
    for index in range(len(low) - 1, -1, -1):
        first, last = int(low[index]), int(high[index])
        middle = one_of(char_set([(0x30 + first + 1, 0x30 + last - 1)])) if last - first > 1 else nothing()
        low_digit, high_digit = text(low[index]), text(high[index])
        if first == last:
            both = concatenation(low_digit, both)
        else:
            both = union(
                concatenation(low_digit, above), concatenation(middle, between), concatenation(high_digit, below)
            )
        more = one_of(char_set([(0x30 + first + 1, 0x39)])) if first < 9 else nothing()
        less = one_of(char_set([(0x30, 0x30 + last - 1)])) if last > 0 else nothing()
        above = union(concatenation(low_digit, above), concatenation(more, between))
        below = union(concatenation(high_digit, below), concatenation(less, between))
        between = concatenation(_DIGIT, between)
    return both


INTEGERS: Final = integers(None, None)


class _Reading:
    """One walk through a schema, about its strings."""

    kinds: tuple[str, ...] = ("string",)

    def __init__(self, root: JsonObject, *, witness: bool) -> None:
        self._root = root
        self._witness = witness
        self._left = _MAX_NODES

    def bounds(self, schema: JsonValue, seen: frozenset[str], depth: int) -> Bounds:
        if schema is True:
            return ANYTHING
        if schema is False:
            return NONE
        self._left -= 1
        if not isinstance(schema, dict) or depth > _MAX_DEPTH or self._left < 0 or "$dynamicRef" in schema:
            return UNKNOWN
        kind = schema.get("type")
        if kind is not None and not any(
            known == kind or (isinstance(kind, list) and known in kind) for known in self.kinds
        ):
            return NONE
        try:
            return all_of(
                (ANYTHING, *self._values(schema), *self.own(schema), *self._combined(schema, seen, depth + 1))
            )
        except SchemaError:
            return UNKNOWN

    def own(self, schema: JsonObject) -> Iterable[Bounds]:
        """What the keywords about this kind of value say."""
        low, high = _bound(schema.get("minLength"), ceil), _bound(schema.get("maxLength"), floor)
        if low is not None or high is not None:
            yield Bounds.exactly(of_length(low or 0, high))
        pattern = schema.get("pattern")
        if isinstance(pattern, str):
            yield self._pattern(pattern)

    def spelling(self, value: JsonValue) -> str | None:
        return value if isinstance(value, str) else None

    def _pattern(self, pattern: str) -> Bounds:
        language = parse_pattern(pattern)
        if isinstance(language, Unportable):
            return UNKNOWN
        if self._witness or is_portable(pattern) is None:
            return Bounds.exactly(language)
        anchored = f"^(?:{pattern})$"
        whole = parse_pattern(anchored)
        if is_portable(anchored) is not None or isinstance(whole, Unportable):
            return UNKNOWN
        return Bounds(whole, language)

    def _values(self, schema: JsonObject) -> Iterable[Bounds]:
        for values in ([schema["const"]] if "const" in schema else None, schema.get("enum")):
            if isinstance(values, list):
                spelled = [spelling for value in values if (spelling := self.spelling(value)) is not None]
                yield Bounds.exactly(union(*map(text, spelled)))

    def _combined(self, schema: JsonObject, seen: frozenset[str], depth: int) -> Iterable[Bounds]:
        reference = schema.get("$ref")
        if isinstance(reference, str):
            circular = reference in seen
            yield UNKNOWN if circular else self.bounds(resolve(self._root, reference), seen | {reference}, depth)
        for keyword, combine in (("allOf", all_of), ("anyOf", any_of), ("oneOf", _one_of)):
            branches = schema.get(keyword)
            if isinstance(branches, list):
                yield combine([self.bounds(branch, seen, depth) for branch in branches])
        if "not" in schema:
            yield self.bounds(schema["not"], seen, depth).complement()
        if "if" in schema and ("then" in schema or "else" in schema):
            condition = self.bounds(schema["if"], seen, depth)
            then, other = (self.bounds(schema.get(keyword, True), seen, depth) for keyword in ("then", "else"))
            yield any_of((all_of((condition, then)), all_of((condition.complement(), other))))


class _Integers(_Reading):
    """The same about integers. A number with a fraction has no spelling in a scope."""

    kinds = ("integer", "number")

    def own(self, schema: JsonObject) -> Iterable[Bounds]:
        low, high = _bound(schema.get("minimum"), ceil), _bound(schema.get("maximum"), floor)
        above, below = _bound(schema.get("exclusiveMinimum"), floor), _bound(schema.get("exclusiveMaximum"), ceil)
        least = [bound for bound in (low, None if above is None else above + 1) if bound is not None]
        most = [bound for bound in (high, None if below is None else below - 1) if bound is not None]
        if least or most:
            yield Bounds.exactly(integers(max(least, default=None), min(most, default=None)))
        if schema.get("multipleOf", 1) != 1:
            yield Bounds(nothing(), INTEGERS)

    def spelling(self, value: JsonValue) -> str | None:
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
            return None
        return str(int(value))


def _one_of(found: list[Bounds]) -> Bounds:
    """What lies in exactly one."""
    if len(found) > _MAX_EXCLUSIVE:
        return Bounds(nothing(), any_of(found).upper)
    alone = []
    for number, one in enumerate(found):
        others = [other for index, other in enumerate(found) if index != number]
        alone.append(all_of((one, any_of(others).complement())) if others else one)
    return any_of(alone)


def _bound(value: JsonValue, rounded: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if isinstance(value, int) else ceil(value) if rounded is ceil else floor(value)
