"""Patterns that validators read differently, and how an answer is kept from resting on them.

| pattern                                       | read as                                                              |
|-----------------------------------------------|----------------------------------------------------------------------|
| portable (`patterns`)                          | itself                                                               |
| portable but for its anchors                   | found anywhere (the standard), and as the whole text (some libraries) |
| anything else: `\\d \\w \\s .`, lookaround, … | itself, as what accepts everything, and as what accepts nothing      |

1. The first reading is what the standard says and our validator does; it alone decides what is true.
2. An answer is given where it stands in every reading, so it rests on no pattern that has several: the same pattern on both
   sides cancels out, a difference in one does not. Else the answer is unknown, and names the pattern.
3. A value that must be *accepted* is not asked of the reading that accepts nothing: a required argument with such a pattern
   would have no witness at all. It is plain ASCII then, where every library reads `\\d`, `\\w`, `\\s` and `.` alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.schema.bare import every, rewritten
from broker.domain.schema.patterns import is_portable


@dataclass(frozen=True, slots=True)
class Reading:
    """All schemas of a question in one reading. accepting: whether a witness must be accepted in it."""

    schemas: tuple[JsonObject, ...]
    accepting: bool = True


@dataclass(frozen=True, slots=True)
class Readings:
    """Every reading, the true one first.

    loose:      the patterns that have several.
    unportable: those of them that have more than two.
    """

    all: tuple[Reading, ...]
    loose: tuple[str, ...]
    unportable: tuple[str, ...]

    def allows(self, value: JsonValue) -> bool:
        """Whether a witness may hold the value: any, or printable ASCII beside patterns that are read differently."""
        return not self.unportable or all(text.isascii() and text.isprintable() for text in _texts(value))


def readings(schemas: Sequence[JsonObject]) -> Readings:
    """The readings of bare schemas that are asked about together."""
    found = sorted({pattern for schema in schemas for pattern in patterns_in(schema)})
    loose = [pattern for pattern in found if is_portable(pattern) is not None]
    unanchored = [pattern for pattern in loose if is_portable(whole(pattern)) is None]
    unportable = tuple(pattern for pattern in loose if pattern not in unanchored)
    made = [Reading(tuple(schemas))]
    if unanchored:
        made.append(Reading(_replaced(schemas, {pattern: whole(pattern) for pattern in unanchored})))
    if unportable:
        made.append(Reading(_replaced(schemas, {pattern: f"(?:)|{_mark(pattern)}" for pattern in unportable})))
        nothing = {pattern: f"$.^{_mark(pattern)}" for pattern in unportable}
        made.append(Reading(_replaced(schemas, nothing), accepting=False))
    return Readings(tuple(made), tuple(loose), unportable)


def patterns_in(schema: JsonObject) -> Iterator[str]:
    """The patterns of a schema, as values of `pattern` and as names in `patternProperties`."""
    for _, node in every(schema):
        pattern = node.get("pattern")
        if isinstance(pattern, str):
            yield pattern
        named = node.get("patternProperties")
        if isinstance(named, dict):
            yield from named


def whole(pattern: str) -> str:
    """The pattern as the whole text, however it is anchored."""
    return f"^(?:{pattern})$"


def _mark(pattern: str) -> str:
    """Keeps different patterns different where they are replaced by what means the same."""
    return sha256(pattern.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _replaced(schemas: Iterable[JsonObject], names: dict[str, str]) -> tuple[JsonObject, ...]:
    def replace(node: JsonObject) -> JsonObject:
        pattern = node.get("pattern")
        if isinstance(pattern, str):
            node["pattern"] = names.get(pattern, pattern)
        named = node.get("patternProperties")
        if isinstance(named, dict):
            node["patternProperties"] = {names.get(name, name): child for name, child in named.items()}
        return node

    return tuple(rewritten(schema, replace) for schema in schemas)


def _texts(value: JsonValue) -> Iterator[str]:
    pending = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, str):
            yield node
        elif isinstance(node, list):
            pending.extend(node)
        elif isinstance(node, dict):
            yield from node
            pending.extend(node.values())
