"""Inclusion by structure: each thing that one schema demands is demanded by the other, place by place.

It knows less than a prover about a single place, and more about how places hang together: definitions that refer to
themselves are compared by induction over the value.

1. A *term* is what a value has to satisfy at one place: schemas that all apply, `allOf` and `$ref` followed.
2. A term lies within a schema when every keyword of the schema is implied by the term (`implied_*` below); a keyword that
   no rule speaks about is implied by an equal one alone.
3. Induction: while a claim about a value is being proved, the same claim may be used about what is *inside* the value. A
   JSON value has an end, so that is no circle. About the value itself it may not be used.
4. Leaving a demand of the term out makes the term larger, so it is always allowed; leaving out one of the schema's never is.
5. Not proved is not disproved. Steps are bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from broker.domain.canonical import JsonObject
from broker.domain.schema.closure import resolve
from broker.domain.schema.demands import (
    Place,
    Term,
    at_index,
    at_other_names,
    bound_is_implied,
    exclusive,
    kinds_of,
    listed_in,
    may_be,
    prefix_of,
    properties_of,
    refers,
    required_in,
    spread,
    strictly_equal,
    values_within,
)
from broker.domain.schema.dialect import SchemaError
from broker.domain.schema.member_names import Names

_MAX_STEPS: Final = 5_000
_MAX_LEVEL: Final = 32
_MAX_PARTS: Final = 64
_KIND: Final = {
    "pattern": "string", "minLength": "string", "maxLength": "string",
    "minimum": "number", "maximum": "number", "exclusiveMinimum": "number", "exclusiveMaximum": "number",
    "multipleOf": "number",
    "items": "array", "prefixItems": "array", "minItems": "array", "maxItems": "array", "uniqueItems": "array",
    "contains": "array", "minContains": "array", "maxContains": "array", "unevaluatedItems": "array",
    "properties": "object", "patternProperties": "object", "additionalProperties": "object", "propertyNames": "object",
    "required": "object", "minProperties": "object", "maxProperties": "object", "dependentRequired": "object",
    "dependentSchemas": "object", "unevaluatedProperties": "object",
}  # fmt: skip
_ANY_NAME: Final[JsonObject] = {"type": "string"}
_GROUPS: Final = (("if", "then", "else"), ("contains", "minContains", "maxContains"))

Claim: TypeAlias = "tuple[frozenset[tuple[int, int]], tuple[int, int]]"


def contained(inner: JsonObject, outer: JsonObject) -> bool:
    """Whether it is proved that all that the inner schema accepts is accepted by the outer. Both bare."""
    proof = _Proof((inner, outer))
    try:
        return proof.within(((0, inner),), (1, outer), 0)
    except (_OutOfSteps, SchemaError, RecursionError):
        return False


class _OutOfSteps(Exception):
    """The bound was met; this never leaves the module."""


class _Proof:
    """One attempt: the documents, the claims that are open or proved, and the steps that are left."""

    def __init__(self, documents: tuple[JsonObject, JsonObject]) -> None:
        self._documents = documents
        self._names = Names(documents)
        self._open: dict[Claim, int] = {}
        self._steps = _MAX_STEPS

    def within(self, term: Term, place: Place, level: int) -> bool:
        """Whether the term lies within the schema; level counts how far inside the value we are."""
        document, schema = place
        if schema is True or schema == {} or any(part is False for _, part in term):
            return True
        if not isinstance(schema, dict):
            return False
        self._steps -= 1
        if self._steps < 0:
            raise _OutOfSteps
        claim: Claim = (frozenset((number, id(part)) for number, part in term), (document, id(schema)))
        made_at = self._open.get(claim)
        if made_at is not None:
            return made_at < level
        if level > _MAX_LEVEL:
            return False
        self._open[claim] = level
        try:
            parts = self._parts(term)
            return all(self._demand_is_met(parts, demand, level) for demand in self._parts((place,))) or self._by_cases(
                parts, place, level
            )
        finally:
            del self._open[claim]

    def _parts(self, term: Term) -> Term:
        """All schemas that apply to the same value, `allOf` and `$ref` followed."""
        found: list[Place] = []
        seen: set[tuple[int, int]] = set()
        pending = list(term)
        while pending:
            number, node = pending.pop()
            if not isinstance(node, dict):
                found.append((number, node))
                continue
            if (number, id(node)) in seen:
                continue
            seen.add((number, id(node)))
            found.append((number, node))
            if len(found) > _MAX_PARTS:
                raise _OutOfSteps
            combined = node.get("allOf")
            if isinstance(combined, list):
                pending.extend((number, child) for child in combined)
            reference = node.get("$ref")
            if isinstance(reference, str):
                pending.append((number, resolve(self._documents[number], reference)))
        return tuple(found)

    def _by_cases(self, parts: Term, place: Place, level: int) -> bool:
        """A term with a choice lies within the schema when each of its branches does."""
        for number, part in parts:
            if not isinstance(part, dict):
                continue
            for keyword in ("anyOf", "oneOf"):
                branches = part.get(keyword)
                if (
                    isinstance(branches, list)
                    and branches
                    and not any(branch is known for branch in branches for _, known in parts)
                ):
                    return all(self.within((*parts, (number, branch)), place, level) for branch in branches)
        return False

    def _demand_is_met(self, parts: Term, demand: Place, level: int) -> bool:
        number, schema = demand
        if any(part is False for _, part in parts) or schema is True:
            return True
        if not isinstance(schema, dict):
            return False
        if any(strictly_equal(part, schema) and (other == number or not refers(schema)) for other, part in parts):
            return True
        kinds = kinds_of(parts)
        done: set[str] = set()
        for keyword in schema:
            kind = _KIND.get(keyword)
            if keyword in done or keyword in ("$defs", "allOf", "$ref") or (kind and not may_be(kinds, kind)):
                continue
            group = next((names for names in _GROUPS if keyword in names), (keyword,))
            done.update(group)
            if self._equal_beside(parts, number, schema, group):
                continue
            if not self._implied(parts, number, schema, keyword, level):
                return False
        return True

    def _equal_beside(self, parts: Term, number: int, schema: JsonObject, group: Sequence[str]) -> bool:
        """Whether a part says the same words, where the words hold no reference and look at nothing beside them."""
        if group[0].startswith("unevaluated") or group[0] in ("additionalProperties", "items"):
            return False
        wanted: JsonObject = {name: schema[name] for name in group if name in schema}
        for other, part in parts:
            said: JsonObject = {name: part[name] for name in group if name in part} if isinstance(part, dict) else {}
            if strictly_equal(wanted, said) and (other == number or not refers(wanted)):
                return True
        return False

    def _implied(self, parts: Term, number: int, schema: JsonObject, keyword: str, level: int) -> bool:
        value = schema[keyword]
        match keyword:
            case "type":
                return kinds_of(parts) <= spread(value)
            case "const" | "enum":
                return values_within(parts, [value] if keyword == "const" else value)
            case "required":
                return isinstance(value, list) and set(map(str, value)) <= required_in(parts)
            case "properties":
                return isinstance(value, dict) and all(
                    self.within(self._names.at(parts, name), (number, child), level + 1)
                    for name, child in value.items()
                )
            case "additionalProperties" | "unevaluatedProperties":
                return self._others_are_within(parts, number, schema, keyword, level)
            case "patternProperties":
                return isinstance(value, dict) and all(
                    self._matching_names_are_within(parts, name, (number, child), level)
                    for name, child in value.items()
                )
            case "items":
                return self._items_are_within(parts, number, schema, level)
            case "prefixItems":
                return isinstance(value, list) and all(
                    self.within(at_index(parts, index), (number, child), level + 1) for index, child in enumerate(value)
                )
            case "anyOf" | "oneOf":
                if keyword == "oneOf" and not exclusive(listed_in(value)):
                    return False
                return self._a_branch_is_met(parts, [(number, branch) for branch in listed_in(value)], level)
            case "not":
                return any(
                    isinstance(part, dict)
                    and "not" in part
                    and self.within(((number, value),), (other, part["not"]), level)
                    for other, part in parts
                )
            case "propertyNames":
                named = tuple(
                    (other, part["propertyNames"])
                    for other, part in parts
                    if isinstance(part, dict) and "propertyNames" in part
                )
                return bool(named) and self.within((*named, (0, _ANY_NAME)), (number, value), level + 1)
            case "dependentRequired":
                wanted = (
                    {str(name) for names in value.values() for name in listed_in(names)}
                    if isinstance(value, dict)
                    else {""}
                )
                return wanted <= required_in(parts)
        return bound_is_implied(parts, keyword, value)

    def _a_branch_is_met(self, parts: Term, wanted: Sequence[Place], level: int) -> bool:
        """Each branch of a choice in the term leads to one, or one branch holds for all values."""
        for number, part in parts:
            for keyword in ("anyOf", "oneOf"):
                branches = listed_in(part.get(keyword)) if isinstance(part, dict) else []
                if branches and all(
                    any(self.within(((number, branch),), other, level) for other in _from(wanted, index))
                    for index, branch in enumerate(branches)
                ):
                    return True
        return any(self.within(parts, branch, level) for branch in wanted)

    def _others_are_within(self, parts: Term, number: int, schema: JsonObject, keyword: str, level: int) -> bool:
        """Members whose names the schema does not list itself; that others of its keywords list more of them is left out."""
        place = (number, schema[keyword])
        if keyword == "additionalProperties":
            listed = set(properties_of(schema))
        else:
            listed = self._surely_listed(number, schema)
        mentioned = {name for _, part in parts for name in properties_of(part)}
        bound = self._names.bound(parts)
        names = (mentioned if bound is None else bound) - listed
        if not all(self.within(self._names.at(parts, name), place, level + 1) for name in names):
            return False
        return bound is not None or self.within(at_other_names(parts), place, level + 1)

    def _matching_names_are_within(self, parts: Term, pattern: str, place: Place, level: int) -> bool:
        same: list[Place] = []
        for number, part in parts:
            named = part.get("patternProperties") if isinstance(part, dict) else None
            if isinstance(named, dict) and pattern in named:
                same.append((number, named[pattern]))
        if same and self.within(tuple(same), place, level + 1):
            return True
        bound = self._names.bound(parts)
        return bound is not None and all(
            self.within(self._names.at(parts, name), place, level + 1) for name in sorted(bound)
        )

    def _items_are_within(self, parts: Term, number: int, schema: JsonObject, level: int) -> bool:
        after = len(prefix_of(schema))
        longest = max((len(prefix_of(part)) for _, part in parts), default=0)
        place = (number, schema["items"])
        rest = tuple((other, part["items"]) for other, part in parts if isinstance(part, dict) and "items" in part)
        return all(
            self.within(at_index(parts, index), place, level + 1) for index in range(after, longest)
        ) and self.within(rest, place, level + 1)

    def _surely_listed(self, number: int, schema: JsonObject) -> set[str]:
        """The names that count as evaluated whenever the schema accepts."""
        listed: set[str] = set()
        for _, part in self._parts(((number, schema),)):
            listed.update(properties_of(part))
        return listed


def _from(places: Sequence[Place], index: int) -> Iterator[Place]:
    """All of them, the one at the index first: a long choice seldom changes its order."""
    yield from places[index : index + 1]
    yield from places[:index]
    yield from places[index + 1 :]
