"""Sets of characters: Unicode code points without surrogates, as sorted ranges that neither touch nor overlap.

A set has one spelling, so equal sets are equal values. Surrogates are in none: no JSON text that is read here holds one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, TypeAlias

CharSet: TypeAlias = tuple[tuple[int, int], ...]

LAST: Final = 0x10FFFF
_SURROGATES: Final = (0xD800, 0xDFFF)
NO_CHARACTER: Final[CharSet] = ()
ANY_CHARACTER: Final[CharSet] = ((0, _SURROGATES[0] - 1), (_SURROGATES[1] + 1, LAST))


def char_set(ranges: Iterable[tuple[int, int]]) -> CharSet:
    """The characters of ranges, both ends included."""
    made: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        for low, high in ((first, min(last, _SURROGATES[0] - 1)), (max(first, _SURROGATES[1] + 1), min(last, LAST))):
            if low > high:
                continue
            if made and low <= made[-1][1] + 1:
                made[-1] = (made[-1][0], max(made[-1][1], high))
            else:
                made.append((low, high))
    return tuple(made)


def characters(text: str) -> CharSet:
    """The characters of a text."""
    return char_set((ord(character), ord(character)) for character in text)


def inverted(chars: CharSet) -> CharSet:
    """All the other characters."""
    made: list[tuple[int, int]] = []
    start = 0
    for low, high in chars:
        if low > start:
            made.append((start, low - 1))
        start = high + 1
    if start <= LAST:
        made.append((start, LAST))
    return char_set(made)


def joined(sets: Iterable[CharSet]) -> CharSet:
    """What is in any of the sets."""
    return char_set(part for chars in sets for part in chars)


def shared(one: CharSet, other: CharSet) -> CharSet:
    """What is in both."""
    if one == other or other == ANY_CHARACTER:
        return one
    if one == ANY_CHARACTER:
        return other
    made: list[tuple[int, int]] = []
    first = second = 0
    while first < len(one) and second < len(other):
        low, high = max(one[first][0], other[second][0]), min(one[first][1], other[second][1])
        if low <= high:
            made.append((low, high))
        if one[first][1] < other[second][1]:
            first += 1
        else:
            second += 1
    return tuple(made)


def has(chars: CharSet, code: int) -> bool:
    """Whether a code point is in the set."""
    index = bisect_right(chars, (code, LAST + 1)) - 1
    return index >= 0 and code <= chars[index][1]


def is_within(one: CharSet, other: CharSet) -> bool:
    """Whether all of one is in the other."""
    if one == other or other == ANY_CHARACTER:
        return True
    for low, high in one:
        index = bisect_right(other, (low, LAST + 1)) - 1
        if index < 0 or high > other[index][1]:
            # The gap of surrogates splits a range in every set alike, so a range never has to span two.
            return False
    return True
