r"""Patterns, read: the syntax of ECMA-262 regular expressions in `u` mode as a tree.

| read                | as                                                                                          |
|---------------------|---------------------------------------------------------------------------------------------|
| `a` `\.` `\u{61}`   | one character; a punctuation mark after `\` is itself                                          |
| `[a-z]` `[^a]`      | one character of a set                                                                       |
| `.` `\d` `\w` `\s`  | sets that validators read differently: noted as not portable                                  |
| `(…)` `(?:…)` `(?<n>…)` | a group; what a group remembers is of no use here                                         |
| `*` `+` `?` `{n,m}` | a repetition; that it is lazy changes which match is found, not whether there is one           |
| `^` `$`             | start and end of the string, never of a line                                                  |
| `(?=…)` `(?!…)`     | lookahead: noted as not portable                                                             |

Refused, with the place: backreferences, lookbehind, word boundaries, `\p`, inline flags, halves of surrogate pairs, what
is no pattern at all, and what is too long or nested too deep to work with.
"""

from __future__ import annotations

import re
from typing import Final

from broker.domain.schema.charsets import LAST, CharSet, char_set, inverted, joined
from broker.domain.schema.pattern_tree import (
    Ahead,
    Chars,
    Choice,
    End,
    Node,
    Pattern,
    Repeat,
    Sequence,
    Start,
    Unportable,
)

MAX_CHARACTERS: Final = 5_000
_MAX_NESTING: Final = 40
_MAX_DIGITS: Final = 9
_COUNTS: Final = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
_NAME: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*>")
_HEX: Final = {"x": re.compile("[0-9A-Fa-f]{2}"), "u": re.compile(r"[0-9A-Fa-f]{4}|\{[0-9A-Fa-f]{1,8}\}")}
_CONTROLS: Final = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_PUNCTUATION: Final = frozenset("!\"#$%&'()*+,-./:;=?@[\\]^_`{|}~ ")
# What any of them may follow a backslash everywhere: RFC 9485, and the slash that JavaScript escapes.
_ESCAPED_EVERYWHERE: Final = frozenset("()*+-.?[\\]^{|}/$")
_DOUBLED: Final = frozenset("&-~")

DIGIT: Final = char_set([(0x30, 0x39)])
WORD: Final = char_set([(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)])
SPACE: Final = char_set(
    [(9, 13), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029), (0x202F, 0x202F),
     (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF)]
)  # fmt: skip
DOT: Final = inverted(char_set([(10, 10), (13, 13), (0x2028, 0x2029)]))
_CLASSES: Final = {"d": DIGIT, "w": WORD, "s": SPACE, "D": inverted(DIGIT), "W": inverted(WORD), "S": inverted(SPACE)}


def read_pattern(pattern: str) -> Pattern | Unportable:
    """The tree of a pattern, or why there is none."""
    if len(pattern) > MAX_CHARACTERS:
        return Unportable(0, f"it is longer than {MAX_CHARACTERS} characters")
    reader = _Reader(pattern)
    try:
        root = reader.choice(0)
        if reader.more:
            reader.refuse("a `)` that closes nothing")
    except _Refused as refused:
        return refused.problem
    return Pattern(root, reader.classes, reader.ahead, reader.spelling)


class _Refused(Exception):
    """The pattern cannot be read; this never leaves the module."""

    def __init__(self, problem: Unportable) -> None:
        super().__init__(str(problem))
        self.problem = problem


class _Reader:
    """One pattern, and how far it has been read."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self.classes: Unportable | None = None
        self.ahead: Unportable | None = None
        self.spelling: Unportable | None = None

    @property
    def more(self) -> bool:
        return self._at < len(self._text)

    def refuse(self, why: str) -> _Refused:
        raise _Refused(Unportable(self._at, why))

    def choice(self, nesting: int) -> Node:
        if nesting > _MAX_NESTING:
            self.refuse(f"groups nest deeper than {_MAX_NESTING}")
        branches = [self._sequence(nesting)]
        while self._eat("|"):
            branches.append(self._sequence(nesting))
        return branches[0] if len(branches) == 1 else Choice(tuple(branches))

    def _sequence(self, nesting: int) -> Node:
        items: list[Node] = []
        while self.more and self._text[self._at] not in "|)":
            items.append(self._item(nesting))
        return items[0] if len(items) == 1 else Sequence(tuple(items))

    def _item(self, nesting: int) -> Node:
        start = self._at
        if self._eat("^"):
            return Start()
        if self._eat("$"):
            return End()
        if self._eat("(?=") or self._eat("(?!"):
            refused = self._text[self._at - 1] == "!"
            self.ahead = self.ahead or Unportable(start, "lookahead")
            return Ahead(refused, self._group(nesting))
        if self._text.startswith(("(?<=", "(?<!"), start):
            self.refuse("lookbehind")
        if self._eat("(?<"):
            name = _NAME.match(self._text, self._at)
            if name is None:
                self.refuse("a group without a plain name")
            else:
                self._at = name.end()
            self.spelling = self.spelling or Unportable(start, "a named group")
            return self._repeated(self._group(nesting))
        if self._eat("(?:"):
            return self._repeated(self._group(nesting))
        if self._text.startswith("(?", start):
            self.refuse("a group of a kind that JSON Schema does not know")
        if self._eat("("):
            return self._repeated(self._group(nesting))
        return self._repeated(Chars(self._character()))

    def _group(self, nesting: int) -> Node:
        body = self.choice(nesting + 1)
        if not self._eat(")"):
            self.refuse("a group that is not closed")
        return body

    def _repeated(self, item: Node) -> Node:
        low, high = 1, None
        if self._eat("*"):
            low = 0
        elif self._eat("?"):
            low, high = 0, 1
        elif not self._eat("+"):
            counts = _COUNTS.match(self._text, self._at)
            if counts is None:
                return item
            if max(len(counts[1]), len(counts[3] or "")) > _MAX_DIGITS:
                self.refuse("a count with too many digits")
            low = int(counts[1])
            high = low if counts[2] is None else int(counts[3]) if counts[3] else None
            if high is not None and high < low:
                self.refuse("a repetition whose counts are out of order")
            self._at = counts.end()
        place = self._at
        if self._eat("?"):
            self.spelling = self.spelling or Unportable(place, "a lazy repetition")
        if self.more and (self._text[self._at] in "*+?" or _COUNTS.match(self._text, self._at)):
            self.refuse("a repetition of a repetition")
        return Repeat(item, low, high)

    def _character(self) -> CharSet:
        found = self._text[self._at]
        if found == ".":
            self._note_class("`.`")
            self._at += 1
            return DOT
        if found == "[":
            return self._class()
        if found == "\\":
            return self._escape()
        if found in "*+?{}]":
            self.refuse(f"a stray `{found}`")
        self._at += 1
        return self._single(ord(found))

    def _single(self, code: int) -> CharSet:
        if 0xD800 <= code <= 0xDFFF:
            self.refuse("half of a surrogate pair")
        if code > LAST:
            self.refuse("no Unicode character")
        return ((code, code),)

    def _note_class(self, what: str) -> None:
        self.classes = self.classes or Unportable(self._at, f"{what}, which validators read differently")

    def _escape(self) -> CharSet:
        mark = self._text[self._at + 1 : self._at + 2]
        if mark in _CLASSES:
            self._note_class(f"`\\{mark}`")
            self._at += 2
            return _CLASSES[mark]
        if mark in _CONTROLS:
            self._at += 2
            return self._single(_CONTROLS[mark])
        if mark in _HEX:
            digits = _HEX[mark].match(self._text, self._at + 2)
            if digits is None:
                self.refuse(f"a malformed `\\{mark}`")
            else:
                self.spelling = self.spelling or Unportable(self._at, f"`\\{mark}`")
                self._at = digits.end()
                return self._single(int(digits[0].strip("{}"), 16))
        if mark in _PUNCTUATION and mark:
            if mark not in _ESCAPED_EVERYWHERE:
                self.spelling = self.spelling or Unportable(self._at, f"`\\{mark}`")
            self._at += 2
            return self._single(ord(mark))
        self.refuse("a backreference" if mark.isdigit() or mark == "k" else f"`\\{mark}`")
        return ()

    def _class(self) -> CharSet:
        self._at += 1
        refused = self._eat("^")
        found: list[CharSet] = []
        if self._text.startswith("]", self._at):
            self.refuse("an empty class")
        while not self._eat("]"):
            if not self.more:
                self.refuse("a class that is not closed")
            found.append(self._class_part())
        chars = joined(found)
        return inverted(chars) if refused else chars

    def _class_part(self) -> CharSet:
        first = self._class_character()
        after = self._text[self._at + 1 : self._at + 2]
        if not self._text.startswith("-", self._at) or after in ("]", ""):
            return first
        if after == "-":
            self._note_operator("-")
        self._at += 1
        last = self._class_character()
        if len(first) != 1 or len(last) != 1 or first[0][0] != first[0][1] or last[0][0] != last[0][1]:
            self.refuse("a range between what is not one character")
        if last[0][0] < first[0][0]:
            self.refuse("a range whose ends are out of order")
        return char_set([(first[0][0], last[0][0])])

    def _class_character(self) -> CharSet:
        if not self.more:
            self.refuse("a class that is not closed")
        found = self._text[self._at]
        if found == "\\":
            return self._escape()
        if found == "[" or (found in _DOUBLED and self._text.startswith(found * 2, self._at)):
            self.spelling = self.spelling or Unportable(
                self._at, f"`{found}` in a class, which some read as an operator"
            )
        self._at += 1
        return self._single(ord(found))

    def _note_operator(self, mark: str) -> None:
        self.spelling = self.spelling or Unportable(self._at, f"`{mark}` in a class, which some read as an operator")

    def _eat(self, text: str) -> bool:
        if self._text.startswith(text, self._at):
            self._at += len(text)
            return True
        return False
