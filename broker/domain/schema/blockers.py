"""Why a relation stayed undecided: the keywords that differ and are hard, and where.

1. Two schemas are walked side by side; only what differs can stand in the way.
2. A keyword that languages, recursion or counting hang on comes before one that is easy alone.
3. The deepest place is named: a person restates a keyword, not a schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.schema.answers import Blocker
from broker.domain.schema.bare import every
from broker.domain.schema.dialect import LISTS, MAPS, SINGLES, escape
from broker.domain.schema.patterns import is_portable

_MAX_SHOWN: Final = 4
_MAX_VISITED: Final = 5_000
_WHY: Final = {
    "pattern": "no proof about what the patterns match was found",
    "patternProperties": "no proof about which names the patterns match was found",
    "propertyNames": "no proof about the names was found",
    "$ref": "the schema refers to itself, and the induction over the value did not close",
    "not": "what is refused here could not be compared",
    "oneOf": "no proof that exactly one branch holds was found",
    "anyOf": "no proof that covers all branches together was found",
    "allOf": "no proof that combines the branches was found",
    "if": "the cases of the condition could not be compared",
    "then": "the cases of the condition could not be compared",
    "else": "the cases of the condition could not be compared",
    "contains": "counting members that fit could not be compared",
    "uniqueItems": "how many different members there are could not be compared",
    "unevaluatedProperties": "which names count as evaluated could not be compared",
    "unevaluatedItems": "which members count as evaluated could not be compared",
    "dependentSchemas": "the cases of the condition could not be compared",
    "multipleOf": "no proof about the multiples was found",
}
_HARD: Final = tuple(_WHY)
_IGNORED: Final = frozenset(
    ("title", "description", "default", "examples", "$comment", "format", "$schema", "$id", "deprecated", "readOnly",
     "writeOnly", "contentMediaType", "contentEncoding", "contentSchema")
)  # fmt: skip


def blockers_between(old: JsonObject, new: JsonObject) -> tuple[Blocker, ...]:
    """What differs between two schemas, the most likely reason first."""
    found = list(_differences(old, new))
    found.sort(key=lambda blocker: (_rank(blocker.keyword), len(blocker.pointer)))
    return tuple(found[:_MAX_SHOWN])


def blockers_of(schemas: Sequence[JsonObject]) -> tuple[Blocker, ...]:
    """The hard keywords of schemas that are asked about together."""
    found = [
        Blocker(keyword, f"{pointer}", _WHY[keyword], _nth(number, len(schemas)))
        for number, schema in enumerate(schemas)
        for pointer, node in every(schema)
        for keyword in _HARD
        if keyword in node
    ]
    found.sort(key=lambda blocker: (_rank(blocker.keyword), len(blocker.pointer)))
    return tuple(found[:_MAX_SHOWN])


def unportable_blockers(schemas: Sequence[JsonObject], patterns: Sequence[str]) -> tuple[Blocker, ...]:
    """Where patterns stand that validators read differently; one that is the same on both sides comes last."""
    sides = ("old", "new") if len(schemas) == 2 else tuple("" for _ in schemas)
    holders = {pattern: [_holds(schema, pattern) for schema in schemas] for pattern in patterns}
    ordered = sorted(patterns, key=lambda pattern: all(holders[pattern]))
    made: list[Blocker] = []
    for pattern in ordered:
        problem = is_portable(pattern)
        for side, place in zip(sides, holders[pattern], strict=True):
            if place is not None and problem is not None:
                made.append(
                    Blocker("pattern", place, f"the answer may rest on a pattern that is not portable: {problem}", side)
                )
                break
    return tuple(made[:_MAX_SHOWN])


def _holds(schema: JsonObject, pattern: str) -> str | None:
    for pointer, node in every(schema):
        named = node.get("patternProperties")
        if node.get("pattern") == pattern or (isinstance(named, dict) and pattern in named):
            return pointer
    return None


def _nth(number: int, count: int) -> str:
    return "" if count == 1 else f"schema {number + 1}"


def _rank(keyword: str) -> int:
    return _HARD.index(keyword) if keyword in _WHY else len(_HARD)


def _differences(old: JsonObject, new: JsonObject) -> Iterator[Blocker]:
    pending: list[tuple[str, JsonObject, JsonObject]] = [("", old, new)]
    visited = 0
    while pending and visited < _MAX_VISITED:
        pointer, one, other = pending.pop()
        visited += 1
        for keyword in sorted((one.keys() | other.keys()) - _IGNORED):
            if one.get(keyword) == other.get(keyword) and keyword in one and keyword in other:
                continue
            pairs = list(_below(keyword, one.get(keyword), other.get(keyword)))
            if pairs and keyword in one and keyword in other:
                pending.extend((f"{pointer}/{keyword}{step}", left, right) for step, left, right in pairs)
            if keyword not in one or keyword not in other or not _only_below(one[keyword], other[keyword], pairs):
                side = "new" if keyword in other else "old"
                yield Blocker(keyword, pointer, _WHY.get(keyword, "it differs"), side)


def _below(keyword: str, one: JsonValue, other: JsonValue) -> Iterator[tuple[str, JsonObject, JsonObject]]:
    """The pairs of subschemas that stand at the same place and differ."""
    pairs: list[tuple[str, JsonValue, JsonValue]] = []
    if keyword in MAPS and isinstance(one, dict) and isinstance(other, dict):
        pairs = [(f"/{escape(name)}", one[name], other[name]) for name in one if name in other]
    elif keyword in LISTS and isinstance(one, list) and isinstance(other, list):
        pairs = [(f"/{number}", left, right) for number, (left, right) in enumerate(zip(one, other, strict=False))]
    elif keyword in SINGLES:
        pairs = [("", one, other)]
    for step, left, right in pairs:
        if isinstance(left, dict) and isinstance(right, dict) and left != right:
            yield step, left, right


def _only_below(one: JsonValue, other: JsonValue, pairs: Sequence[tuple[str, JsonObject, JsonObject]]) -> bool:
    """Whether the two differ nowhere but in the pairs."""
    if isinstance(one, dict) and isinstance(other, dict):
        if pairs and pairs[0][0] == "":
            return True
        return one.keys() == other.keys() and len(pairs) == sum(one[name] != other[name] for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and len(pairs) == sum(a != b for a, b in zip(one, other, strict=True))
    return False
