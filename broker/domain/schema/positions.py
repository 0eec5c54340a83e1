"""The schema of one property, by itself: what a value at a pointer has to fit whatever else the object holds.

It is a necessary condition: all that stands along the way beside the property (`$ref`, `allOf`), with the definitions it may
refer to. Where a choice (`anyOf`, `oneOf`, `if`) speaks of the property, there is no one schema of it.
"""

from __future__ import annotations

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.schema.closure import in_place
from broker.domain.schema.dialect import SchemaError, modern, unescape


def property_schema(contract: JsonObject, pointer: str) -> JsonObject | None:
    """In 2020-12 form; lists on the way or at the end stand for their members. None where there is no one schema."""
    try:
        root = modern(contract)
        found: list[JsonValue] = [root]
        for step in pointer.split("/")[1:]:
            name = unescape(step)
            found = [child for node in found for child in _children(node, root, name)]
        found = [member for node in found for member in _members(node, root)]
    except SchemaError:
        return None
    if not found:
        return None
    definitions: JsonObject = {key: root[key] for key in ("$defs", "definitions") if key in root}
    if len(found) == 1 and isinstance(found[0], dict):
        return {**definitions, **found[0]}
    return {**definitions, "allOf": list(found)}


def _children(node: JsonValue, root: JsonObject, name: str) -> list[JsonValue]:
    found: list[JsonValue] = []
    for part, _ in in_place(node, root, frozenset()):
        properties = part.get("properties")
        if isinstance(properties, dict) and name in properties:
            found.append(properties[name])
        elif isinstance(part.get("items"), dict):
            found.extend(_children(part["items"], root, name))
    return found


def _members(node: JsonValue, root: JsonObject) -> list[JsonValue]:
    """The schemas of the members where a schema describes a list, else the schema."""
    for part, _ in in_place(node, root, frozenset()):
        if isinstance(part.get("items"), dict) and "prefixItems" not in part:
            return _members(part["items"], root)
    return [node]
