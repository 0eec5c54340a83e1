"""Dialects of JSON Schema, and one reading of them all: the 2020-12 form.

A contract without `$schema` is 2020-12 (MCP 2026-07-28); a third of what servers publish says draft-07. Older dialects
lack `unevaluatedProperties`, so a closed view exists only in the newer form. The contract itself is still validated in
its own dialect; `modern` gives the form that is closed beside it.

| dialect          | what changes on the way to 2020-12                                                            |
|------------------|-----------------------------------------------------------------------------------------------|
| 2020-12          | `dependencies`, which validators still read → `dependentRequired` and `dependentSchemas`        |
| 2019-09          | the same; `items` as a list → `prefixItems`, `additionalItems` → `items`                        |
| draft-07, 06, 04 | the same; what stands beside `$ref`, and keywords that the dialect does not know, are dropped,    |
|                  | since it ignores them                                                                           |
| draft-04         | also flags beside `minimum` and `maximum` → exclusive bounds                                    |

One difference has no newer form: draft-04 takes 2.0 for no integer. Such a spelling is refused by the contract itself.

Refused, since one reading cannot be told from another: an unknown dialect, a subschema in a dialect of its own, an
`$id` below the root, `$dynamicRef` and `$recursiveRef`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from broker.domain.canonical import JsonObject, JsonValue

LATEST: Final = "https://json-schema.org/draft/2020-12/schema"
_DIALECTS: Final = {
    "json-schema.org/draft/2020-12/schema": 2020,
    "json-schema.org/draft/2019-09/schema": 2019,
    "json-schema.org/draft-07/schema": 7,
    "json-schema.org/draft-06/schema": 6,
    "json-schema.org/draft-04/schema": 4,
}
MAPS: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
SINGLES: Final = (
    "not", "if", "then", "else", "items", "contains", "additionalProperties", "propertyNames", "unevaluatedItems",
    "unevaluatedProperties", "additionalItems",
)  # fmt: skip
_SINCE_2019: Final = frozenset(
    ("prefixItems", "dependentSchemas", "dependentRequired", "unevaluatedItems", "unevaluatedProperties",
     "minContains", "maxContains")
)  # fmt: skip
_SINCE_6: Final = frozenset(("const", "contains", "propertyNames", "exclusiveMinimum", "exclusiveMaximum"))
_SINCE_7: Final = frozenset(("if", "then", "else"))


class SchemaError(ValueError):
    """The schema has no one reading here; the message begins with the JSON pointer of the place."""


def dialect_of(schema: JsonObject) -> int:
    """The dialect of a schema: 4, 6, 7, 2019 or 2020. Raises `SchemaError` where it is unknown."""
    declared = schema.get("$schema", LATEST)
    known = None
    if isinstance(declared, str):
        known = _DIALECTS.get(declared.removesuffix("#").partition("://")[2])
    if known is None:
        raise SchemaError("/$schema: an unknown dialect; use JSON Schema 2020-12, 2019-09 or draft-07")
    return known


def ignored_in(dialect: int) -> frozenset[str]:
    """The keywords of later dialects that a dialect ignores."""
    found: frozenset[str] = _SINCE_2019 if dialect <= 7 else frozenset()
    if dialect < 7:
        found |= _SINCE_7
    return found | _SINCE_6 if dialect < 6 else found


def modern(schema: JsonObject) -> JsonObject:
    """The schema in its 2020-12 form. Raises `SchemaError`."""
    dialect = dialect_of(schema)
    _check_one_reading(schema)
    if dialect == 2020 and not _has_dependencies(schema):
        return schema
    made = _modern(schema, dialect)
    assert isinstance(made, dict)
    return {**made, "$schema": LATEST}


def subschemas(schema: JsonObject) -> Iterator[tuple[str, JsonValue]]:
    """Every schema directly inside a schema, with its pointer from there."""
    for keyword in MAPS:
        named = schema.get(keyword)
        if isinstance(named, dict):
            for name, child in named.items():
                yield f"/{keyword}/{escape(name)}", child
    for keyword in (*LISTS, "items"):
        listed = schema.get(keyword)
        if isinstance(listed, list):
            for index, child in enumerate(listed):
                yield f"/{keyword}/{index}", child
    for keyword in SINGLES:
        if isinstance(schema.get(keyword), dict | bool):
            yield f"/{keyword}", schema[keyword]
    dependencies = schema.get("dependencies")
    if isinstance(dependencies, dict):
        for name, child in dependencies.items():
            if not isinstance(child, list):
                yield f"/dependencies/{escape(name)}", child


def escape(name: str) -> str:
    """A name as one step of a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")


def unescape(step: str) -> str:
    """The name that one step of a JSON pointer spells."""
    return step.replace("~1", "/").replace("~0", "~")


def _check_one_reading(schema: JsonObject) -> None:
    pending: list[tuple[str, JsonValue]] = [("", schema)]
    while pending:
        pointer, node = pending.pop()
        if not isinstance(node, dict):
            continue
        for keyword in ("$dynamicRef", "$recursiveRef"):
            if keyword in node:
                raise SchemaError(f"{pointer}/{keyword}: its target depends on who refers to it; use $ref")
        if pointer:
            for keyword in ("$id", "$schema"):
                if keyword in node:
                    raise SchemaError(f"{pointer}/{keyword}: allowed at the root alone; use $defs and $ref")
        pending.extend((pointer + below, child) for below, child in subschemas(node))


def _has_dependencies(schema: JsonObject) -> bool:
    pending: list[JsonValue] = [schema]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            if isinstance(node.get("dependencies"), dict):
                return True
            pending.extend(child for _, child in subschemas(node))
    return False


def _modern(node: JsonValue, dialect: int) -> JsonValue:
    if not isinstance(node, dict):
        return node
    made: JsonObject = dict(node)
    if dialect <= 7:
        if "$ref" in made:
            made = {name: made[name] for name in ("$ref", "$defs", "definitions", "$id") if name in made}
        _drop_unknown(made, dialect)
    if dialect < 2020:
        made.pop("prefixItems", None)
        made.pop("$recursiveAnchor", None)  # without $recursiveRef it says nothing
    for keyword in MAPS:
        named = made.get(keyword)
        if isinstance(named, dict):
            made[keyword] = {name: _modern(child, dialect) for name, child in named.items()}
    for keyword in LISTS:
        listed = made.get(keyword)
        if isinstance(listed, list):
            made[keyword] = [_modern(child, dialect) for child in listed]
    for keyword in SINGLES:
        if isinstance(made.get(keyword), dict):
            made[keyword] = _modern(made[keyword], dialect)
    if dialect < 2020:
        _modern_items(made, dialect)
    _modern_dependencies(made, dialect)
    return made


def _drop_unknown(made: JsonObject, dialect: int) -> None:
    bounds = {}
    if dialect == 4:
        for flag, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if made.get(flag) is True and bound in made:
                bounds[flag] = made.pop(bound)
        made.pop("id", None)
    for keyword in ignored_in(dialect) & made.keys():
        del made[keyword]
    made.update(bounds)


def _modern_items(made: JsonObject, dialect: int) -> None:
    additional = made.pop("additionalItems", None)
    items = made.get("items")
    if isinstance(items, list):
        made["prefixItems"] = [_modern(child, dialect) for child in items]
        del made["items"]
        if additional is not None:
            made["items"] = additional


def _modern_dependencies(made: JsonObject, dialect: int) -> None:
    dependencies = made.get("dependencies")
    if not isinstance(dependencies, dict):
        return
    del made["dependencies"]
    required: JsonObject = {name: names for name, names in dependencies.items() if isinstance(names, list)}
    schemas: JsonObject = {
        name: _modern(child, dialect) for name, child in dependencies.items() if not isinstance(child, list)
    }
    for keyword, demands in (("dependentRequired", required), ("dependentSchemas", schemas)):
        if demands and keyword in made:
            beside = made.get("allOf")  # both forms are there, so both hold
            made["allOf"] = [*(beside if isinstance(beside, list) else []), {keyword: demands}]
        elif demands:
            made[keyword] = demands
