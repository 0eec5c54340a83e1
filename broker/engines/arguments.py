"""Arguments against a contract, by jsonschema-rs.

1. The contract's schema is asked in its own dialect, its closure in 2020-12; both must accept.
2. Both are compiled as `engines.schemas` says. No default is filled in, nothing is coerced.
3. A problem names the place, the keyword and what the contract expects there; never a value that was given.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, Final

import jsonschema_rs

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.contracts.contract import ContractError, ToolContract
from broker.domain.policy.document import ArgumentFacts, VersionPolicy
from broker.domain.schema.closure import close, resolve
from broker.domain.schema.dialect import SchemaError, escape
from broker.engines.schemas import compile_schema

_MAX_SHOWN: Final = 160
_MAX_NAMES: Final = 24
_MAX_PARTS: Final = 64
_UNKNOWN_NAME: Final = ("unevaluatedProperties", "additionalProperties")
# Keywords whose value is a rule of the contract that fits into a sentence.
_SHOWN: Final = frozenset(
    (
        "type", "enum", "const", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
        "minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties",
    )
)  # fmt: skip


class ArgumentValidator:
    """One contract, compiled once; answers in microseconds and may be shared between threads."""

    def __init__(self, contract: ToolContract) -> None:
        """Raises `ContractError` where the input schema cannot be compiled."""
        self._schema = schema = contract.input_schema
        try:
            self._closed_schema = close(schema)
        except SchemaError as error:
            raise ContractError(f"/inputSchema{error}") from None
        self._contract = compile_schema(schema, "/inputSchema")
        self._closed = compile_schema(self._closed_schema, "/inputSchema")
        self._contract_accepts = self._contract.is_valid
        self._closure_accepts = self._closed.is_valid

    def accepts(self, arguments: JsonObject) -> bool:
        """Whether contract and closure accept the arguments."""
        return self._contract_accepts(arguments) and self._closure_accepts(arguments)

    def problem(self, arguments: JsonObject) -> str | None:
        """What is wrong with the arguments, for the caller to mend; None where they fit."""
        if self.accepts(arguments):
            return None
        # The closure first: an unknown name is what a model mends most easily.
        for validator, schema in ((self._closed, self._closed_schema), (self._contract, self._schema)):
            for error in validator.iter_errors(arguments):
                return _describe(error, schema)
        return "the arguments do not fit the contract"


class VersionMatcher:
    """One version of a tool, compiled once: whether arguments fit, and which scopes they need."""

    def __init__(self, version: VersionPolicy) -> None:
        """Raises `ContractError` where the contract or a `needed_when` cannot be compiled."""
        self._validator = ArgumentValidator(version.contract)
        self._always = frozenset(name for name, scope in version.scopes.items() if scope.needed_when is True)
        self._conditions = tuple(
            (name, compile_condition(scope.needed_when, f"/scopes/{escape(name)}/needed_when").is_valid)
            for name, scope in version.scopes.items()
            if isinstance(scope.needed_when, dict)
        )

    def facts(self, arguments: JsonObject) -> ArgumentFacts:
        """What `decide` needs to know about one argument object."""
        if not self._validator.accepts(arguments):
            return ArgumentFacts(valid=False, problem=self._validator.problem(arguments), needed=frozenset())
        needed = self._always.union(name for name, accepts in self._conditions if accepts(arguments))
        return ArgumentFacts(valid=True, problem=None, needed=needed)

    def problem(self, arguments: JsonObject) -> str | None:
        """What is wrong with the arguments; None where they fit."""
        return self._validator.problem(arguments)


def compile_condition(schema: JsonObject, pointer: str) -> jsonschema_rs.Validator:
    """The validator of a `needed_when`. Raises `ContractError` with the pointer."""
    return compile_schema(schema, pointer)


def _describe(error: Any, schema: JsonObject) -> str:
    keyword = error.kind.name
    pointer = "".join(f"/{escape(str(step))}" for step in error.instance_path)
    place = _short(pointer) or "at the root"
    if keyword in _UNKNOWN_NAME:
        return _describe_unknown_name(error, schema, place)
    if keyword == "required":
        return f"{place}: required: {_short(str(error.kind.property))} is missing"
    expected = _at(schema, error.schema_path)
    if keyword in _SHOWN and expected is not None:
        return f"{place}: {keyword}: expected {_short(_json(expected))}"
    return f"{place}: {_short(keyword)}: the contract does not accept what stands there"


def _describe_unknown_name(error: Any, schema: JsonObject, place: str) -> str:
    unexpected = sorted(str(name) for name in error.kind.unexpected)
    names = sorted(set(_legal_names(schema, error.schema_path)))
    known = ", ".join(names[:_MAX_NAMES]) + (", …" if len(names) > _MAX_NAMES else "")
    near = get_close_matches(unexpected[0], names, 1, 0.6) if unexpected else []
    hint = f"; did you mean {near[0]}?" if near else ""
    found = ", ".join(_json(_short(name)) for name in unexpected[:_MAX_NAMES])
    return f"{place}: unknown name {found}; legal here: {known or 'none'}{hint}"


def _legal_names(schema: JsonObject, schema_path: list[str | int]) -> Iterator[str]:
    """The property names that the schema around a failed keyword lists, beside it and in what it combines."""
    pending = [_at(schema, schema_path[:-1])]
    seen: set[str] = set()
    for _ in range(_MAX_PARTS):
        if not pending:
            return
        node = pending.pop()
        if not isinstance(node, dict):
            continue
        properties = node.get("properties")
        if isinstance(properties, dict):
            yield from properties
        for keyword in ("allOf", "anyOf", "oneOf"):
            combined = node.get(keyword)
            if isinstance(combined, list):
                pending.extend(combined)
        pending.extend(node[keyword] for keyword in ("then", "else") if keyword in node)
        reference = node.get("$ref")
        if isinstance(reference, str) and reference.startswith("#") and reference not in seen:
            seen.add(reference)
            pending.append(resolve(schema, reference))


def _at(schema: JsonValue, path: list[str | int]) -> JsonValue:
    node = schema
    for step in path:
        if isinstance(node, dict) and str(step) in node:
            node = node[str(step)]
        elif isinstance(node, list) and isinstance(step, int) and step < len(node):
            node = node[step]
        else:
            return None
    return node


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=True)


def _short(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…"
