"""Strings that tell patterns apart, for the search of witnesses: in one and not in another, in both, in one and in none.

1. A pattern that is only not anchored is taken by the part that all its readings agree on, for being in as for being out, so
   that what is found stands in every reading. One with no portable reading gives nothing.
2. Lengths that the question names bound the strings too: short enough, long enough.
3. These are suggestions. What they show is the validator's to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from broker.domain.canonical import JsonObject
from broker.domain.schema.answers import Yes
from broker.domain.schema.bare import every
from broker.domain.schema.patterns import Unportable, is_portable, parse_pattern
from broker.domain.schema.readings import patterns_in, whole
from broker.domain.schema.regular import Language, complement, intersection, member, of_length, union

_MAX_PATTERNS: Final = 8
_MAX_LENGTHS: Final = 4
_STEPS: Final = 2_000


@dataclass(frozen=True, slots=True)
class _Bounds:
    """What is in for certain, and what may be in."""

    sure: Language
    possible: Language


def telling_strings(schemas: Sequence[JsonObject]) -> tuple[str, ...]:
    """Strings at which the patterns of bare schemas differ or agree."""
    patterns = sorted({pattern for schema in schemas for pattern in patterns_in(schema)})
    bounds = [found for found in map(_bounds, patterns[:_MAX_PATTERNS]) if found is not None]
    if not bounds:
        return ()
    found: dict[str, None] = {}
    for language in _languages(bounds, _lengths(schemas)):
        answer = member(language, steps=_STEPS)
        if isinstance(answer, Yes) and isinstance(answer.witness, str):
            found[answer.witness] = None
    return tuple(found)


def _bounds(pattern: str) -> _Bounds | None:
    here = parse_pattern(pattern)
    if isinstance(here, Unportable):
        return None
    if is_portable(pattern) is None:
        return _Bounds(here, here)
    alone = parse_pattern(whole(pattern))
    if isinstance(alone, Unportable) or is_portable(whole(pattern)) is not None:
        return None
    return _Bounds(intersection(here, alone), union(here, alone))


def _languages(bounds: Sequence[_Bounds], lengths: Sequence[int]) -> Iterator[Language]:
    for one in bounds:
        for other in bounds:
            if one is not other:
                yield intersection(one.sure, complement(other.possible))
                yield intersection(one.sure, other.sure)
    nowhere = complement(union(*(one.possible for one in bounds)))
    for low, high in [
        (0, None),
        *((length, length) for length in lengths),
        *((length + 1, length + 1) for length in lengths),
    ]:
        yield intersection(nowhere, of_length(low, high))
        for one in bounds:
            yield intersection(one.sure, of_length(low, high))
            yield intersection(complement(one.possible), of_length(low, high))


def _lengths(schemas: Sequence[JsonObject]) -> list[int]:
    found = {
        node.get(keyword) for schema in schemas for _, node in every(schema) for keyword in ("minLength", "maxLength")
    }
    return sorted(length for length in found if isinstance(length, int) and length <= 1_000)[:_MAX_LENGTHS]
