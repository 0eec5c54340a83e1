"""Text from policy files as a terminal or a log may show it: what cannot be seen, or does more than be seen, is escaped."""

from __future__ import annotations

import json
import unicodedata
from typing import Final

from broker.domain.canonical import JsonValue

PAGES: Final = "https://mayfly.example/docs"
_WITNESS: Final = 300
_WIDTH: Final = 100


def shown(text: str) -> str:
    """The text on one line: controls, marks that turn the direction of writing and lone surrogates as escapes."""
    return "".join(one if one.isprintable() else _escaped(one) for one in text)


def shown_source(line: str) -> str:
    """A line of a file, one sign for each character, so that a caret under it stands right."""
    return "".join(one if one.isprintable() else "\ufffd" for one in line)


def caret(line: str, column: int) -> str:
    """The blanks and the caret that go under a line."""
    width = sum(2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in line[: column - 1])
    return f"{' ' * (width + max(column - 1 - len(line), 0))}^"


def shown_json(value: JsonValue) -> str:
    """A value as JSON, cut where it is long."""
    text = shown(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= _WITNESS else f"{text[:_WITNESS]}… ({len(text)} characters)"


def wrapped(text: str, indent: str) -> str:
    """JSON over several lines where it is long, broken behind commas; nothing of it is lost."""
    lines: list[str] = []
    for part in text.split(", "):
        if lines and len(lines[-1]) + len(part) <= _WIDTH:
            lines[-1] += f", {part}"
        else:
            lines.append(part)
    return f",\n{indent}".join(lines)


def page_of(rule: str) -> str:
    """The address of a rule's page."""
    return f"{PAGES}/{rule}"


def _escaped(character: str) -> str:
    code = ord(character)
    return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(
        character, f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    )
