"""What of a schema bears on which values it accepts, in one spelling.

1. Annotations go: titles, descriptions, defaults, examples, `format`, and keywords that no dialect knows. What stands in
   `const` and `enum`, and names in `properties`, are values: they are never looked into.
2. Definitions are named in the order in which references reach them, so their own names do not matter, nor which stand
   unused. An anchor is a name too.
3. What is a set is sorted: `required`, `type`, `enum`.

Two schemas with the same bare text accept the same values, recursion or not. The reverse is not claimed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Final

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.schema.closure import resolve
from broker.domain.schema.dialect import LISTS, MAPS, SINGLES, modern, subschemas

_ASSERTIONS: Final = frozenset(
    (
        "type", "enum", "const", "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength",
        "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "maxContains", "minContains", "maxProperties",
        "minProperties", "required", "dependentRequired",
    )
)  # fmt: skip
_DEFINITIONS: Final = frozenset(("$defs", "definitions"))
_OLD: Final = frozenset(("additionalItems",))  # no keyword of 2020-12
_MAPS: Final = tuple(name for name in MAPS if name not in _DEFINITIONS)
_SINGLES: Final = tuple(name for name in SINGLES if name not in _OLD)


def bare(schema: JsonObject) -> JsonObject:
    """The schema in 2020-12, without what does not bear on acceptance. Raises `SchemaError`."""
    return _Baring(modern(schema)).document()


def text(schema: JsonValue) -> str:
    """One spelling of a bare schema."""
    return json.dumps(schema, sort_keys=True, separators=(",", ":"))


def every(schema: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """Every subschema that is an object, itself first, with its pointer."""
    pending: list[tuple[str, JsonObject]] = [("", schema)]
    while pending:
        pointer, node = pending.pop()
        yield pointer, node
        pending.extend((pointer + below, child) for below, child in subschemas(node) if isinstance(child, dict))


def rewritten(schema: JsonObject, rewrite: Callable[[JsonObject], JsonObject]) -> JsonObject:
    """A copy with `rewrite` applied to each subschema, the inner ones first."""
    made = dict(schema)
    for keyword in MAPS:
        named = made.get(keyword)
        if isinstance(named, dict):
            made[keyword] = {name: _rewritten(child, rewrite) for name, child in named.items()}
    for keyword in LISTS:
        listed = made.get(keyword)
        if isinstance(listed, list):
            made[keyword] = [_rewritten(child, rewrite) for child in listed]
    for keyword in SINGLES:
        if isinstance(made.get(keyword), dict):
            made[keyword] = _rewritten(made[keyword], rewrite)
    return rewrite(made)


def _rewritten(schema: JsonValue, rewrite: Callable[[JsonObject], JsonObject]) -> JsonValue:
    return rewritten(schema, rewrite) if isinstance(schema, dict) else schema


class _Baring:
    """One document: the root, and the definitions that references have reached so far."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._names: dict[int | str, str] = {}
        self._pending: list[tuple[str, JsonValue]] = []

    def document(self) -> JsonObject:
        made = self._schema(self._root)
        assert isinstance(made, dict)
        definitions: JsonObject = {}
        while self._pending:
            name, target = self._pending.pop(0)
            definitions[name] = self._schema(target)
        if definitions:
            made["$defs"] = definitions
        return made

    def _schema(self, node: JsonValue) -> JsonValue:
        if not isinstance(node, dict):
            return node
        made: JsonObject = {}
        for keyword in sorted(node):  # so that references are met in one order
            value = node[keyword]
            if keyword in _ASSERTIONS:
                made[keyword] = _as_set(keyword, value)
            elif keyword in _MAPS and isinstance(value, dict):
                made[keyword] = {name: self._schema(value[name]) for name in sorted(value)}
            elif keyword in LISTS and isinstance(value, list):
                made[keyword] = [self._schema(child) for child in value]
            elif keyword in _SINGLES:
                made[keyword] = self._schema(value)
            elif keyword == "$ref" and isinstance(value, str):
                made[keyword] = self._reference(value)
            elif keyword in LISTS or keyword in _MAPS:
                made[keyword] = value  # malformed: the validator says so
        return made

    def _reference(self, reference: str) -> str:
        target = resolve(self._root, reference)
        # An object is known by identity, and lives as long as the document; `true` and `false` by their text.
        key = id(target) if isinstance(target, dict) else json.dumps(target)
        if key not in self._names:
            self._names[key] = str(len(self._names))
            self._pending.append((self._names[key], target))
        return f"#/$defs/{self._names[key]}"


def _as_set(keyword: str, value: JsonValue) -> JsonValue:
    if isinstance(value, list) and keyword in ("required", "type") and all(isinstance(item, str) for item in value):
        members = sorted({str(item) for item in value})
        return members[0] if keyword == "type" and len(members) == 1 else list(members)
    if isinstance(value, list) and keyword == "enum":
        return [item for _, item in sorted({json.dumps(item, sort_keys=True): item for item in value}.items())]
    return value
