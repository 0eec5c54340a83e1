"""Demands of single keywords, and whether what applies to a value already makes them: types, values, names, bounds.

Each function takes the parts that all apply to one value (`structure`), and is true only where the demand holds for certain.
"""

from __future__ import annotations

import json
from typing import Final, TypeAlias

from broker.domain.canonical import JsonValue

_TYPES: Final = frozenset(("null", "boolean", "integer", "number", "string", "array", "object"))
_LOWER: Final = ("minLength", "minItems", "minProperties")
_UPPER: Final = ("maxLength", "maxItems", "maxProperties")

# A schema and the number of the document that its references lead into.
Place: TypeAlias = "tuple[int, JsonValue]"
Term: TypeAlias = "tuple[Place, ...]"


def kinds_of(parts: Term) -> frozenset[str]:
    """The types that a value may have; `number` stands for what is no integer."""
    kinds = _TYPES
    for _, part in parts:
        if isinstance(part, dict):
            if "type" in part:
                kinds &= spread(part["type"])
            for keyword in ("const", "enum"):
                if keyword in part:
                    values = [part["const"]] if keyword == "const" else part["enum"]
                    kinds &= frozenset(
                        kind for value in (values if isinstance(values, list) else ()) for kind in _kind(value)
                    )
    return kinds


def spread(kinds: JsonValue) -> frozenset[str]:
    named = {str(kind) for kind in kinds} if isinstance(kinds, list) else {str(kinds)}
    return frozenset(named | {"integer"} if "number" in named else named)


def _kind(value: JsonValue) -> tuple[str, ...]:
    match value:
        case None:
            return ("null",)
        case bool():
            return ("boolean",)
        case int() | float():
            return ("integer", "number")
        case str():
            return ("string",)
        case list():
            return ("array",)
    return ("object",)


def may_be(kinds: frozenset[str], kind: str) -> bool:
    return kind in kinds or (kind == "number" and "integer" in kinds)


def values_within(parts: Term, allowed: JsonValue) -> bool:
    if not isinstance(allowed, list):
        return False
    for _, part in parts:
        values = None
        if isinstance(part, dict):
            values = [part["const"]] if "const" in part else part.get("enum")
        if isinstance(values, list) and all(any(strictly_equal(value, other) for other in allowed) for value in values):
            return True
    return False


def required_in(parts: Term) -> set[str]:
    return {
        str(name)
        for _, part in parts
        if isinstance(part, dict) and isinstance(part.get("required"), list)
        for name in listed_in(part["required"])
    }


def listed_in(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def prefix_of(part: JsonValue) -> list[JsonValue]:
    return listed_in(part.get("prefixItems")) if isinstance(part, dict) else []


def properties_of(part: JsonValue) -> dict[str, JsonValue]:
    properties = part.get("properties") if isinstance(part, dict) else None
    return properties if isinstance(properties, dict) else {}


def at_index(parts: Term, index: int) -> Term:
    found: list[Place] = []
    for number, part in parts:
        prefix = prefix_of(part)
        if index < len(prefix):
            found.append((number, prefix[index]))
        elif isinstance(part, dict) and "items" in part:
            found.append((number, part["items"]))
    return tuple(found)


def at_other_names(parts: Term) -> Term:
    """What applies to a member whose name no part lists."""
    return tuple(
        (number, part["additionalProperties"])
        for number, part in parts
        if isinstance(part, dict) and "additionalProperties" in part and not part.get("patternProperties")
    )


def bound_is_implied(parts: Term, keyword: str, value: JsonValue) -> bool:
    """Bounds: one at least as strong stands in the term."""
    stated = [(name, part[name]) for _, part in parts if isinstance(part, dict) for name in part]
    numbers = [
        (name, bound) for name, bound in stated if isinstance(bound, int | float) and not isinstance(bound, bool)
    ]
    if keyword == "uniqueItems":
        return value is False or any(name == keyword and stated_value is True for name, stated_value in stated)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    for name, bound in numbers:
        if name == keyword and keyword in _LOWER and bound >= value:
            return True
        if name == keyword and keyword in _UPPER and bound <= value:
            return True
        strict_enough = keyword in ("minimum", "maximum") or name == keyword
        if {keyword, name} <= {"minimum", "exclusiveMinimum"} and (bound > value or (bound == value and strict_enough)):
            return True
        if {keyword, name} <= {"maximum", "exclusiveMaximum"} and (bound < value or (bound == value and strict_enough)):
            return True
        if name == keyword == "multipleOf" and isinstance(value, int) and isinstance(bound, int) and bound % value == 0:
            return True
    return keyword in _LOWER and value <= 0


def refers(value: JsonValue) -> bool:
    pending = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            if "$ref" in node:
                return True
            pending.extend(node.values())
        elif isinstance(node, list):
            pending.extend(node)
    return False


def strictly_equal(one: JsonValue, other: JsonValue) -> bool:
    """Equality that tells true from 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(strictly_equal(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(strictly_equal(a, b) for a, b in zip(one, other, strict=True))
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def exclusive(branches: list[JsonValue]) -> bool:
    """Whether no object fits two of the branches, since a member that all require has other values in each."""
    named = [properties_of(branch) for branch in branches]
    for name in named[0] if named else ():
        values: list[JsonValue] = []
        for branch, properties in zip(branches, named, strict=True):
            child = properties.get(name)
            demanded = (
                isinstance(branch, dict) and branch.get("type") == "object" and name in required_in(((0, branch),))
            )
            if not demanded or not isinstance(child, dict) or not ("const" in child or "enum" in child):
                break
            values.extend([child["const"]] if "const" in child else listed_in(child["enum"]))
        else:
            # told apart by text: numbers that are equal in two spellings count as equal
            keys = [_spelt(value) for value in values]
            if len(set(keys)) == len(keys) and not any(isinstance(value, dict | list) for value in values):
                return True
    return False


def _spelt(value: JsonValue) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53:
        value = float(value)
    return json.dumps(value)
