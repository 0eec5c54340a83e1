"""Which parts of two schemas are the same thing: properties that were renamed, options that were changed.

| renamed        | two names, one gone and one come,                                                                          |
|----------------|--------------------------------------------------------------------------------------------------------|
| 1              | which are one name in two spellings (`timeoutMs`, `timeout_ms`), or one with a word less (`timeout`), and  |
|                | hold values of one type; or whose schemas say the same, and                                              |
| 2              | whose descriptions are the same, and say something; or                                                     |
| 3              | which are nearly the same, letter by letter                                                               |

| options        | are the same where they accept the same; where they have one discriminator, title or kind of value          |

It is a guess, and whoever says it says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Final

from broker.domain.canonical import JsonValue
from broker.domain.schema.dialect import LISTS, MAPS, SINGLES
from broker.domain.schema.unfolded import WORDS, Document, Unfolded, kinds

_DEPTH: Final = 6
_NEARLY: Final = 0.8
_CERTAIN: Final = 2.5
_MAX_NAMES: Final = 40
_TELLING_WORDS: Final = 12
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


class Likeness:
    """What two documents have in common; remembers what it has looked at."""

    def __init__(self, old: Document, new: Document) -> None:
        self._sides = {"old": old, "new": new}
        self._numbers: dict[str, int] = {}
        self._known: dict[tuple[str, int, int], int] = {}

    def renamed(self, gone: Mapping[str, JsonValue], come: Mapping[str, JsonValue]) -> dict[str, str]:
        """By the old name, the new one; the likeliest pairs, each name once."""
        if not gone or not come or len(gone) > _MAX_NAMES or len(come) > _MAX_NAMES:
            return {}
        of_new = {name: self._number("new", node, _DEPTH) for name, node in come.items()}
        scored = []
        for old_name, old_node in gone.items():
            number = self._number("old", old_node, _DEPTH)
            for new_name, new_node in come.items():
                score = _score(old_name, _description(old_node), new_name, _description(new_node))
                alike = of_new[new_name] == number or (score >= _CERTAIN and self._of_one_kind(old_node, new_node))
                if score and alike:
                    scored.append((-score, old_name, new_name))
        found: dict[str, str] = {}
        for _, old_name, new_name in sorted(scored):
            if old_name not in found and new_name not in found.values():
                found[old_name] = new_name
        return found

    def paired(self, old: Sequence[JsonValue], new: Sequence[JsonValue]) -> list[tuple[int | None, int | None]]:
        """Options by their places: those of both, then those that are gone, then those that have come."""
        left = {place: self._number("old", node, _DEPTH) for place, node in enumerate(old)}
        right = {place: self._number("new", node, _DEPTH) for place, node in enumerate(new)}
        pairs: list[tuple[int | None, int | None]] = []
        for matched in (self._equal(left, right), self._alike(left, old, right, new)):
            for one, other in matched:
                pairs.append((one, other))
        return [*pairs, *((one, None) for one in left), *((None, other) for other in right)]

    def _of_one_kind(self, old: JsonValue, new: JsonValue) -> bool:
        kind = kinds(self._sides["old"].unfold(old, ""))
        return kind is not None and kind == kinds(self._sides["new"].unfold(new, ""))

    @staticmethod
    def _equal(left: dict[int, int], right: dict[int, int]) -> Iterator[tuple[int, int]]:
        for one, number in list(left.items()):
            other = next((place for place, found in right.items() if found == number), None)
            if other is not None:
                del left[one], right[other]
                yield one, other

    def _alike(
        self, left: dict[int, int], old: Sequence[JsonValue], right: dict[int, int], new: Sequence[JsonValue]
    ) -> Iterator[tuple[int, int]]:
        marks = {place: self._marks("old", old[place]) for place in left}
        others = {place: self._marks("new", new[place]) for place in right}
        for rank in range(3):
            for one in list(left):
                mark = marks[one][rank]
                found = [place for place in right if mark is not None and others[place][rank] == mark]
                if len(found) == 1 and sum(marks[place][rank] == mark for place in left) == 1:
                    del left[one], right[found[0]]
                    yield one, found[0]

    def _marks(self, side: str, node: JsonValue) -> tuple[str | None, str | None, str | None]:
        """What an option is known by: its discriminators, its title, the kind of its values."""
        unfolded = self._sides[side].unfold(node, "")
        properties = unfolded.get("properties", (None, ""))[0]
        fixed = []
        for name, child in sorted(properties.items()) if isinstance(properties, dict) else ():
            if isinstance(child, dict) and ("const" in child or (child.get("enum") and len(str(child["enum"])) < 200)):
                fixed.append([name, child.get("const", child.get("enum"))])
        title = unfolded.get("title", (None, ""))[0]
        kind = kinds(unfolded)
        return (
            json.dumps(fixed) if fixed else None,
            title if isinstance(title, str) else None,
            ",".join(sorted(kind)) if kind else None,
        )

    def _number(self, side: str, node: JsonValue, depth: int) -> int:
        """A number that schemas share that say the same, as deep as is looked."""
        key = (side, id(node), depth)
        if isinstance(node, dict) and key in self._known:
            return self._known[key]
        text = self._text(side, self._sides[side].unfold(node, ""), depth) if depth else "…"
        number = self._numbers.setdefault(text, len(self._numbers))
        if isinstance(node, dict):
            self._known[key] = number
        return number

    def _text(self, side: str, unfolded: Unfolded, depth: int) -> str:
        parts: list[JsonValue] = []
        for keyword in sorted(unfolded.keys() - WORDS):
            value = unfolded[keyword][0]
            if keyword in MAPS and isinstance(value, dict):
                spelt: JsonValue = {name: self._number(side, child, depth - 1) for name, child in value.items()}
            elif keyword in LISTS and isinstance(value, list):
                spelt = sorted(self._number(side, child, depth - 1) for child in value)  # type: ignore[assignment]
            elif keyword in SINGLES:
                spelt = self._number(side, value, depth - 1)
            elif keyword in ("required", "enum", "type") and isinstance(value, list):
                spelt = sorted(json.dumps(item, sort_keys=True) for item in value)  # type: ignore[assignment]
            elif keyword == "additionalProperties" and value is False:
                continue
            else:
                spelt = value
            parts.append([keyword, spelt])
        return json.dumps(parts, sort_keys=True)


def _score(old_name: str, old_words: str, new_name: str, new_words: str) -> float:
    """How likely it is one property under two names; 0: not likely."""
    one, other = _WORD.findall(old_name), _WORD.findall(new_name)
    one, other = [word.lower() for word in one], [word.lower() for word in other]
    if one == other or "".join(one) == "".join(other):
        return 3
    if one and other and abs(len(one) - len(other)) == 1:
        short, long = sorted((one, other), key=len)
        if short in (long[1:], long[:-1]):
            return 2.5
    if len(old_words) >= _TELLING_WORDS and old_words == new_words:
        return 2
    near = SequenceMatcher(None, old_name.lower(), new_name.lower(), autojunk=False).ratio()
    return near if near >= _NEARLY else 0


def _description(node: JsonValue) -> str:
    description = node.get("description") if isinstance(node, dict) else None
    return " ".join(description.split()).lower() if isinstance(description, str) else ""
