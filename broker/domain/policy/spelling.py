"""Values as YAML that the reader of policy files takes for the same values, on one line, whatever the text holds.

1. Text is written bare where every reader takes it for that text, else in double quotes with escapes. What cannot be printed,
   and what some reader takes for a line break, is escaped, so no text from outside ends its line.
2. Text in a comment is on that line, too: what would end it, or hide something, is spelled out.
3. What policy files do not hold (floating point, numbers beyond 2^53, half a character) has no spelling: `None`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from broker.domain.canonical import MAX_INTEGER, JsonValue

_BARE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*(?::[A-Za-z0-9_./-]+)*")
_WORDS: Final = frozenset(("yes", "no", "on", "off", "y", "n", "true", "false", "null"))


def spell(value: JsonValue) -> str | None:
    """The value in flow style; None where policy files cannot hold it."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value) if abs(value) <= MAX_INTEGER else None
        case float():
            return None
        case str():
            return spell_text(value)
        case list():
            items = [spell(item) for item in value]
            return None if None in items else f"[{', '.join(filter(None, items))}]"
        case _:
            pairs = [(spell_text(name), spell(item)) for name, item in value.items()]
            if any(name is None or item is None for name, item in pairs):
                return None
            return "{" + ", ".join(f"{name}: {item}" for name, item in pairs) + "}"


def spell_set(texts: Iterable[str]) -> str | None:
    """Texts as a list, sorted."""
    return spell([*sorted(texts)])


def spell_text(text: str) -> str | None:
    """Text as one scalar; None where it holds half a character."""
    if _BARE.fullmatch(text) and text.lower() not in _WORDS:
        return text
    if any("\ud800" <= character <= "\udfff" for character in text):
        return None
    return f'"{"".join(map(_quoted, text))}"'


def quoted(text: str) -> str:
    """Text in double quotes, also where it needs none: versions, which look like numbers."""
    return f'"{"".join(map(_quoted, text))}"'


def in_comment(text: str, *, most: int = 200) -> str:
    """Text as it may stand in a comment: one line, nothing hidden, not too long."""
    shown = "".join(character if character.isprintable() else " " for character in text)
    short = " ".join(shown.split())
    return short if len(short) <= most else short[:most].rstrip() + "…"


def _quoted(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
