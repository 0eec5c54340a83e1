"""What a schema may cost a validator: how many subschemas it unfolds into.

A validator follows a `$ref` each time it meets one, so definitions that each name the next one twice unfold into
2^depth checks of one value: two kilobytes that keep a thread for hours. Bounding the bytes of a schema does not help.

1. A schema costs one, and what is directly inside it.
2. A `$ref` costs what its target costs, each time. A recursive one costs one: it is paid for by the depth of the value.
3. `unevaluatedProperties` and `unevaluatedItems` look at everything beside them a second time.
4. Over `MAX_COST` the schema is refused. The most that a real contract was seen to cost is a hundredth of it.
"""

from __future__ import annotations

from typing import Final

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.schema.closure import resolve
from broker.domain.schema.dialect import SchemaError, subschemas

MAX_COST: Final = 200_000
_MAX_NESTING: Final = 128


def evaluation_cost(schema: JsonObject) -> int:
    """How many subschemas it unfolds into, at most `MAX_COST + 1`. Raises `SchemaError` where it is nested too deep."""
    return _Costing(schema).of(schema, 0)


class _Costing:
    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._known: dict[int, int] = {}
        self._open: set[int] = set()

    def of(self, node: JsonValue, depth: int) -> int:
        if not isinstance(node, dict):
            return 1
        if depth > _MAX_NESTING:
            raise SchemaError(f"the schema is nested deeper than {_MAX_NESTING}")
        # By identity: the document outlives the walk, and a target reached twice is the same object.
        known = self._known.get(id(node))
        if known is not None:
            return known
        if id(node) in self._open:
            return 1
        self._open.add(id(node))
        cost = 1 + self._below(node, depth + 1)
        if "unevaluatedProperties" in node or "unevaluatedItems" in node:
            cost *= 2
        self._open.discard(id(node))
        cost = self._known[id(node)] = min(cost, MAX_COST + 1)
        return cost

    def _below(self, node: JsonObject, depth: int) -> int:
        cost = 0
        for pointer, child in subschemas(node):
            if not pointer.startswith(("/$defs/", "/definitions/")):
                cost += self.of(child, depth)
        target = self._target(node.get("$ref"))
        return cost if target is None else cost + self.of(target, depth)

    def _target(self, reference: JsonValue) -> JsonValue:
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        try:
            return resolve(self._root, reference)
        except SchemaError:
            return None  # one that leads nowhere is the validator's to report
