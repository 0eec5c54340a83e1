"""Whether a value fits a schema, near enough to guide a search: the validator decides, this only saves asking it.

1. All keywords of 2020-12 that a contract uses are looked at. A pattern that has no language here counts as matched.
2. Beside `unevaluatedProperties` and `unevaluatedItems`, what the other keywords evaluated is followed as the standard says.
3. Depth is bounded: what lies deeper counts as fitting.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.schema.closure import resolve
from broker.domain.schema.dialect import SchemaError
from broker.domain.schema.patterns import Unportable, parse_pattern
from broker.domain.schema.regular import matches

_MAX_DEPTH: Final = 24
_MAX_MATCHED: Final = 2_000


@dataclass(slots=True)
class _Seen:
    """What of a value has been evaluated: names, and items up to a number (or all)."""

    names: set[str] = field(default_factory=set)
    items: int = 0

    def add(self, other: _Seen) -> None:
        self.names |= other.names
        self.items = max(self.items, other.items)


def fits(schema: JsonValue, value: JsonValue, root: JsonObject) -> bool:
    """Whether the value fits, as far as this looks."""
    try:
        return _evaluate(schema, value, root, 0) is not None
    except (SchemaError, RecursionError):
        return False


def type_of(value: JsonValue) -> str:
    """The JSON type, `integer` for a number without a fraction."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def same(one: JsonValue, other: JsonValue) -> bool:
    """Equality of JSON values: 1 is 1.0, and true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    return one == other


def mapping(node: JsonValue, keyword: str) -> JsonObject:
    """The object under a keyword, empty where there is none."""
    found = node.get(keyword) if isinstance(node, dict) else None
    return found if isinstance(found, dict) else {}


def listing(node: JsonValue, keyword: str) -> list[JsonValue]:
    """The list under a keyword, empty where there is none."""
    found = node.get(keyword) if isinstance(node, dict) else None
    return found if isinstance(found, list) else []


def number_at(node: JsonValue, keyword: str) -> float | int | None:
    """The number under a keyword."""
    found = node.get(keyword) if isinstance(node, dict) else None
    return found if isinstance(found, int | float) and not isinstance(found, bool) else None


def pattern_matches(pattern: JsonValue, text: str) -> bool:
    """Whether a pattern finds a match; true where that is not known."""
    if not isinstance(pattern, str) or len(text) > _MAX_MATCHED:
        return True
    language = parse_pattern(pattern)
    return isinstance(language, Unportable) or matches(language, text)


def _evaluate(schema: JsonValue, value: JsonValue, root: JsonObject, depth: int) -> _Seen | None:
    if schema is True or depth > _MAX_DEPTH:
        return _Seen()
    if not isinstance(schema, dict) or not _simple_fit(schema, value):
        return None
    seen = _Seen()
    if isinstance(value, dict) and not _members_fit(schema, value, root, depth, seen):
        return None
    if isinstance(value, list) and not _items_fit(schema, value, root, depth, seen):
        return None
    if not _in_place_fit(schema, value, root, depth, seen):
        return None
    if isinstance(value, dict) and "unevaluatedProperties" in schema:
        for name in value.keys() - seen.names:
            if _evaluate(schema["unevaluatedProperties"], value[name], root, depth + 1) is None:
                return None
        seen.names |= value.keys()
    if isinstance(value, list) and "unevaluatedItems" in schema:
        for item in value[seen.items :]:
            if _evaluate(schema["unevaluatedItems"], item, root, depth + 1) is None:
                return None
        seen.items = len(value)
    return seen


def _simple_fit(schema: JsonObject, value: JsonValue) -> bool:
    kind = type_of(value)
    if "type" in schema:
        wanted = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if kind not in wanted and not (kind == "integer" and "number" in wanted):
            return False
    if "const" in schema and not same(schema["const"], value):
        return False
    if "enum" in schema and not any(same(choice, value) for choice in listing(schema, "enum")):
        return False
    if isinstance(value, str):
        return _sized(schema, len(value), "Length") and (
            "pattern" not in schema or pattern_matches(schema["pattern"], value)
        )
    if isinstance(value, list):
        distinct = schema.get("uniqueItems") is not True or not any(
            same(a, b) for index, a in enumerate(value[:200]) for b in value[:index]
        )
        return _sized(schema, len(value), "Items") and distinct
    if isinstance(value, dict):
        return (
            _sized(schema, len(value), "Properties")
            and all(name in value for name in listing(schema, "required"))
            and all(
                all(other in value for other in listing(mapping(schema, "dependentRequired"), name))
                for name in mapping(schema, "dependentRequired")
                if name in value
            )
        )
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _bounded(schema, value)
    return True


def _sized(schema: JsonObject, size: int, what: str) -> bool:
    low, high = number_at(schema, f"min{what}"), number_at(schema, f"max{what}")
    return (low is None or size >= low) and (high is None or size <= high)


def _bounded(schema: JsonObject, value: float) -> bool:
    low, high = number_at(schema, "minimum"), number_at(schema, "maximum")
    above, below = number_at(schema, "exclusiveMinimum"), number_at(schema, "exclusiveMaximum")
    step = number_at(schema, "multipleOf")
    if (low is not None and value < low) or (high is not None and value > high):
        return False
    if (above is not None and value <= above) or (below is not None and value >= below):
        return False
    if not step:
        return True
    if isinstance(step, int) and isinstance(value, int):
        return value % step == 0
    try:
        return abs(value / step - round(value / step)) < 1e-9
    except (OverflowError, ValueError):
        return True


def _members_fit(schema: JsonObject, value: JsonObject, root: JsonObject, depth: int, seen: _Seen) -> bool:
    properties, named = mapping(schema, "properties"), mapping(schema, "patternProperties")
    for name, member in value.items():
        listed = [properties[name]] if name in properties else []
        listed.extend(child for pattern, child in named.items() if pattern_matches(pattern, name))
        if not listed and "additionalProperties" in schema:
            listed.append(schema["additionalProperties"])
        if any(_evaluate(child, member, root, depth + 1) is None for child in listed):
            return False
        if listed:
            seen.names.add(name)
        if "propertyNames" in schema and _evaluate(schema["propertyNames"], name, root, depth + 1) is None:
            return False
    return True


def _items_fit(schema: JsonObject, value: list[JsonValue], root: JsonObject, depth: int, seen: _Seen) -> bool:
    prefix = listing(schema, "prefixItems")
    for child, item in zip(prefix, value, strict=False):
        if _evaluate(child, item, root, depth + 1) is None:
            return False
    seen.items = min(len(prefix), len(value))
    if "items" in schema:
        if any(_evaluate(schema["items"], item, root, depth + 1) is None for item in value[len(prefix) :]):
            return False
        seen.items = len(value)
    if "contains" in schema:
        found = sum(_evaluate(schema["contains"], item, root, depth + 1) is not None for item in value)
        low, high = number_at(schema, "minContains"), number_at(schema, "maxContains")
        if found < (1 if low is None else low) or (high is not None and found > high):
            return False
        if found == len(value):
            seen.items = len(value)
    return True


def _in_place_fit(schema: JsonObject, value: JsonValue, root: JsonObject, depth: int, seen: _Seen) -> bool:
    every: list[JsonValue] = list(listing(schema, "allOf"))
    if isinstance(schema.get("$ref"), str):
        every.append(resolve(root, str(schema["$ref"])))
    if isinstance(value, dict):
        every.extend(child for name, child in mapping(schema, "dependentSchemas").items() if name in value)
    if "if" in schema:
        holds = _evaluate(schema["if"], value, root, depth + 1)
        if holds is not None:
            seen.add(holds)
        chosen = "else" if holds is None else "then"
        if chosen in schema:
            every.append(schema[chosen])
    for child in every:
        inner = _evaluate(child, value, root, depth + 1)
        if inner is None:
            return False
        seen.add(inner)
    for keyword, most in (("anyOf", None), ("oneOf", 1)):
        if keyword in schema:
            fitting = [_evaluate(child, value, root, depth + 1) for child in listing(schema, keyword)]
            found = [inner for inner in fitting if inner is not None]
            if not found or (most is not None and len(found) > most):
                return False
            for inner in found:
                seen.add(inner)
    return "not" not in schema or _evaluate(schema["not"], value, root, depth + 1) is None
