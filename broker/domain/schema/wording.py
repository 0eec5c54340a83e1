"""Text of contracts, shown: cut short, made printable, and how one text became another.

1. What is shown stands on one line and holds nothing that a terminal would act on, nor what turns a line of text around.
2. The difference of two texts is in words and the spaces between them; pieces that are the same in both, gone, or new.
3. A short form of it says the words that went and those that came, with a few words before them, never the whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final, Literal, TypeAlias

from broker.domain.canonical import JsonValue

QUOTED: Final = 80
_TOKEN: Final = re.compile(r"\w+|[^\w\s]|\s+")
_WORD: Final = re.compile(r"\w")
_END: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_MAX_TOKENS: Final = 4_000
_LEAD: Final = 4
_NAMED: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}

Part: TypeAlias = Literal["same", "gone", "new"]


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of text that stands in both, in the old alone, or in the new alone."""

    part: Part
    text: str


def quoted(value: JsonValue, limit: int = QUOTED) -> str:
    """A value of a contract as JSON, short and printable."""
    return plain(json.dumps(value, ensure_ascii=False), limit)


def plain(text: str, limit: int = QUOTED) -> str:
    """Text of a contract, short and printable, on one line."""
    cut = text if len(text) <= limit else f"{text[: limit - 1]}…"
    if cut.isprintable():
        return cut
    return "".join(character if character.isprintable() else _escaped(character) for character in cut)


def told_apart(before: JsonValue, after: JsonValue, limit: int = QUOTED) -> tuple[str, str]:
    """Two values as JSON, each cut to half of the limit, so that both show where they begin to differ."""
    one, other = json.dumps(before, ensure_ascii=False), json.dumps(after, ensure_ascii=False)
    half = limit // 2
    if max(len(one), len(other)) > half:
        first = next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
        start = max(0, first - half // 4)
        if start > 1:
            one, other = f"…{one[start:]}", f"…{other[start:]}"
    return plain(one, half), plain(other, half)


def sentences(text: str) -> tuple[str, ...]:
    """The sentences and lines of a text, without the spaces around them."""
    return tuple(part.strip() for part in _END.split(text) if part.strip())


def difference(before: str, after: str) -> tuple[Piece, ...]:
    """How one text became another; texts of many thousand words are compared by sentences."""
    old, new = _TOKEN.findall(before), _TOKEN.findall(after)
    if len(old) + len(new) > _MAX_TOKENS:
        old, new = _lines(before), _lines(after)
    return tuple(_pieces(old, new))


def changed_words(before: str, after: str, limit: int = QUOTED) -> tuple[str, str]:
    """The words that went and those that came, each with what leads to it; empty where there are none."""
    gone = came = lead = ""
    for piece in difference(before, after):
        if piece.part == "gone":
            gone += piece.text
        elif piece.part == "new":
            came += piece.text
        elif not (gone or came):
            lead = " ".join(piece.text.split()[-_LEAD:])
        elif _WORD.search(piece.text):
            break  # the first place tells; the rest is for who asks for the whole
        else:
            gone, came = gone + piece.text, came + piece.text
    return _shown(lead, gone, limit // 2), _shown(lead, came, limit // 2)


def _shown(lead: str, text: str, limit: int) -> str:
    bare = " ".join(text.split())
    if not _WORD.search(bare) and not lead:
        return plain(bare, limit)
    return plain(f"{lead} {bare}".strip() if len(lead) + len(bare) < limit else bare, limit) if bare else ""


def _pieces(old: list[str], new: list[str]) -> Iterator[Piece]:
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for tag, first, last, start, stop in matcher.get_opcodes():
        if tag == "equal":
            yield Piece("same", "".join(old[first:last]))
            continue
        if last > first:
            yield Piece("gone", "".join(old[first:last]))
        if stop > start:
            yield Piece("new", "".join(new[start:stop]))


def _lines(text: str) -> list[str]:
    return [text[start:stop] for start, stop in _spans(text)]


def _spans(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for found in _END.finditer(text):
        yield start, found.end()
        start = found.end()
    yield start, len(text)


def _escaped(character: str) -> str:
    code = ord(character)
    return _NAMED.get(character) or (f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
