r"""Patterns as languages: the strings in which a `pattern` finds a match.

1. A pattern that is not anchored searches: its language holds every string with a match anywhere in it.
2. The tree is worked through from its end, with the language of what may follow; `^` and lookahead ask about that rest,
   so they are exact wherever they stand, but for a repetition without end around them: that is refused, unless the
   lookahead is about the one character after it, or the repetition ends the string.
3. A pattern may *carry a decision* when every validator reads it alike (`is_portable`): anchored at both ends in every
   alternative, sets spelt out, no `\d \w \s .`, no lookahead, no named group, no lazy repetition, no escape by number.

A lookahead beside `\d \w \s .` has no language here: jsonschema-rs gives those classes their Unicode meaning then.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from broker.domain.schema.charsets import inverted, joined, shared
from broker.domain.schema.languages import (
    ALL,
    EMPTY,
    NOTHING,
    Language,
    complement,
    concatenation,
    intersection,
    of_length,
    one_of,
    repetition,
    union,
)
from broker.domain.schema.pattern_syntax import read_pattern
from broker.domain.schema.pattern_tree import Ahead, Chars, Choice, End, Node, Repeat, Sequence, Start, Unportable

__all__ = ["Unportable", "is_portable", "parse_pattern"]

_MAX_UNROLLED: Final = 8
_MAX_WORK: Final = 20_000


@lru_cache(maxsize=2048)
def parse_pattern(pattern: str) -> Language | Unportable:
    """The strings in which the pattern finds a match, or why they are not known."""
    read = read_pattern(pattern)
    if isinstance(read, Unportable):
        return read
    if read.ahead is not None and read.classes is not None:
        return read.classes
    try:
        found = _Translation().before(read.root, _Rest(ALL, ALL))
    except _TooHard as problem:
        return Unportable(0, str(problem))
    if found.first is found.later:
        return concatenation(ALL, found.later)
    return union(found.first, concatenation(of_length(1, None), found.later))


@lru_cache(maxsize=2048)
def is_portable(pattern: str) -> Unportable | None:
    """None where every validator reads the pattern alike; else the first thing that some read differently."""
    read = read_pattern(pattern)
    if isinstance(read, Unportable):
        return read
    notes = [note for note in (read.classes, read.ahead, read.spelling) if note is not None]
    if notes:
        return min(notes, key=lambda note: note.position)
    if not _bound(read.root, Start):
        return Unportable(0, "it is not anchored by `^` in every alternative")
    if not _bound(read.root, End):
        return Unportable(max(0, len(pattern) - 1), "it is not anchored by `$` in every alternative")
    return None


def _bound(node: Node, anchor: type[Start] | type[End]) -> bool:
    match node:
        case Choice(branches):
            return all(_bound(branch, anchor) for branch in branches)
        case Sequence(items):
            return bool(items) and _bound(items[0 if anchor is Start else -1], anchor)
        case _:
            return isinstance(node, anchor)


@dataclass(frozen=True, slots=True)
class _Rest:
    """What may follow. first: at the very start of the string; later: anywhere else."""

    first: Language
    later: Language

    @classmethod
    def of(cls, language: Language) -> _Rest:
        return cls(language, language)


class _TooHard(Exception):
    """The language is not worked out; this never leaves the module."""


class _Translation:
    """One pattern on its way to a language, and the work done so far."""

    def __init__(self) -> None:
        self._left = _MAX_WORK

    def before(self, node: Node, rest: _Rest) -> _Rest:
        """What may follow in front of the node, where `rest` is what may follow behind it."""
        self._left -= 1
        if self._left < 0:
            raise _TooHard("assertions inside repetitions are too many to work out")
        match node:
            case Chars(chars):
                return _Rest.of(concatenation(one_of(chars), rest.later))
            case Start():
                return _Rest(rest.first, NOTHING)
            case End():
                return _Rest(intersection(rest.first, EMPTY), intersection(rest.later, EMPTY))
            case Ahead(refused, body):
                seen = self.before(body, _Rest(ALL, ALL))
                if refused:
                    seen = _Rest(complement(seen.first), complement(seen.later))
                return _Rest(intersection(seen.first, rest.first), intersection(seen.later, rest.later))
            case Choice(branches):
                found = [self.before(branch, rest) for branch in branches]
                return _Rest(union(*(one.first for one in found)), union(*(one.later for one in found)))
            case Sequence(items):
                for item in reversed(_merged(items)):
                    rest = self.before(item, rest)
                return rest
            case Repeat(item, low, high):
                return self._before_repeat(_simple(item), low, high, rest)

    def _before_repeat(self, item: Node, low: int, high: int | None, rest: _Rest) -> _Rest:
        inner = _plain(item)
        if inner is not None:
            whole = repetition(inner, low, high)
            later = concatenation(whole, rest.later)
            if rest.first is rest.later:
                return _Rest.of(later)
            consumed = concatenation(intersection(whole, of_length(1, None)), rest.later)
            return _Rest(union(consumed, rest.first if whole.nullable else NOTHING), later)
        if high is None:
            return self._tempered(item, low, rest)
        if high > _MAX_UNROLLED:
            raise _TooHard("an assertion inside a repetition")
        made = rest
        for _ in range(high - low):
            again = self.before(item, made)
            made = _Rest(union(rest.first, again.first), union(rest.later, again.later))
        for _ in range(low):
            made = self.before(item, made)
        return made

    def _tempered(self, item: Node, low: int, rest: _Rest) -> _Rest:
        """`(?:(?!no)[set])*$`: strings of the set in which nothing refused begins anywhere."""
        ends = rest.first is EMPTY and rest.later is EMPTY
        match item:
            case Sequence((Ahead(True, body), Chars(chars))) if ends and low <= 1:
                seen = self.before(body, _Rest(ALL, ALL))
                if seen.first is seen.later and not seen.later.nullable:
                    free = complement(concatenation(ALL, seen.later))
                    return _Rest.of(intersection(repetition(one_of(chars), low, None), free))
        raise _TooHard("an assertion inside a repetition")


def _simple(node: Node) -> Node:
    """The same without a lookahead about the one character after it."""
    if not isinstance(node, Sequence):
        return node
    items = _merged(node.items)
    return items[0] if len(items) == 1 else Sequence(items)


def _merged(items: tuple[Node, ...]) -> tuple[Node, ...]:
    made: list[Node] = []
    for item in reversed(items):
        if isinstance(item, Ahead) and made and isinstance(made[-1], Chars):
            about = _one_character(item.body)
            if about is not None:
                allowed = inverted(about) if item.refused else about
                made[-1] = Chars(shared(made[-1].chars, allowed))
                continue
        made.append(item)
    return tuple(reversed(made))


def _one_character(node: Node) -> tuple[tuple[int, int], ...] | None:
    match node:
        case Chars(chars):
            return chars
        case Choice(branches):
            found = [_one_character(branch) for branch in branches]
            return joined(chars for chars in found if chars is not None) if None not in found else None
        case _:
            return None


def _plain(node: Node) -> Language | None:
    """The language of a node without assertions; None where it has one."""
    match node:
        case Chars(chars):
            return one_of(chars)
        case Sequence(items):
            made = EMPTY
            for item in reversed(_merged(items)):
                part = _plain(item)
                if part is None:
                    return None
                made = concatenation(part, made)
            return made
        case Choice(branches):
            found = [_plain(branch) for branch in branches]
            return None if None in found else union(*(part for part in found if part is not None))
        case Repeat(item, low, high):
            inner = _plain(item)
            return None if inner is None else repetition(inner, low, high)
        case _:
            return None
