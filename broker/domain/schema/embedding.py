"""One schema inside another document: references go on leading where they led.

A `$ref` is read from the root of its document, so a schema that is put below another root has to take its own along: it
stands under `$defs` there, and its references are led to that place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.schema.bare import every, rewritten
from broker.domain.schema.dialect import SchemaError, modern

_ROOT_ONLY: Final = ("$schema", "$id")


def refused(schema: JsonObject) -> JsonObject:
    """What a schema refuses."""
    inside, definitions = _embedded(schema, {})
    return {"not": inside, **definitions}


def both(one: JsonObject, other: JsonObject, *, opaque: bool = False) -> JsonObject:
    """What one schema and another accept, as the first document with the other inside it.

    opaque: the other stands behind two `not`, through which no annotation passes: it makes no property known to the
            `unevaluatedProperties` of the first.
    """
    inside, definitions = _embedded(other, one)
    others = one.get("allOf")
    condition: JsonObject = {"not": {"not": inside}} if opaque else inside
    return {**one, "allOf": [*(others if isinstance(others, list) else ()), condition], **definitions}


def _embedded(schema: JsonObject, root: JsonObject) -> tuple[JsonObject, JsonObject]:
    """What stands for the schema in another document, and the `$defs` that the document needs for it."""
    try:
        schema = modern(schema)
    except SchemaError:
        return schema, {}  # without one reading; whoever reads it next says so
    made = {keyword: value for keyword, value in schema.items() if keyword not in _ROOT_ONLY}
    if not any("$ref" in node for _, node in every(made)):
        return made, {}
    name = _free_name(root)

    def moved(node: JsonObject) -> JsonObject:
        reference = node.get("$ref")
        if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")):
            node["$ref"] = f"#/$defs/{name}{reference[1:]}"
        return node

    return {"$ref": f"#/$defs/{name}"}, {"$defs": {**dict(_named(root)), name: rewritten(made, moved)}}


def _free_name(root: JsonObject) -> str:
    taken = {name for name, _ in _named(root)}
    return next(name for number in range(len(taken) + 1) if (name := f"inside-{number}") not in taken)


def _named(root: JsonObject) -> Iterator[tuple[str, JsonValue]]:
    definitions = root.get("$defs")
    if isinstance(definitions, dict):
        yield from definitions.items()
