"""The closed view of an input schema: what it accepts when a name that it does not know is refused.

A call must be accepted by the schema **and** by its closure:

1. A *position* is the root, and what is reached from it along `properties`, `items` and `prefixItems`; a `$ref` at a
   position leads on. Nothing inside `not`, `if`, `then`, `else`, `oneOf`, `anyOf`, `allOf` or `dependentSchemas` is
   one: closing those changes what they mean.
2. Each position that may hold an object gets `unevaluatedProperties: false`, which sees through the combinators beside
   it.
3. At a position that lists `properties`, a literal `additionalProperties: true` (or `unevaluatedProperties: true`) is
   dropped. Where none are listed, it says that the object is a free map, and stays.
4. Maps stay maps: `additionalProperties` with a schema, `patternProperties`. What a map's values hold is theirs.
5. The target of a `$ref` may also be used where it must stay open, so a position refers to a closed copy of it; and what
   refers to a position from where nothing is closed is led to an open copy (`untouched`).

A position without any of these keywords is closed too: it accepts the empty object alone.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.schema.dialect import SchemaError, escape, modern, subschemas, unescape
from broker.domain.schema.untouched import keep_references

_SEEN_BESIDE: Final = ("additionalProperties", "unevaluatedProperties")
_MAX_DEPTH: Final = 64
_MAX_PARTS: Final = 256
_MAX_POSITIONS: Final = 10_000


def close(schema: JsonObject) -> JsonObject:
    """The closed view, in 2020-12 form. Raises `SchemaError` where the schema has no one reading."""
    return _Closing(modern(schema)).closed()


def accepted_inputs(schema: JsonObject) -> JsonObject:
    """What a version accepts: the objects in the closed view of its input schema. Raises `SchemaError`."""
    return _objects_in(close(schema))


def open_inputs(schema: JsonObject) -> JsonObject:
    """The raw view beside it: the objects that the input schema itself accepts, in 2020-12 form. Raises `SchemaError`."""
    return _objects_in(modern(schema))


def _objects_in(schema: JsonObject) -> JsonObject:
    kind = schema.get("type", "object")
    if kind == "object" or (isinstance(kind, list) and "object" in kind):
        return {**schema, "type": "object"}
    return {"type": "object", "not": {}}  # arguments are an object, so such a schema accepts none


def required_defaults(schema: JsonObject) -> tuple[str, ...]:
    """The pointers, from the root of the schema, of the properties that carry a `default`, along positions."""
    root = modern(schema)
    found: list[str] = []
    visited = 0
    pending: list[tuple[str, JsonValue, frozenset[str]]] = [("", root, frozenset())]
    while pending:
        pointer, node, seen = pending.pop()
        visited += 1
        if visited > _MAX_POSITIONS:
            raise SchemaError(f"the schema unfolds into more than {_MAX_POSITIONS} places")
        for part, refs in in_place(node, root, seen):
            for name, child in _members(part, "properties"):
                below = f"{pointer}/properties/{escape(name)}"
                if _has_default(child, root):
                    found.append(below)
                pending.append((below, child, refs))
            if isinstance(part.get("items"), dict):
                pending.append((f"{pointer}/items", part["items"], refs))
    return tuple(sorted(set(found)))


def omitted_defaults(schema: JsonObject, arguments: JsonObject) -> tuple[str, ...]:
    """The pointers, into the arguments, of the properties with a `default` that a call left out."""
    root = modern(schema)
    found: list[str] = []
    pending: list[tuple[str, JsonValue, JsonValue, int]] = [("", root, arguments, 0)]
    while pending:
        pointer, node, value, depth = pending.pop()
        if depth > _MAX_DEPTH or not isinstance(value, dict | list):
            continue
        for part, _ in in_place(node, root, frozenset()):
            if isinstance(value, dict):
                for name, child in _members(part, "properties"):
                    below = f"{pointer}/{escape(name)}"
                    if name in value:
                        pending.append((below, child, value[name], depth + 1))
                    elif _has_default(child, root):
                        found.append(below)
            elif isinstance(part.get("items"), dict):
                pending.extend(
                    (f"{pointer}/{index}", part["items"], item, depth + 1) for index, item in enumerate(value)
                )
    return tuple(sorted(set(found)))


def resolve(root: JsonObject, reference: str) -> JsonValue:
    """What a `$ref` inside the document refers to. Raises `SchemaError`."""
    if not reference.startswith("#"):
        raise SchemaError(f"/$ref: {reference[:80]!r} leads outside the contract; put the schema into $defs")
    fragment = unquote(reference[1:])
    if fragment and not fragment.startswith("/"):
        return _anchor(root, fragment)
    node: JsonValue = root
    for step in fragment.split("/")[1:]:
        name = unescape(step)
        if isinstance(node, dict) and name in node:
            node = node[name]
        elif isinstance(node, list) and name.isdecimal() and int(name) < len(node):
            node = node[int(name)]
        else:
            raise SchemaError(f"/$ref: {reference[:80]!r} does not exist in the contract")
    return node


def _anchor(root: JsonObject, name: str) -> JsonValue:
    pending: list[JsonValue] = [root]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            if node.get("$anchor") == name:
                return node
            pending.extend(child for _, child in subschemas(node))
    raise SchemaError(f"/$ref: the anchor {name[:80]!r} does not exist in the contract")


def _members(node: JsonObject, keyword: str) -> list[tuple[str, JsonValue]]:
    named = node.get(keyword)
    return list(named.items()) if isinstance(named, dict) else []


def in_place(node: JsonValue, root: JsonObject, seen: frozenset[str]) -> list[tuple[JsonObject, frozenset[str]]]:
    """A schema and what applies to the same value beside it: `$ref`, `allOf`, a choice between null and one other."""
    found: list[tuple[JsonObject, frozenset[str]]] = []
    pending = [(node, seen)]
    while pending:
        part, refs = pending.pop()
        if not isinstance(part, dict):
            continue
        found.append((part, refs))
        if len(found) > _MAX_PARTS:
            raise SchemaError(f"more than {_MAX_PARTS} schemas apply to one value")
        reference = part.get("$ref")
        if isinstance(reference, str) and reference not in refs:
            pending.append((resolve(root, reference), refs | {reference}))
        combined = part.get("allOf")
        if isinstance(combined, list):
            pending.extend((child, refs) for child in combined)
        for keyword in ("anyOf", "oneOf"):
            choice = part.get(keyword)
            if isinstance(choice, list):
                real = [child for child in choice if child != {"type": "null"}]
                if len(real) == 1:
                    pending.append((real[0], refs))
    return found


def _has_default(node: JsonValue, root: JsonObject) -> bool:
    return any("default" in part for part, _ in in_place(node, root, frozenset()))


def _may_be_object(node: JsonObject) -> bool:
    """Whether the schema, as far as `type`, `enum` and `const` say, accepts objects; closing others says nothing."""
    kind = node.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        return False
    choices = [node["const"]] if "const" in node else node.get("enum")
    return not isinstance(choices, list) or any(isinstance(choice, dict) for choice in choices)


class _Closing:
    """One closing: the document, and the closed copies made so far by reference."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._names: dict[str, str] = {}
        self._copies: JsonObject = {}

    def closed(self) -> JsonObject:
        made = self._position(self._root, 0)
        assert isinstance(made, dict)
        if self._copies:
            definitions = made.get("$defs", {})
            assert isinstance(definitions, dict)
            made["$defs"] = {**definitions, **self._copies}
        return keep_references(self._root, made, frozenset(f"#/$defs/{name}" for name in self._copies))

    def _position(self, node: JsonValue, depth: int) -> JsonValue:
        if node is True:
            return {"unevaluatedProperties": False}
        if not isinstance(node, dict):
            return node
        made = self._along(node, depth)
        if _may_be_object(made) and not any(keyword in made for keyword in _SEEN_BESIDE):
            made["unevaluatedProperties"] = False
        return made

    def _along(self, node: JsonObject, depth: int) -> JsonObject:
        """A copy whose properties and items are closed, but not the value it describes itself."""
        if depth > _MAX_DEPTH:
            raise SchemaError(f"the schema is nested deeper than {_MAX_DEPTH}")
        made = dict(node)
        if isinstance(node.get("properties"), dict):
            for keyword in _SEEN_BESIDE:
                if made.get(keyword) is True:
                    del made[keyword]
            made["properties"] = {
                name: self._position(child, depth + 1) for name, child in _members(node, "properties")
            }
        if isinstance(node.get("items"), dict | bool):
            made["items"] = self._position(node["items"], depth + 1)
        prefix = node.get("prefixItems")
        if isinstance(prefix, list):
            made["prefixItems"] = [self._position(child, depth + 1) for child in prefix]
        if isinstance(node.get("$ref"), str):
            made["$ref"] = self._closed_reference(str(node["$ref"]), depth)
        return made

    def _closed_reference(self, reference: str, depth: int) -> str:
        name = self._names.get(reference)
        if name is None:
            target = resolve(self._root, reference)
            taken = {name for name, _ in _members(self._root, "$defs")}
            name = next(f"closed-{n}" for n in range(len(self._names), 10_000) if f"closed-{n}" not in taken)
            self._names[reference] = name
            if isinstance(target, dict):
                copy = self._along(target, depth + 1)
                for keyword in ("$id", "$schema", "$anchor", "$dynamicAnchor", "$defs", "definitions"):
                    copy.pop(keyword, None)  # they stand in the original, and may stand once only
                self._copies[name] = copy
            else:
                self._copies[name] = target
        return f"#/$defs/{name}"
