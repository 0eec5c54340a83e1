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
from broker.domain.schema.dialect import SchemaError, unescape

NOTHING: Final[JsonObject] = {"not": {}}
MAX_PARTS: Final = 128
_MAX_FORMS: Final = 16


def holding(contract: JsonObject, pointer: str, leaf: JsonObject) -> JsonObject:
    """Objects in which a value at the pointer fits `leaf`. Raises `SchemaError` where a reference leads nowhere."""
    steps = tuple(unescape(step) for step in pointer.split("/")[1:])
    forms = _forms(contract, steps, leaf, contract, frozenset())
    if not forms:
        return NOTHING
    return forms[0] if len(forms) == 1 else {"anyOf": list(forms)}


def put_at(value: JsonValue, pointer: str, leaf: JsonValue, contract: JsonObject) -> JsonObject | None:
    """An object with `leaf` at the pointer, in lists of one member where the contract has lists; None where there is no way.

    A suggestion: whether the contract accepts it is the validator's to say.
    """
    steps = [unescape(step) for step in pointer.split("/")[1:]]
    try:
        made = _with_leaf(value, steps, leaf, contract, contract, frozenset())
    except SchemaError:
        return None
    return made if isinstance(made, dict) else None


def _with_leaf(
    value: JsonValue, steps: list[str], leaf: JsonValue, node: JsonValue, root: JsonObject, refs: frozenset[str]
) -> JsonValue:
    parts = alternatives(node, root, refs)
    if _only_lists(parts):
        for part, below in parts:
            for child in members_of(part)[:1]:
                first = value[0] if isinstance(value, list) and value else None
                return [_with_leaf(first, steps, leaf, child, root, below)]
        return None
    if not steps:
        return leaf
    for part, below in parts:
        properties = part.get("properties")
        if isinstance(properties, dict) and steps[0] in properties:
            held = dict(value) if isinstance(value, dict) else {}
            held[steps[0]] = _with_leaf(held.get(steps[0]), steps[1:], leaf, properties[steps[0]], root, below)
            return held
    return None


def values_at(value: JsonValue, pointer: str) -> Iterator[JsonValue]:
    """The values at a pointer, lists on the way and at the end opened."""
    level: list[JsonValue] = [value]
    for step in pointer.split("/")[1:]:
        name = unescape(step)
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
        for child in members_of(part):
            for form in _forms(child, steps, leaf, root, below):
                _add(made, {"type": "array", "contains": form})
    return made


def members_of(part: JsonObject) -> list[JsonValue]:
    """The schemas of the members that a schema speaks of; a list of which nothing is said may hold anything."""
    kind = part.get("type")
    says_list = kind == "array" or (isinstance(kind, list) and "array" in kind)
    items = part.get("items", True if says_list else None)
    prefix = part.get("prefixItems")
    return [
        *(prefix if isinstance(prefix, list) else ()),
        *([items] if isinstance(items, dict) or items is True else ()),
    ]


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
    while pending and len(found) < MAX_PARTS:
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
            dependent = part.get("dependentSchemas")
            pending.extend((child, below) for child in (dependent.values() if isinstance(dependent, dict) else ()))
    return found
