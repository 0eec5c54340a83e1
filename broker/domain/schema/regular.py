"""Questions about regular languages: does a string belong, is there one at all, does one language hold another?

1. *Belongs* is in `matching`.
2. *Is there one* walks the derivatives (Brzozowski): what may still follow after a character is a language again, and
   there are finitely many. A walk that meets one that takes the empty string has a witness; one that has met them all,
   a proof that there is none (`languages`).
3. Characters that no set of a state tells apart are tried once, by their most readable member, the shortest string first.
4. Work is counted in steps. Over the bound the answer is unknown; nothing is guessed.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from broker.domain.schema.answers import Answer, Blocker, No, Unknown, Yes
from broker.domain.schema.charsets import ANY_CHARACTER, CharSet, char_set, characters, has, is_within, joined
from broker.domain.schema.languages import (
    EMPTY,
    NOTHING,
    Form,
    Language,
    any_text,
    as_run,
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
from broker.domain.schema.matching import matches

__all__ = [
    "STEPS", "CharSet", "Language", "any_text", "as_run", "char_set", "characters", "complement", "concatenation", "difference",
    "intersection", "matches", "member", "nothing", "of_length", "one_of", "repetition", "text", "union",
]  # fmt: skip

STEPS: Final = 20_000
_MAX_DEPTH: Final = 150
_REMEMBERED: Final = 8_192  # the patterns of one contract meet again in every question about it
_READABLE: Final = (
    ("a", "z"),
    ("0", "9"),
    ("A", "Z"),
    ("-", "-"),
    ("_", "_"),
    ("/", "/"),
    (".", "."),
    ("!", "~"),
    (" ", " "),
)


@lru_cache(maxsize=_REMEMBERED)
def member(language: Language, *, steps: int = STEPS) -> Answer:
    """Whether the language holds a string: yes with a shortest one, readable where possible; no; or unknown."""
    if language is NOTHING:
        return No("languages")
    if language.depth > _MAX_DEPTH:
        return _unknown(f"expressions nest deeper than {_MAX_DEPTH}")
    try:
        found = _Walk(steps).shortest(language)
    except _OutOfSteps:
        return _unknown(f"the languages take more than {steps} steps to compare")
    return No("languages") if found is None else Yes(found)


def difference(one: Language, other: Language, *, steps: int = STEPS) -> Answer:
    """Whether one holds a string that the other does not; `No` says that one lies within the other."""
    run = as_run(other)
    if run is not None:
        # Lengths and letters alone often show it, where counting up to a high bound would not.
        chars, low, high = run
        fits = one.shortest >= low and (high is None or (one.longest is not None and one.longest <= high))
        if fits and (chars == ANY_CHARACTER or is_within(_letters(one), chars)):
            return No("languages")
    return member(intersection(one, complement(other)), steps=steps)


def _letters(language: Language) -> CharSet:
    """A set that holds every character of every string of the language; not always the smallest."""
    found: list[CharSet] = []
    pending, seen = [language], {language}
    while pending:
        part = pending.pop()
        if part.form is Form.CHARS:
            found.append(part.chars)
        elif part.form is Form.NOT:
            return ANY_CHARACTER
        for below in part.parts:
            if below not in seen:
                seen.add(below)
                pending.append(below)
    return joined(found)


def _unknown(why: str) -> Unknown:
    return Unknown((Blocker("pattern", "", why),))


class _OutOfSteps(Exception):
    """The bound was met; this never leaves the module."""


class _Walk:
    """One walk over derivatives, with what it has worked out so far."""

    def __init__(self, steps: int) -> None:
        self._left = steps
        self._derived: dict[tuple[Language, int], Language] = {}
        self._first: dict[Language, frozenset[CharSet]] = {}
        self._apart: dict[frozenset[CharSet], tuple[int, ...]] = {}

    def shortest(self, start: Language) -> str | None:
        if start.nullable:
            return ""
        came_by: dict[Language, tuple[Language, int] | None] = {start: None}
        states = [start]
        for state in states:  # grows while it is walked
            for code in self._characters(state):
                after = self._after(state, code)
                if after is NOTHING or after in came_by:
                    continue
                came_by[after] = (state, code)
                if after.nullable:
                    return _spelt(after, came_by)
                states.append(after)
        return None

    def _spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise _OutOfSteps

    def _after(self, language: Language, code: int) -> Language:
        """What may follow the character."""
        form = language.form
        if form is Form.CHARS:
            return EMPTY if has(language.chars, code) else NOTHING
        if form in (Form.NOTHING, Form.EMPTY):
            return NOTHING
        known = self._derived.get((language, code))
        if known is None:
            known = self._derived[language, code] = self._worked_out(language, code)
            if known.depth > _MAX_DEPTH:
                raise _OutOfSteps
        return known

    def _worked_out(self, language: Language, code: int) -> Language:
        self._spend(1 + len(language.parts) // 4)
        match language.form:
            case Form.CONCAT:
                return self._after_chain(language, code)
            case Form.REPEAT:
                inner, low, high = language.parts[0], language.low, language.high
                after = self._after(inner, code)
                if after is NOTHING:
                    return NOTHING
                rest = repetition(inner, max(0, low - 1), None if high is None else high - 1)
                return self._chained(after, rest)
            case Form.UNION:
                return union(*[self._after(part, code) for part in language.parts])
            case Form.COMMON:
                found = []
                for part in language.parts:
                    after = self._after(part, code)
                    if after is NOTHING:
                        return NOTHING
                    found.append(after)
                return intersection(*found)
            case _:
                return complement(self._after(language.parts[0], code))

    def _after_chain(self, chain: Language, code: int) -> Language:
        """A chain may be long, so this goes along it, not down it."""
        found = []
        rest = chain
        while rest.form is Form.CONCAT:
            self._spend(1)
            head, tail = rest.parts
            after = self._after(head, code)
            if after is not NOTHING:
                found.append(self._chained(after, tail))
            if not head.nullable:
                return union(*found)
            rest = tail
        found.append(self._after(rest, code))
        return union(*found)

    def _chained(self, head: Language, tail: Language) -> Language:
        rest = head
        while rest.form is Form.CONCAT:
            self._spend(1)
            rest = rest.parts[1]
        return concatenation(head, tail)

    def _characters(self, state: Language) -> tuple[int, ...]:
        """One character of each kind that the state tells apart, the most readable first."""
        sets = self._first_sets(state)
        known = self._apart.get(sets)
        if known is None:
            self._spend(1 + sum(map(len, sets)) // 4)
            known = self._apart[sets] = _told_apart(sets)
        return known

    def _first_sets(self, language: Language) -> frozenset[CharSet]:
        """The sets that decide about the first character."""
        if language.form is Form.CHARS:
            return frozenset((language.chars,))
        known = self._first.get(language)
        if known is None:
            self._spend(1)
            known = self._first[language] = frozenset().union(*map(self._first_sets, _leading(language)))
        return known


def _leading(language: Language) -> list[Language]:
    """The parts that a string may begin in."""
    if language.form is not Form.CONCAT:
        return list(language.parts)
    found = []
    while language.form is Form.CONCAT:
        found.append(language.parts[0])
        if not language.parts[0].nullable:
            return found
        language = language.parts[1]
    return [*found, language]


def _told_apart(sets: frozenset[CharSet]) -> tuple[int, ...]:
    events: list[tuple[int, int]] = []
    for number, chars in enumerate((ANY_CHARACTER, *sets)):
        for low, high in chars:
            events.append((low, 1 << number))
            events.append((high + 1, 1 << number))
    events.sort()
    best: dict[int, tuple[int, int]] = {}
    inside = 0
    for index, (start, change) in enumerate(events[:-1]):
        inside ^= change
        end = events[index + 1][0] - 1
        if end >= start and inside & 1:  # bit 0: no surrogate
            rank = _readable(start, end)
            if inside not in best or rank < best[inside]:
                best[inside] = rank
    return tuple(code for _, code in sorted(best.values()))


def _readable(start: int, end: int) -> tuple[int, int]:
    """How readable the most readable character of a range is (0 is best), and its code point."""
    for rank, (low, high) in enumerate(_READABLE):
        code = max(start, ord(low))
        if code <= min(end, ord(high)):
            return rank, code
    return len(_READABLE) + (start < 0xA0), start


def _spelt(state: Language, came_by: dict[Language, tuple[Language, int] | None]) -> str:
    found = []
    step = came_by[state]
    while step is not None:
        state, code = step
        found.append(chr(code))
        step = came_by[state]
    return "".join(reversed(found))
