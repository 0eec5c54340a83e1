"""Expressions of regular languages, each made once.

| form     | is                                                                                        |
|----------|-------------------------------------------------------------------------------------------|
| NOTHING  | no string                                                                                 |
| EMPTY    | the empty string                                                                          |
| CHARS    | one character of a set                                                                    |
| CONCAT   | a head, then a tail; nested to the right only                                             |
| REPEAT   | an inner language, `low` to `high` times (None: without end)                               |
| UNION    | any of at least two; COMMON: all of at least two; NOT: any string that is not in the inner |

Equal expressions are one object, so comparing and hashing them is free. (Two threads that make the same one at the same
moment may get two: that costs steps, never a wrong answer.) They are never changed once they are made.
"""

from __future__ import annotations

from enum import IntEnum
from itertools import count
from typing import Final, TypeAlias
from weakref import WeakValueDictionary

from broker.domain.schema.charsets import ANY_CHARACTER, NO_CHARACTER, CharSet


class Form(IntEnum):
    """The forms of the table above."""

    NOTHING = 0
    EMPTY = 1
    CHARS = 2
    CONCAT = 3
    REPEAT = 4
    UNION = 5
    COMMON = 6
    NOT = 7


class Language:
    """A set of strings.

    shortest, longest: bounds of the lengths of its strings; not always the tightest. longest None: no bound is known.
    depth:             how far expressions nest, a chain of concatenations counted once.
    """

    __slots__ = (
        "__weakref__", "chars", "depth", "form", "high", "longest", "low", "nullable", "parts", "serial", "shortest",
    )  # fmt: skip

    def __init__(
        self, form: Form, chars: CharSet, parts: tuple[Language, ...], low: int, high: int | None, serial: int
    ) -> None:
        self.form = form
        self.chars = chars
        self.parts = parts
        self.low = low
        self.high = high
        self.serial = serial
        self.nullable = _is_nullable(form, parts, low)
        self.shortest, self.longest = _lengths(form, parts, low, high)
        inner = max((part.depth for part in parts), default=0)
        self.depth: int = max(parts[0].depth + 1, parts[1].depth) if form is Form.CONCAT else inner + 1

    def __repr__(self) -> str:
        return f"<language {self.form.name.lower()} {self.serial}>"


_Key: TypeAlias = "tuple[Form, CharSet, tuple[Language, ...], int, int | None]"
_known: WeakValueDictionary[_Key, Language] = WeakValueDictionary()
_serials: Final = count()


def expression(
    form: Form, *, chars: CharSet = NO_CHARACTER, parts: tuple[Language, ...] = (), low: int = 0, high: int | None = 0
) -> Language:
    """The expression of this form and these parts. Only constructors of `languages` know which are in normal form."""
    key = (form, chars, parts, low, high)
    found = _known.get(key)
    if found is None:
        found = _known[key] = Language(form, chars, parts, low, high, next(_serials))
    return found


def _is_nullable(form: Form, parts: tuple[Language, ...], low: int) -> bool:
    match form:
        case Form.EMPTY:
            return True
        case Form.CONCAT | Form.COMMON:
            return all(part.nullable for part in parts)
        case Form.UNION:
            return any(part.nullable for part in parts)
        case Form.NOT:
            return not parts[0].nullable
        case Form.REPEAT:
            return low == 0 or parts[0].nullable
        case _:
            return False


def _lengths(form: Form, parts: tuple[Language, ...], low: int, high: int | None) -> tuple[int, int | None]:
    longest = [part.longest for part in parts]
    known = [length for length in longest if length is not None]
    all_known = len(known) == len(longest)
    match form:
        case Form.CHARS:
            return 1, 1
        case Form.CONCAT:
            return sum(part.shortest for part in parts), sum(known) if all_known else None
        case Form.REPEAT:
            most = known[0] * high if known and high is not None else None
            return parts[0].shortest * low, most
        case Form.UNION:
            return min(part.shortest for part in parts), max(known) if all_known else None
        case Form.COMMON:
            return max(part.shortest for part in parts), min(known) if known else None
        case Form.NOT:
            return 0, None
        case _:
            return 0, 0


NOTHING: Final = expression(Form.NOTHING)
EMPTY: Final = expression(Form.EMPTY)
ANY_ONE: Final = expression(Form.CHARS, chars=ANY_CHARACTER)
ALL: Final = expression(Form.REPEAT, parts=(ANY_ONE,), low=0, high=None)
