"""Whether a string belongs to a language: by following it through the expression.

1. A part is asked where it may end, given all the places where it may begin; places are bits of a number.
2. Intersections and complements are asked about one beginning at a time.
3. The work grows with a power of the length of the string and the size of the expression, whatever the expression is.
"""

from __future__ import annotations

from broker.domain.schema.charsets import CharSet, has
from broker.domain.schema.languages import Form, Language


def matches(language: Language, value: str) -> bool:
    """Whether a string belongs to the language."""
    return bool(_Positions(value).after(language, 1) >> len(value) & 1)


class _Positions:
    """One string. Sets of positions in it are bits of a number: bit n is set where n characters are behind."""

    def __init__(self, value: str) -> None:
        self._codes = [ord(character) for character in value]
        self._all = (1 << (len(value) + 1)) - 1
        self._where: dict[CharSet, int] = {}

    def after(self, language: Language, starts: int) -> int:
        """Where a string of the language may end that begins at one of the starts."""
        while language.form is Form.CONCAT:
            starts = self.after(language.parts[0], starts)
            if not starts:
                return 0
            language = language.parts[1]
        match language.form:
            case Form.NOTHING:
                return 0
            case Form.EMPTY:
                return starts
            case Form.CHARS:
                return (starts & self._at(language.chars)) << 1
            case Form.UNION:
                found = 0
                for part in language.parts:
                    found |= self.after(part, starts)
                return found
            case Form.REPEAT:
                return self._after_repeat(language, starts)
            case _:
                return self._after_each(language, starts)

    def _at(self, chars: CharSet) -> int:
        known = self._where.get(chars)
        if known is None:
            known = sum(1 << index for index, code in enumerate(self._codes) if has(chars, code))
            self._where[chars] = known
        return known

    def _after_repeat(self, language: Language, starts: int) -> int:
        inner, high = language.parts[0], language.high
        low = 0 if inner.nullable else language.low
        found, here, times = 0, starts, 0
        while here:
            before = found
            if times >= low:
                found |= here
                if times > low and found == before and inner.nullable:
                    return found
            if times == high:
                return found
            if high is None and times > low and found == before:
                return found  # without an upper bound, what was reached before leads nowhere new
            here = self.after(inner, here)
            times += 1
        return found

    def _after_each(self, language: Language, starts: int) -> int:
        """Rule 2."""
        found, start = 0, 1
        while start <= starts:
            if starts & start:
                ends = [self.after(part, start) for part in language.parts]
                if language.form is Form.NOT:
                    found |= self._all & ~(start - 1) & ~ends[0]
                else:
                    shared = ends[0]
                    for more in ends[1:]:
                        shared &= more
                    found |= shared
            start <<= 1
        return found
