"""Where something stands in a JSON text: line and column of what a JSON pointer leads to (RFC 6901).

1. A member's place is that of its name, a list item's that of its value, the root's where the text begins.
2. A pointer that leads further than the text does ends at the last thing that is there.
"""

from __future__ import annotations

import json
import re
from typing import Final

from broker.domain.schema.dialect import unescape

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SCALAR: Final = re.compile(r"[^\s,\]}]+")


def line_and_column(text: str, pointer: str) -> tuple[int, int]:
    """1-based line and column. The text is JSON; where it is not, the place is as far as it could be read."""
    steps = [unescape(step) for step in pointer.split("/")[1:]]
    found = at = _space(text, 0)
    for step in steps:
        place = _below(text, at, step)
        if place is None:
            break
        found, at = place
    line = text.count("\n", 0, found) + 1
    return line, found - (text.rfind("\n", 0, found) + 1) + 1


def _below(text: str, at: int, step: str) -> tuple[int, int] | None:
    """The place of a member or an item, and where its value begins."""
    if text[at : at + 1] not in ("{", "["):
        return None
    is_object = text[at] == "{"
    at = _space(text, at + 1)
    index = 0
    while at < len(text) and text[at] not in "}]":
        place = at
        name = str(index)
        if is_object:
            key = _STRING.match(text, at)
            if key is None:
                return None
            name = _read(key[0])
            at = _space(text, _space(text, key.end()) + 1)
        if name == step:
            return place, at
        end = _skip(text, at)
        at = _space(text, end)
        if end == place or text[at : at + 1] != ",":
            return None
        at = _space(text, at + 1)
        index += 1
    return None


def _read(literal: str) -> str:
    try:
        return str(json.loads(literal, strict=False))
    except ValueError:
        return literal[1:-1]


def _skip(text: str, at: int) -> int:
    """Where the value that begins here ends."""
    depth = 0
    while at < len(text):
        character = text[at]
        if character == '"':
            found = _STRING.match(text, at)
            at = found.end() if found else len(text)
        elif character in "{[":
            depth, at = depth + 1, at + 1
        elif character in "}]":
            depth, at = depth - 1, at + 1
        elif character in ",: \t\n\r":
            at += 1
            continue
        else:
            scalar = _SCALAR.match(text, at)
            at = scalar.end() if scalar else at + 1
        if depth <= 0:
            return at
    return at


def _space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
