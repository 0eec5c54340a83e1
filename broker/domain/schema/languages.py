"""Regular languages over Unicode text, made so that equal ones mostly are one expression (`expressions`).

1. Unions and intersections are flat, sorted and without repeats; what is obviously contained in a neighbour is gone, and
   counted repetitions of one thing are merged. This keeps the number of derivatives small, and finite.
2. Constructors are exact: each gives the very language that it names.
"""

from __future__ import annotations

from broker.domain.schema.charsets import ANY_CHARACTER, CharSet, characters, is_within, joined, shared
from broker.domain.schema.expressions import ALL, ANY_ONE, EMPTY, NOTHING, Form, Language, expression

__all__ = [
    "ALL", "EMPTY", "NOTHING", "Form", "Language", "any_text", "as_run", "complement", "concatenation", "intersection",
    "nothing", "of_length", "one_of", "repetition", "text", "union",
]  # fmt: skip


def nothing() -> Language:
    """No string."""
    return NOTHING


def any_text() -> Language:
    """Every string."""
    return ALL


def one_of(chars: CharSet) -> Language:
    """One character of a set."""
    return expression(Form.CHARS, chars=chars) if chars else NOTHING


def text(value: str) -> Language:
    """One string; nothing where it holds a surrogate, which no string here does."""
    made = EMPTY
    for character in reversed(value):
        made = concatenation(one_of(characters(character)), made)
    return made


def of_length(low: int, high: int | None) -> Language:
    """The strings of `low` to `high` characters (code points)."""
    return NOTHING if high is not None and high < low else repetition(ANY_ONE, max(low, 0), high)


def concatenation(*parts: Language) -> Language:
    """A string of each, one after the other."""
    made = parts[-1] if parts else EMPTY
    for part in reversed(parts[:-1]):
        made = _joined_to(part, made)
    return made


def _joined_to(head: Language, tail: Language) -> Language:
    heads = []
    while head.form is Form.CONCAT:
        heads.append(head.parts[0])
        head = head.parts[1]
    heads.append(head)
    for part in reversed(heads):
        tail = _prepended(part, tail)
    return tail


def _prepended(head: Language, tail: Language) -> Language:
    """Head is no chain."""
    if head is NOTHING or tail is NOTHING:
        return NOTHING
    if head is EMPTY:
        return tail
    if tail is EMPTY:
        return head
    if (head is ALL and tail.nullable) or (tail is ALL and head.nullable):
        return ALL
    following = tail.parts[0] if tail.form is Form.CONCAT else tail
    one, two = _counted(head), _counted(following)
    if one[0] is two[0] and (head.form is Form.REPEAT or following.form is Form.REPEAT):
        most = None if one[2] is None or two[2] is None else one[2] + two[2]
        merged = repetition(one[0], one[1] + two[1], most)
        return _prepended(merged, tail.parts[1]) if tail.form is Form.CONCAT else merged
    return expression(Form.CONCAT, parts=(head, tail))


def _counted(language: Language) -> tuple[Language, int, int | None]:
    """What is repeated, and how often."""
    if language.form is Form.REPEAT:
        return language.parts[0], language.low, language.high
    return language, 1, 1


def repetition(inner: Language, low: int, high: int | None) -> Language:
    """`low` to `high` strings of one language in a row; None is without end."""
    if high is not None and high < low:
        return NOTHING
    if high == 0 or inner is EMPTY:
        return EMPTY
    if inner is NOTHING:
        return EMPTY if low == 0 else NOTHING
    if inner.nullable:
        low = 0
    if low == 0 and inner.form is Form.UNION and EMPTY in inner.parts:
        inner = union(*(part for part in inner.parts if part is not EMPTY))
    if inner.form is Form.REPEAT:
        # x{p,q}{m,n} is x{pm,qn} where the counts have no gap between them.
        first, last = inner.low, inner.high
        if first == 0 or low == high or (first == 1 and low > 0):
            most = None if last is None or high is None else last * high
            return repetition(inner.parts[0], first * low, most)
        if first == 1:
            return repetition(inner.parts[0], 0, None if last is None or high is None else last * high)
    if (low, high) == (1, 1):
        return inner
    return expression(Form.REPEAT, parts=(inner,), low=low, high=high)


def complement(language: Language) -> Language:
    """Every string that is not in the language."""
    if language.form is Form.NOT:
        return language.parts[0]
    if language is NOTHING:
        return ALL
    lengths = as_run(language)
    if lengths is not None and lengths[0] == ANY_CHARACTER:
        _, low, high = lengths
        longer = NOTHING if high is None else of_length(high + 1, None)
        return union(of_length(0, low - 1) if low else NOTHING, longer)
    return expression(Form.NOT, parts=(language,))


def union(*parts: Language) -> Language:
    """Every string that is in at least one."""
    found: set[Language] = set()
    for part in parts:
        found.update(part.parts if part.form is Form.UNION else (part,))
    found.discard(NOTHING)
    if ALL in found:
        return ALL
    if len(found) > 1:
        found = _without_repeats(_factored(found))
    if ALL in found or any(part.form is Form.NOT and part.parts[0] in found for part in found):
        return ALL
    if len(found) > 1 and EMPTY in found and any(part.nullable for part in found if part is not EMPTY):
        found.discard(EMPTY)
    if not found:
        return NOTHING
    if len(found) == 1:
        return found.pop()
    return expression(Form.UNION, parts=tuple(sorted(found, key=_serial)))


def _serial(language: Language) -> int:
    return language.serial


def _factored(found: set[Language]) -> set[Language]:
    """The same with what ends in the same tail joined: `ac|bc` is `(a|b)c`."""
    by_tail: dict[Language, list[Language]] = {}
    for part in found:
        if part.form is Form.CONCAT:
            by_tail.setdefault(part.parts[1], []).append(part)
    if all(len(same) == 1 for same in by_tail.values()):
        return found
    made = {part for part in found if part.form is not Form.CONCAT}
    for tail, same in by_tail.items():
        whole = same[0] if len(same) == 1 else _joined_to(union(*(part.parts[0] for part in same)), tail)
        made.update(whole.parts if whole.form is Form.UNION else (whole,))
    return made


def _without_repeats(found: set[Language]) -> set[Language]:
    """The same with sets of characters, and their repetitions, merged where one holds the other or continues it."""
    simple = [(part, counted) for part in found if (counted := as_run(part)) is not None]
    if len(simple) < 2:
        return found
    made = found.difference(part for part, _ in simple)
    single = joined(chars for _, (chars, low, high) in simple if (low, high) == (1, 1))
    runs = [(chars, low, high) for _, (chars, low, high) in simple if (low, high) != (1, 1)]
    if single:
        runs.append((single, 1, 1))
    runs.sort(key=lambda run: (run[0], run[1]))
    if EMPTY in found:
        optional = next((run for run in runs if run[1] == 1), None)
        if optional is not None:
            runs = [(run[0], 0, run[2]) if run is optional else run for run in runs if run[2] != 0]
    kept: list[tuple[CharSet, int, int | None]] = []
    for chars, low, high in runs:
        if kept and kept[-1][0] == chars and (kept[-1][2] is None or low <= kept[-1][2] + 1):
            before = kept[-1][2]
            kept[-1] = (chars, kept[-1][1], None if before is None or high is None else max(before, high))
        else:
            kept.append((chars, low, high))
    for run in kept:
        if not any(other is not run and _run_within(run, other) for other in kept):
            made.add(_run(*run))
    return made


def as_run(language: Language) -> tuple[CharSet, int, int | None] | None:
    """A repetition of one set of characters, as the set and the counts; None where it is something else."""
    if language.form is Form.CHARS:
        return language.chars, 1, 1
    if language.form is Form.REPEAT and language.parts[0].form is Form.CHARS:
        return language.parts[0].chars, language.low, language.high
    return (ANY_CHARACTER, 0, 0) if language is EMPTY else None


def _run(chars: CharSet, low: int, high: int | None) -> Language:
    return repetition(one_of(chars), low, high)


def _run_within(one: tuple[CharSet, int, int | None], other: tuple[CharSet, int, int | None]) -> bool:
    fits = one[1] >= other[1] and (other[2] is None or (one[2] is not None and one[2] <= other[2]))
    return fits and (one[2] == 0 or is_within(one[0], other[0]))


def intersection(*parts: Language) -> Language:
    """Every string that is in all."""
    found: set[Language] = set()
    for part in parts:
        found.update(part.parts if part.form is Form.COMMON else (part,))
    found.discard(ALL)
    if NOTHING in found:
        return NOTHING
    if len(found) > 1:
        found = _together(found)
        if _contradict(found):
            return NOTHING
    if not found:
        return ALL
    if len(found) == 1:
        return found.pop()
    made = expression(Form.COMMON, parts=tuple(sorted(found, key=_serial)))
    return NOTHING if made.longest is not None and made.shortest > made.longest else made


def _together(found: set[Language]) -> set[Language]:
    """The same with repetitions of characters merged into one, and that left out where lengths imply it."""
    simple = [(part, counted) for part in found if (counted := as_run(part)) is not None]
    if not simple:
        return found
    made = found.difference(part for part, _ in simple)
    chars, low, high = simple[0][1]
    for _, (more, at_least, at_most) in simple[1:]:
        chars, low = shared(chars, more), max(low, at_least)
        high = at_most if high is None else high if at_most is None else min(high, at_most)
    if high is not None and high < low:
        return {NOTHING}
    if chars == ANY_CHARACTER:
        longest = [part.longest for part in made if part.longest is not None]
        low = 0 if any(part.shortest >= low for part in made) else low
        high = None if high is not None and longest and min(longest) <= high else high
    run = _run(chars, low, high)
    return made if run is ALL else {*made, run}


def _contradict(found: set[Language]) -> bool:
    if NOTHING in found or (EMPTY in found and not all(part.nullable for part in found)):
        return True
    refused = [part.parts[0] for part in found if part.form is Form.NOT]
    return any(_obviously_within(part, other) for other in refused for part in found)


def _obviously_within(one: Language, other: Language) -> bool:
    if one is other or other is ALL or (other.form is Form.UNION and one in other.parts):
        return True
    run, around = as_run(one), as_run(other)
    return run is not None and around is not None and _run_within(run, around)
