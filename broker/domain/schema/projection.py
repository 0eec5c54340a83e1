"""What may stand at a pointer: the strings, and the spellings of integers, that an accepted value can hold there.

A value at a pointer is what a decision finds there: a list, at the end or on the way, stands for its members, and what is
neither object nor list on the way stands for what is in it.

1. At each place all that applies to the value is gathered: the schema, `$ref`, `allOf`.
2. A property's schema comes from `properties` and the patterns that match its name, else from `additionalProperties`.
3. A choice (`anyOf`, `oneOf`) that speaks of the place is taken branch by branch; conditions of other kinds are left out.
   Leaving one out makes the bound above larger, so it stays one.
4. `upper` holds all that may stand there. `whole` says that nothing was left out and nothing else bears on it: where an
   accepted value holds something there, any other string of `lower` can take its place. Else lower is nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.schema.closure import resolve
from broker.domain.schema.dialect import SchemaError, unescape
from broker.domain.schema.patterns import Unportable, parse_pattern
from broker.domain.schema.regular import any_text, matches, nothing
from broker.domain.schema.strings import NONE, UNKNOWN, Bounds, all_of, any_of, spelled_language

_KINDS: Final = frozenset(("null", "boolean", "integer", "number", "string", "array", "object"))
_SPELLED: Final = frozenset(("string", "integer", "number"))
_NUMBERS: Final = frozenset(("integer", "number"))  # told apart by the strings' own reading
_MAX_DEPTH: Final = 32
_MAX_WORK: Final = 600
_CHOICES: Final = ("anyOf", "oneOf")
_CONDITIONS: Final = ("anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas")
# Beside these, one value of a property can be exchanged for another that its own schema accepts.
_FREE: Final = frozenset(
    ("type", "properties", "required", "additionalProperties", "patternProperties", "items", "minProperties",
     "maxProperties", "dependentRequired", "propertyNames", "minItems", "maxItems", "uniqueItems", "$ref", "$defs",
     "definitions", "allOf", "$schema", "$id", "$anchor", "$comment", "title", "description", "default", "examples", "format",
     "deprecated", "readOnly", "writeOnly", "pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum",
     "exclusiveMaximum", "multipleOf", "contentMediaType", "contentEncoding")
)  # fmt: skip
_ABOUT_NAMES: Final = frozenset(
    ("type", "required", "minProperties", "maxProperties", "dependentRequired", "propertyNames", "title", "description")
)


@dataclass(frozen=True, slots=True)
class Projection:
    """The bounds of what may stand at a pointer. whole: rule 4."""

    bounds: Bounds
    whole: bool


_NOTHING: Final = Projection(NONE, whole=True)
_ANYTHING: Final = Projection(UNKNOWN, whole=False)
_SPELLINGS: Final = Bounds.exactly(any_text())


def project(schema: JsonObject, pointer: str, *, witness: bool = False) -> Projection:
    """What may stand at a pointer of the objects that a schema accepts; the schema in 2020-12 form.

    witness: read patterns as the validator does, to find candidates (`strings`).
    """
    steps = tuple(unescape(step) for step in pointer.split("/")[1:])
    try:
        found = _Projecting(schema, witness=witness).at([schema], steps, frozenset(("object",)), 0)
    except SchemaError:
        found = _ANYTHING
    return found if found.whole else Projection(Bounds(nothing(), found.bounds.upper), whole=False)


class _Projecting:
    """One document, and the work that is left."""

    def __init__(self, root: JsonObject, *, witness: bool) -> None:
        self._root = root
        self._witness = witness
        self._left = _MAX_WORK

    def at(self, schemas: Sequence[JsonValue], steps: tuple[str, ...], kinds: frozenset[str], depth: int) -> Projection:
        """What may stand below a value to which all the schemas apply."""
        self._left -= 1
        parts = self._gathered(schemas)
        if parts is None:
            return _NOTHING
        if self._left < 0 or depth > _MAX_DEPTH:
            return _ANYTHING
        if not parts:
            return Projection(_SPELLINGS, whole=True)
        for part in parts:
            kinds = _narrowed(kinds, part)
        ways: list[Projection] = []
        if not steps:
            if kinds & _SPELLED:
                ways.append(self._spelled(schemas))
            if "array" in kinds:
                ways.append(self._in_lists(parts, kinds, depth))
            # At the end any value that fits can be exchanged for any other.
            return Projection(any_of(way.bounds for way in ways), whole=all(way.whole for way in ways))
        chosen = _choice(parts, steps[0])
        if chosen is not None:
            branches = self._branches(parts, chosen, steps, kinds, depth)
            return Projection(any_of(branch.bounds for branch in branches), whole=False)
        if kinds & _SPELLED:
            ways.append(self._spelled(schemas))
        if "array" in kinds:
            ways.append(self._members(parts, steps, depth))
        if "object" in kinds:
            ways.append(self._property(parts, steps, depth))
        found = [way for way in ways if way.bounds.upper is not nothing()]
        return Projection(any_of(way.bounds for way in found), whole=all(way.whole for way in found) and len(found) < 2)

    def _gathered(self, schemas: Sequence[JsonValue]) -> list[JsonObject] | None:
        """All that applies to the value; None where nothing fits."""
        found: list[JsonObject] = []
        seen: set[str] = set()
        pending = list(schemas)
        while pending:
            self._left -= 1
            if self._left < 0:
                break
            node = pending.pop()
            if node is False:
                return None
            if not isinstance(node, dict):
                continue
            found.append(node)
            reference = node.get("$ref")
            if isinstance(reference, str) and reference not in seen:
                seen.add(reference)
                pending.append(resolve(self._root, reference))
            combined = node.get("allOf")
            if isinstance(combined, list):
                pending.extend(combined)
        return found

    def _spelled(self, schemas: Sequence[JsonValue]) -> Projection:
        read = [spelled_language(one, self._root, witness=self._witness) for one in schemas]
        return Projection(all_of(read) if read else _SPELLINGS, whole=True)

    def _branches(
        self, parts: Sequence[JsonObject], chosen: JsonObject, steps: tuple[str, ...], kinds: frozenset[str], depth: int
    ) -> list[Projection]:
        rest = _beside(parts, chosen)
        return [self.at([*rest, branch], steps, kinds, depth + 1) for branch in _listed(chosen)]

    def _in_lists(self, parts: Sequence[JsonObject], kinds: frozenset[str], depth: int) -> Projection:
        """What the members of lists may be, where the pointer ends at the list."""
        chosen = _choice(parts, None)
        if chosen is None:
            return self._members(parts, (), depth)
        found = [self._branch_in_lists(parts, chosen, branch, kinds, depth) for branch in _listed(chosen)]
        real = [one for one in found if one.bounds.upper is not nothing()]
        exact = len(real) < 2 or "anyOf" in chosen
        return Projection(any_of(one.bounds for one in real), whole=exact and all(one.whole for one in real))

    def _branch_in_lists(
        self, parts: Sequence[JsonObject], chosen: JsonObject, branch: JsonValue, kinds: frozenset[str], depth: int
    ) -> Projection:
        every = self._gathered([*_beside(parts, chosen), branch])
        if every is None:
            return _NOTHING
        if self._left < 0 or depth > _MAX_DEPTH:
            return _ANYTHING
        for part in every:
            kinds = _narrowed(kinds, part)
        return self._in_lists(every, kinds, depth + 1) if "array" in kinds else _NOTHING

    def _members(self, parts: Sequence[JsonObject], steps: tuple[str, ...], depth: int) -> Projection:
        whole = all(_is_free(part, None) and _may_hold_one(part) for part in parts)
        prefixes = [prefix for part in parts if isinstance(prefix := part.get("prefixItems"), list)]
        items = [part["items"] for part in parts if "items" in part]
        found = self.at(items, steps, _KINDS, depth + 1)
        if not prefixes:
            return Projection(found.bounds, whole=whole and found.whole)
        choices = [self.at([one], steps, _KINDS, depth + 1).bounds for prefix in prefixes for one in prefix]
        rest = UNKNOWN if any("items" not in part for part in parts) else found.bounds
        return Projection(any_of([rest, *choices]), whole=False)

    def _property(self, parts: Sequence[JsonObject], steps: tuple[str, ...], depth: int) -> Projection:
        whole = all(_is_free(part, steps[0]) for part in parts)
        schemas: list[JsonValue] = []
        for part in parts:
            properties = part.get("properties")
            declared = isinstance(properties, dict) and steps[0] in properties
            if isinstance(properties, dict) and declared:
                schemas.append(properties[steps[0]])
            matching, known = _by_pattern(part, steps[0])
            schemas.extend(matching)
            whole = whole and known
            if not declared and not matching and known and "additionalProperties" in part:
                schemas.append(part["additionalProperties"])
        found = self.at(schemas, steps[1:], _KINDS, depth + 1)
        return Projection(found.bounds, whole=whole and found.whole)


def _choice(parts: Sequence[JsonObject], name: str | None) -> JsonObject | None:
    """The first part with a choice that speaks of the name; of anything, where there is none."""
    for part in parts:
        for keyword in _CHOICES:
            if keyword in part and (name is None or _bears(part[keyword], name)):
                return part
    return None


def _listed(chosen: JsonObject) -> list[JsonValue]:
    branches = chosen[next(keyword for keyword in _CHOICES if keyword in chosen)]
    return branches if isinstance(branches, list) else [True]


def _narrowed(kinds: frozenset[str], part: JsonObject) -> frozenset[str]:
    """The kinds that `type`, `const` and `enum` of a part leave."""
    for values in ([part["const"]] if "const" in part else None, part.get("enum")):
        if isinstance(values, list):
            kinds &= frozenset(kind for value in values for kind in _kinds_of(value))
    said = part.get("type")
    if said is None:
        return kinds
    named = {str(kind) for kind in said} if isinstance(said, list) else {str(said)}
    return kinds & (named | _NUMBERS if named & _NUMBERS else named)


def _kinds_of(value: JsonValue) -> frozenset[str]:
    match value:
        case None:
            return frozenset(("null",))
        case bool():
            return frozenset(("boolean",))
        case int() | float():
            return _NUMBERS
        case str():
            return frozenset(("string",))
        case list():
            return frozenset(("array",))
        case _:
            return frozenset(("object",))


def _beside(parts: Sequence[JsonObject], chosen: JsonObject) -> list[JsonValue]:
    """The parts without the choice. What they refer to and combine stands among them already."""
    gone = {"$ref", "allOf"}
    taken = gone | {next(keyword for keyword in _CHOICES if keyword in chosen)}
    return [
        {keyword: value for keyword, value in part.items() if keyword not in (taken if part is chosen else gone)}
        for part in parts
    ]


def _is_free(part: JsonObject, name: str | None) -> bool:
    """Whether the keywords of an object (a list, without a name) leave the exchange of rule 4 open."""
    for keyword, value in part.items():
        if keyword in _FREE or (keyword == "unevaluatedProperties" and isinstance(value, bool)):
            continue
        if keyword not in _CONDITIONS or name is None or _bears(value, name):
            return False
    return True


def _bears(schema: JsonValue, name: str) -> bool:
    """Whether a condition may say something about the value of a property, beyond its being there."""
    pending = [schema]
    while pending:
        node = pending.pop()
        if isinstance(node, list):
            pending.extend(node)
        elif isinstance(node, dict):
            for keyword, value in node.items():
                if keyword == "properties" and isinstance(value, dict):
                    if name in value:
                        return True
                elif keyword in ("allOf", *_CONDITIONS[:-1]):
                    pending.append(value)
                elif keyword not in _ABOUT_NAMES:
                    return True
    return False


def _may_hold_one(part: JsonObject) -> bool:
    """Whether a list may have exactly one member: a scope names no more."""
    low, high = part.get("minItems", 0), part.get("maxItems", 1)
    return isinstance(low, int) and isinstance(high, int) and low <= 1 <= high


def _by_pattern(part: JsonObject, name: str) -> tuple[list[JsonValue], bool]:
    """The schemas of the patterns that match a name, and whether all patterns could be read."""
    named = part.get("patternProperties")
    found: list[JsonValue] = []
    known = True
    for pattern, child in named.items() if isinstance(named, dict) else ():
        language = parse_pattern(pattern)
        if isinstance(language, Unportable):
            known = False
        elif matches(language, name):
            found.append(child)
    return found, known
