"""The JSON Schema of the policy files, made from the table in `form`; for editors, and for whoever writes a reader.

It says what one file may hold. What needs more than one place to see (names that exist, digests, roots) is left to the
reader.
"""

from __future__ import annotations

from typing import Final

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.policy.form import EXCEPTIONS_FILE, TEST_FILE, TOOL_FILE, TRUST_FILE
from broker.domain.policy.shape import AnyMap, Either, Flag, ListOf, MapOf, Record, Shape, Text, Whole
from broker.domain.schema.dialect import LATEST

FILES: Final = {
    "policy": (TOOL_FILE, "Mayfly tool policy"),
    "trust": (TRUST_FILE, "Mayfly trust file"),
    "tests": (TEST_FILE, "Mayfly policy tests"),
    "exceptions": (EXCEPTIONS_FILE, "Mayfly policy exceptions"),
}


def file_schema(kind: str) -> JsonObject:
    """The JSON Schema of one kind of file: policy, trust, tests or exceptions."""
    record, title = FILES[kind]
    return {"$schema": LATEST, "title": title, **_schema(record)}


def _schema(shape: Shape) -> JsonObject:
    match shape:
        case Text():
            made: JsonObject = {"type": "string", "description": shape.expected}
            if shape.options:
                return {**made, "enum": list(shape.options)}
            return {**made, "pattern": f"^(?:{shape.pattern})$"}
        case Whole():
            return {"type": "integer", "minimum": shape.least, "maximum": shape.most, "description": shape.expected}
        case Flag():
            return {"type": "boolean"}
        case AnyMap():
            return {"type": "object", "description": shape.expected}
        case Either():
            return {"anyOf": [_schema(shape.first), _schema(shape.second)]}
        case ListOf():
            return {
                "type": "array",
                "items": _schema(shape.item),
                "minItems": shape.least,
                "maxItems": shape.most,
                "uniqueItems": True,
            }
        case MapOf():
            value = _schema(shape.value)
            made = {"type": "object", "propertyNames": _schema(shape.key)}
            made["additionalProperties"] = {"anyOf": [value, {"type": "null"}]} if shape.nullable else value
            return {**made, "minProperties": shape.least} if shape.least else made
        case Record():
            return _record(shape)


def _record(shape: Record) -> JsonObject:
    properties: JsonObject = {
        name: {**_schema(field), "description": says} for name, (field, says) in shape.fields.items()
    }
    made: JsonObject = {"type": "object", "properties": properties, "additionalProperties": False}
    required: list[JsonValue] = list(shape.required)
    if required and shape.unless is None:
        made["required"] = required
    elif required:
        made["anyOf"] = [{"required": [shape.unless]}, {"required": required}]
    if shape.exactly_one:
        made["oneOf"] = [{"required": [name]} for name in shape.exactly_one]
    return made
