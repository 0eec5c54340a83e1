"""A schema that says: something of this kind stands at that pointer.

1. The way there is the contract's own: a step is a property, a list on the way or at the end stands for its members.
2. Where the contract gives a choice (a text or a list of texts), each way is one.
3. A pointer that the contract does not list is held by nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.schema.closure import in_place

NOTHING: Final[JsonObject] = {"not": {}}
_MAX_PARTS: Final = 128
_MAX_FORMS: Final = 16


def holding(contract: JsonObject, pointer: str, leaf: JsonObject) -> JsonObject:
    """Objects in which a value at the pointer fits `leaf`. Raises `SchemaError` where a reference leads nowhere."""
    steps = tuple(step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])
    forms = _forms(contract, steps, leaf, contract, frozenset())
    if not forms:
        return NOTHING
    return forms[0] if len(forms) == 1 else {"anyOf": list(forms)}


def values_at(value: JsonValue, pointer: str) -> Iterator[JsonValue]:
    """The values at a pointer, lists on the way and at the end opened."""
    level: list[JsonValue] = [value]
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        level = [node[name] for node in _opened(level) if isinstance(node, dict) and name in node]
    yield from _opened(level)


def _opened(values: list[JsonValue]) -> Iterator[JsonValue]:
    for value in values:
        if isinstance(value, list):
            yield from _opened(value)
        else:
            yield value


def _forms(
    node: JsonValue, steps: tuple[str, ...], leaf: JsonObject, root: JsonObject, refs: frozenset[str]
) -> list[JsonObject]:
    parts = alternatives(node, root, refs)
    made: list[JsonObject] = []
    if not steps and not _only_lists(parts):
        made.append(leaf)
    for part, below in parts:
        properties = part.get("properties")
        if steps and isinstance(properties, dict) and steps[0] in properties:
            for form in _forms(properties[steps[0]], steps[1:], leaf, root, below):
                _add(made, {"type": "object", "properties": {steps[0]: form}, "required": [steps[0]]})
        members = [part["items"]] if isinstance(part.get("items"), dict) else []
        prefix = part.get("prefixItems")
        members += prefix if isinstance(prefix, list) else []
        for child in members:
            for form in _forms(child, steps, leaf, root, below):
                _add(made, {"type": "array", "contains": form})
    return made


def _add(made: list[JsonObject], form: JsonObject) -> None:
    if form not in made and len(made) < _MAX_FORMS:
        made.append(form)


def _only_lists(parts: list[tuple[JsonObject, frozenset[str]]]) -> bool:
    said = [part["type"] for part, _ in parts if "type" in part]
    return bool(said) and all(kind in ("array", ["array", "null"], ["null", "array"], "null") for kind in said)


def alternatives(node: JsonValue, root: JsonObject, refs: frozenset[str]) -> list[tuple[JsonObject, frozenset[str]]]:
    """What may apply to a value: the schema, what stands beside it, every branch of a choice. Raises `SchemaError`."""
    found: list[tuple[JsonObject, frozenset[str]]] = []
    pending: list[tuple[JsonValue, frozenset[str]]] = [(node, refs)]
    done: set[int] = set()
    while pending and len(found) < _MAX_PARTS:
        one, seen = pending.pop()
        for part, below in in_place(one, root, seen):
            if id(part) in done:
                continue
            done.add(id(part))
            found.append((part, below))
            for keyword in ("anyOf", "oneOf"):
                choice = part.get(keyword)
                pending.extend((child, below) for child in (choice if isinstance(choice, list) else ()))
            pending.extend((part[keyword], below) for keyword in ("then", "else") if keyword in part)
    return found
