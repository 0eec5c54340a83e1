"""What patterns imply about each other, written into schemas so that a prover that knows no languages can use it.

Each rewriting adds what holds anyway, so the schema accepts what it accepted; in any position, under `not` too.

1. Strings of a schema with `pattern`, `minLength` or `maxLength` are a language. Where it lies within another pattern of
   the question, that pattern is added; where it shares nothing with it, the negation is.
2. Where it lies within a length that the question names, that length is added.
3. Names that a pattern of `patternProperties` elsewhere matches get it here: with the schemas that they have to satisfy
   anyway, be it by patterns that contain it, or by `additionalProperties` where none shares a name with it.

The prover then sees equal texts where there were equal meanings. Unportable patterns are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.schema.answers import No
from broker.domain.schema.bare import every, rewritten
from broker.domain.schema.patterns import Unportable, parse_pattern
from broker.domain.schema.regular import Language, any_text, difference, intersection, matches, member, of_length

_MAX_PATTERNS: Final = 24
_MAX_LENGTHS: Final = 12
_STEPS: Final = 4_000


def with_implied(schemas: Sequence[JsonObject]) -> tuple[JsonObject, ...] | None:
    """The schemas with what their patterns imply; None where that adds nothing."""
    facts = _Facts(schemas)
    if not facts.worthwhile:
        return None
    return tuple(rewritten(schema, facts.add) for schema in schemas)


class _Facts:
    """The patterns, names and lengths of one question, and what has been found out about them."""

    def __init__(self, schemas: Sequence[JsonObject]) -> None:
        nodes = [node for schema in schemas for _, node in every(schema)]
        patterns = sorted({pattern for node in nodes if isinstance(pattern := node.get("pattern"), str)})
        names = sorted({name for node in nodes for name in _named(node)})
        lengths = {node[keyword] for node in nodes for keyword in ("minLength", "maxLength") if keyword in node}
        self._patterns = _languages(patterns)
        self._names = _languages(names)
        self._lengths = sorted(length for length in lengths if isinstance(length, int))[:_MAX_LENGTHS]
        self._within: dict[tuple[Language, Language], bool] = {}
        self._apart: dict[tuple[Language, Language], bool] = {}

    @property
    def worthwhile(self) -> bool:
        return bool(self._names) or len(self._patterns) > 1 or bool(self._patterns and self._lengths)

    def add(self, node: JsonObject) -> JsonObject:
        """The same node with what is implied about it."""
        extra = list(self._about_text(node))
        if extra:
            combined = node.get("allOf")
            node = {**node, "allOf": [*(combined if isinstance(combined, list) else []), *extra]}
        names = self._about_names(node)
        if names:
            named = node["patternProperties"] if isinstance(node.get("patternProperties"), dict) else {}
            assert isinstance(named, dict)
            node = {**node, "patternProperties": {**named, **names}}
        return node

    def _about_text(self, node: JsonObject) -> Iterator[JsonObject]:
        pattern = node.get("pattern")
        if pattern is not None and (not isinstance(pattern, str) or pattern not in self._patterns):
            return
        low, high = node.get("minLength", 0), node.get("maxLength")
        if not isinstance(low, int) or not isinstance(high, int | None):
            return
        if pattern is None and low == 0 and high is None:
            return
        language = any_text() if pattern is None else self._patterns[pattern]
        if low or high is not None:
            language = intersection(language, of_length(low, high))
        for other, known in self._patterns.items():
            if other == pattern:
                continue
            if self._is_within(language, known):
                yield {"pattern": other}
            elif self._is_apart(language, known):
                yield {"not": {"type": "string", "pattern": other}}
        if pattern is not None:
            yield from self._about_length(language)

    def _about_length(self, language: Language) -> Iterator[JsonObject]:
        least = [length for length in self._lengths if self._is_within(language, of_length(length, None))]
        most = [length for length in self._lengths if self._is_within(language, of_length(0, length))]
        if least:
            yield {"minLength": max(least)}
        if most:
            yield {"maxLength": min(most)}

    def _about_names(self, node: JsonObject) -> JsonObject:
        own = _named(node)
        if not own and not isinstance(node.get("additionalProperties"), dict | bool):
            return {}
        if any(name not in self._names for name in own):
            return {}
        made: JsonObject = {}
        properties = node.get("properties")
        for other, language in self._names.items():
            if other in own:
                continue
            around: list[JsonValue] = [own[name] for name in own if self._is_within(language, self._names[name])]
            if around:
                made[other] = {"allOf": around}
            elif (
                isinstance(node.get("additionalProperties"), dict | bool)
                and all(self._is_apart(language, self._names[name]) for name in own)
                and not any(matches(language, name) for name in (properties if isinstance(properties, dict) else {}))
            ):
                made[other] = node["additionalProperties"]
        return made

    def _is_within(self, one: Language, other: Language) -> bool:
        known = self._within.get((one, other))
        if known is None:
            known = self._within[one, other] = isinstance(difference(one, other, steps=_STEPS), No)
        return known

    def _is_apart(self, one: Language, other: Language) -> bool:
        known = self._apart.get((one, other))
        if known is None:
            known = self._apart[one, other] = isinstance(member(intersection(one, other), steps=_STEPS), No)
        return known


def _named(node: JsonObject) -> JsonObject:
    named = node.get("patternProperties")
    return named if isinstance(named, dict) else {}


def _languages(patterns: Sequence[str]) -> dict[str, Language]:
    read = ((pattern, parse_pattern(pattern)) for pattern in patterns[:_MAX_PATTERNS])
    return {pattern: language for pattern, language in read if not isinstance(language, Unportable)}
