"""Argument objects near a given one: one thing left out, or one value exchanged for a telling one.

| stands there | put there                                                                                           |
|--------------|-----------------------------------------------------------------------------------------------------|
| anything     | nothing, if it is a member                                                                            |
| text         | the words that the contract lists; nothing, one letter, a way up, something with a blank, something long |
| a number     | one more, one less, zero, below zero, much more                                                     |
| a list       | nothing in it, its first alone, its last twice, many                                                  |
| no member    | each of these, where the contract lists a property                                                    |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.schema.dialect import subschemas

_TEXTS: Final = ("", "a", "../../etc/passwd", "a b", "a;b", "A", "a:b")
_LONG: Final = 65
_MAX_WORDS: Final = 100
_MAX_DEPTH: Final = 6


def nearby(arguments: JsonObject, schema: JsonObject) -> Iterator[JsonObject]:
    """The objects near `arguments`, each differing in one place."""
    words = _words(schema)
    for value in _near(arguments, words, 0):
        if isinstance(value, dict):
            yield value
    properties = schema.get("properties")
    for name in properties if isinstance(properties, dict) else ():
        if name not in arguments:
            probes: tuple[JsonValue, ...] = (*words, *_TEXTS, "a" * _LONG, 0, -1, 1, 100_000, True, [])
            for probe in probes:
                yield {**arguments, name: probe}


def _near(value: JsonValue, words: tuple[str, ...], depth: int) -> Iterator[JsonValue]:
    if depth > _MAX_DEPTH:
        return
    match value:
        case bool() | None:
            yield not value
        case int():
            yield from (value + 1, value - 1, 0, -1, value * 1_000 + 100_000)
        case str():
            yield from words
            yield from _TEXTS
            yield f"{value}/elsewhere"
            yield (value[-1:] or "a") * _LONG
        case list():
            yield []
            if value:
                yield [value[0]]
                yield [*value, value[-1]]
                yield [*value, *([value[-1]] * _LONG)]
            for index, item in enumerate(value):
                for near in _near(item, words, depth + 1):
                    yield [*value[:index], near, *value[index + 1 :]]
        case dict():
            for name in value:
                yield {key: item for key, item in value.items() if key != name}
            for name, item in value.items():
                for near in _near(item, words, depth + 1):
                    yield {**value, name: near}
        case _:
            return


def _words(schema: JsonObject) -> tuple[str, ...]:
    """The words that a schema lists, in its order."""
    found: dict[str, None] = {}
    pending: list[JsonValue] = [schema]
    while pending and len(found) < _MAX_WORDS:
        node = pending.pop()
        if not isinstance(node, dict):
            continue
        listed = node.get("enum")
        for word in (*(listed if isinstance(listed, list) else ()), node.get("const")):
            if isinstance(word, str):
                found[word] = None
        pending.extend(child for _, child in subschemas(node))
    return tuple(found)
