"""The names that members of a value may have, and what applies to the member of a name, as far as that is certain.

1. `additionalProperties: false` bounds the names where no pattern lists more.
2. `unevaluatedProperties: false` bounds them to what may count as evaluated beside it, in whichever branch.
3. Leaving out something that applies is allowed (`structure`, 4): patterns are not followed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.schema.closure import resolve
from broker.domain.schema.demands import Place, Term, properties_of

_IN_PLACE: Final = ("allOf", "anyOf", "oneOf")
_CONDITIONAL: Final = ("if", "then", "else", "not")


class Names:
    """Names in the documents of one proof."""

    def __init__(self, documents: tuple[JsonObject, JsonObject]) -> None:
        self._documents = documents

    def at(self, parts: Term, name: str) -> Term:
        """What applies to the member of this name."""
        found: list[Place] = []
        for number, part in parts:
            if not isinstance(part, dict):
                continue
            properties = properties_of(part)
            if name in properties:
                found.append((number, properties[name]))
            elif "additionalProperties" in part and not part.get("patternProperties"):
                found.append((number, part["additionalProperties"]))
            if part.get("unevaluatedProperties") is False:
                known = self._names(number, part)
                if known is not None and name not in known:
                    found.append((number, False))
        return tuple(found)

    def bound(self, parts: Term) -> set[str] | None:
        """The only names that a value may have; None where other names are possible."""
        bound: set[str] | None = None
        for number, part in parts:
            names = None
            if (
                isinstance(part, dict)
                and part.get("additionalProperties") is False
                and not part.get("patternProperties")
            ):
                names = set(properties_of(part))
            elif isinstance(part, dict) and part.get("unevaluatedProperties") is False:
                names = self._names(number, part)
            if names is not None:
                bound = names if bound is None else bound & names
        return bound

    def _names(self, number: int, schema: JsonObject) -> set[str] | None:
        """Every name that may count as evaluated beside `unevaluatedProperties`; None where that has no end."""
        found: set[str] = set()
        seen: set[int] = set()
        pending: list[JsonValue] = [{name: value for name, value in schema.items() if name != "unevaluatedProperties"}]
        while pending:
            node = pending.pop()
            if not isinstance(node, dict) or id(node) in seen:
                continue
            seen.add(id(node))
            if any(name in node for name in ("patternProperties", "additionalProperties", "unevaluatedProperties")):
                return None
            found.update(properties_of(node))
            pending.extend(self._beside(number, node))
        return found

    def _beside(self, number: int, node: JsonObject) -> Iterator[JsonValue]:
        for keyword in _IN_PLACE:
            combined = node.get(keyword)
            if isinstance(combined, list):
                yield from combined
        for keyword in _CONDITIONAL:
            if keyword in node:
                yield node[keyword]
        dependent = node.get("dependentSchemas")
        if isinstance(dependent, dict):
            yield from dependent.values()
        if isinstance(node.get("$ref"), str):
            yield resolve(self._documents[number], str(node["$ref"]))
