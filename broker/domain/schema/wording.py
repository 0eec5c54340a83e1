"""Text of contracts, shown: cut short, made printable, and how one text became another.

1. What is shown stands on one line and holds nothing that a terminal would act on, nor what turns a line of text around.
2. The difference of two texts is in words and the spaces between them; pieces that are the same in both, gone, or new.
3. A short form of it shows both texts from where they begin to differ, with a few words before, never the whole.
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
_START: Final = re.compile(r"\S+")
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
    """Both texts from where they begin to differ, with a few words before, each cut to half of the limit."""
    one, other = " ".join(before.split()), " ".join(after.split())
    first = next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    words = [found.start() for found in _START.finditer(one[:first])][-_LEAD:]
    start = words[0] if words else 0
    lead = "…" if start else ""
    return plain(f"{lead}{one[start:]}", limit // 2), plain(f"{lead}{other[start:]}", limit // 2)


def _pieces(old: list[str], new: list[str]) -> Iterator[Piece]:
    gone = came = ""
    opcodes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    for place, (tag, first, last, start, stop) in enumerate(opcodes):
        was, is_ = "".join(old[first:last]), "".join(new[start:stop])
        between = tag == "equal" and 0 < place < len(opcodes) - 1 and "\n" not in was and not _WORD.search(was)
        if tag != "equal" or between:  # what is only punctuation between two changes goes with them
            gone, came = gone + was, came + is_
            continue
        yield from _changed(gone, came)
        gone = came = ""
        yield Piece("same", was)
    yield from _changed(gone, came)


def _changed(gone: str, came: str) -> Iterator[Piece]:
    if gone:
        yield Piece("gone", gone)
    if came:
        yield Piece("new", came)


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
