"""Validators of schemas, by jsonschema-rs, made the same way wherever a decision hangs on one.

1. A schema is compiled in its own dialect.
2. Nothing is fetched: a reference that leads outside the document is refused when the validator is made.
3. Patterns run on a linear engine. One that needs lookaround runs on a backtracking engine with a step limit, and a value
   that uses the limit up does not fit.
4. `format` is an annotation; so are `contentMediaType` and `contentEncoding`, which the library asserts in draft-06 and
   draft-07 alone: what a base64 string holds is nothing that a closed view could say.
5. Bytes, and how many subschemas the schema unfolds into, are bounded.
"""

from __future__ import annotations

import copy
import json
from typing import Final

import jsonschema_rs

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.contracts.contract import ContractError
from broker.domain.schema.cost import MAX_COST, evaluation_cost
from broker.domain.schema.dialect import SchemaError, dialect_of, escape, subschemas

MAX_SCHEMA_BYTES: Final = 262_144
_MAX_SHOWN: Final = 160
_BACKTRACKS: Final = 10_000
_REGEX_BYTES: Final = 1_048_576
LINEAR: Final = jsonschema_rs.RegexOptions(size_limit=_REGEX_BYTES, dfa_size_limit=_REGEX_BYTES)
BACKTRACKING: Final = jsonschema_rs.FancyRegexOptions(
    backtrack_limit=_BACKTRACKS, size_limit=_REGEX_BYTES, dfa_size_limit=_REGEX_BYTES
)
_DRAFTS: Final = {
    4: jsonschema_rs.Draft4Validator,
    6: jsonschema_rs.Draft6Validator,
    7: jsonschema_rs.Draft7Validator,
    2019: jsonschema_rs.Draft201909Validator,
    2020: jsonschema_rs.Draft202012Validator,
}


def compile_schema(schema: JsonObject, pointer: str) -> jsonschema_rs.Validator:
    """The validator of a schema that stands at `pointer` in a contract. Raises `ContractError` with the place."""
    try:
        size = _size(schema)
        validator = _DRAFTS[dialect_of(schema)]
        if size > MAX_SCHEMA_BYTES:
            raise ContractError(f"{pointer}: {size} bytes; at most {MAX_SCHEMA_BYTES} are compiled")
        if evaluation_cost(schema) > MAX_COST:
            raise ContractError(f"{pointer}: unfolds into more than {MAX_COST} subschemas; let fewer references nest")
    except SchemaError as error:
        raise ContractError(f"{pointer}: {error}") from None
    asserted = _without_content(schema) if dialect_of(schema) in (6, 7) else schema
    problem: Exception | None = None
    for options in (LINEAR, BACKTRACKING):
        try:
            return validator(asserted, offline=True, validate_formats=False, pattern_options=options)
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
            problem = error
    below = "".join(f"/{escape(str(step))}" for step in getattr(problem, "instance_path", ()))
    message = str(getattr(problem, "message", problem))
    shown = message if len(message) <= _MAX_SHOWN else message[:_MAX_SHOWN] + "…"
    raise ContractError(f"{pointer}{below}: {shown}")


def _without_content(schema: JsonObject) -> JsonObject:
    made = copy.deepcopy(schema)
    pending: list[JsonValue] = [made]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            for keyword in ("contentMediaType", "contentEncoding"):
                node.pop(keyword, None)
            pending.extend(child for _, child in subschemas(node))
    return made


def _size(schema: JsonObject) -> int:
    # not its canonical spelling, which integers beyond 2^53 do not have
    try:
        return len(json.dumps(schema, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode())
    except (RecursionError, ValueError, TypeError):
        raise SchemaError("it cannot be written as JSON") from None
