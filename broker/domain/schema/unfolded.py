"""One place of a schema, unfolded for comparing: its keywords, each with its pointer, however they are spelled.

| spelled                                           | unfolded                                                          |
|---------------------------------------------------|-------------------------------------------------------------------|
| `$ref`                                            | what it leads to, beside what stands here; words here win            |
| `allOf` of one, without names or items            | the one, likewise; with them, it is closed in another way             |
| `anyOf` or `oneOf` of null and one such           | the other, whose `type` takes null too                              |
| `const`                                           | `enum` of one value, of none where `enum` does not hold it            |
| a bound that bounds nothing (`minLength: 0`)      | nothing                                                             |
| draft-07 and older                                | 2020-12, as `dialect` says; what it ignores is words                 |

Nothing is refused: what cannot be unfolded stays as it stands.
"""

from __future__ import annotations

import json
from typing import Final, TypeAlias
from urllib.parse import unquote

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.schema.bare import every
from broker.domain.schema.closure import resolve
from broker.domain.schema.dialect import SchemaError, dialect_of, escape, ignored_in

Unfolded: TypeAlias = dict[str, tuple[JsonValue, str]]

WORDS: Final = frozenset(
    (
        "title", "description", "default", "examples", "format", "deprecated", "readOnly", "writeOnly", "$comment",
        "contentEncoding", "contentMediaType", "contentSchema", "$id", "id", "$anchor", "$dynamicAnchor", "$vocabulary",
    )
)  # fmt: skip
_HIDDEN: Final = frozenset(("$defs", "definitions", "$schema"))
_IGNORED: Final = " (which the dialect ignores)"
_MAX_STEPS: Final = 64
# of these, none says anything of null
_OF_A_TYPE: Final = frozenset(
    (
        "type", "pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
        "multipleOf", "minItems", "maxItems", "uniqueItems", "required", "minProperties", "maxProperties",
    )
)  # fmt: skip
# The closed view treats these in one way where they stand, in another inside `allOf` or `anyOf`.
_CLOSED: Final = frozenset(
    (
        "properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames", "items",
        "prefixItems", "unevaluatedItems", "contains", "$ref", "anyOf", "oneOf", "allOf", "if", "dependentSchemas",
    )
)  # fmt: skip
_ANYTHING: Final[JsonObject] = {}
_NULL: Final[JsonObject] = {"type": "null"}
# Keywords that mean something together: they are not put beside each other from two places.
_TOGETHER: Final = (
    frozenset(("properties", "patternProperties", "additionalProperties")),
    frozenset(("prefixItems", "items")),
    frozenset(("contains", "minContains", "maxContains")),
    frozenset(("if", "then", "else")),
)


class Document:
    """A schema with the places in it."""

    def __init__(self, root: JsonObject) -> None:
        self.root = root
        self._steps = 0
        try:
            self._dialect = dialect_of(root)
        except SchemaError:
            self._dialect = 2020

    def unfold(self, node: JsonValue, pointer: str) -> Unfolded:
        """The keywords of a subschema that stands at a pointer."""
        self._steps = 0
        return self._unfold(node, pointer)

    def _unfold(self, node: JsonValue, pointer: str) -> Unfolded:
        if node is True:
            return {}
        if node is False:
            return {"not": (_ANYTHING, pointer)}
        if not isinstance(node, dict):
            return {"": (node, pointer)}
        found: Unfolded = {
            keyword: (value, f"{pointer}/{escape(keyword)}")
            for keyword, value in node.items()
            if keyword not in _HIDDEN
        }
        if self._dialect < 2019:
            found = _modern(found, self._dialect)
        elif self._dialect == 2019:
            _modern_items(found)
        self._steps += 1
        if self._steps < _MAX_STEPS:
            self._follow(found)
        if "const" in found:
            value, place = found.pop("const")
            listed = found["enum"][0] if "enum" in found else [value]
            found["enum"] = ([value] if _holds(listed, value) else [], place)
        for keyword in ("minLength", "minItems", "minProperties"):
            if keyword in found and found[keyword][0] == 0:
                del found[keyword]
        return found

    def _follow(self, found: Unfolded) -> None:
        target = self.target(found["$ref"][0]) if "$ref" in found else None
        if target is not None:
            self._replace(found, "$ref", self._unfold(*target))
        combined = found.get("allOf")
        if combined is not None and isinstance(combined[0], list) and len(combined[0]) == 1:
            branch = self._unfold(combined[0][0], f"{combined[1]}/0")
            if not branch.keys() & _CLOSED:
                self._replace(found, "allOf", branch)
        for keyword in ("anyOf", "oneOf"):
            if keyword in found:
                self._take_null(found, keyword)

    def target(self, reference: JsonValue) -> tuple[JsonValue, str] | None:
        """What a reference leads to, and where that stands; None where it leads nowhere in the document."""
        if not isinstance(reference, str):
            return None
        try:
            found = resolve(self.root, reference)
        except SchemaError:
            return None
        fragment = unquote(reference[1:])
        if not fragment or fragment.startswith("/"):
            return found, fragment
        return next(((node, pointer) for pointer, node in every(self.root) if node is found), None)

    def _take_null(self, found: Unfolded, keyword: str) -> None:
        options, place = found[keyword]
        if not isinstance(options, list) or len(options) != 2 or options.count(_NULL) != 1 or "type" in found:
            return
        index = 1 - options.index(_NULL)
        branch = self._unfold(options[index], f"{place}/{index}")
        kind = branch.get("type", (None, ""))[0]
        if not isinstance(kind, str) or kind == "null" or not branch.keys() <= _OF_A_TYPE | WORDS | {"enum"}:
            return
        if "enum" in branch:
            values = branch["enum"][0]
            if not isinstance(values, list):
                return
            branch["enum"] = ([*values, None], branch["enum"][1])
        branch["type"] = ([kind, "null"], branch["type"][1])
        self._replace(found, keyword, branch)

    def _replace(self, found: Unfolded, keyword: str, branch: Unfolded) -> None:
        """What a keyword leads to takes its place, where it can."""
        entry = found.pop(keyword)
        if not _merged(found, branch):
            found[keyword] = entry


def kinds(unfolded: Unfolded) -> frozenset[str] | None:
    """The types that a place names; None where it names none, or none that are known."""
    value = unfolded.get("type", (None, ""))[0]
    names = value if isinstance(value, list) else [value]
    return frozenset(str(name) for name in names) if value is not None else None


def _holds(values: JsonValue, value: JsonValue) -> bool:
    """Whether a value is among others, as far as can be told without a validator."""
    spelt = json.dumps(value, sort_keys=True)
    return isinstance(values, list) and any(
        json.dumps(item, sort_keys=True) == spelt
        or (item == value and not isinstance(item, bool | list | dict) and not isinstance(value, bool))
        for item in values
    )


def _merged(found: Unfolded, more: Unfolded) -> bool:
    """Takes `more` in where it says nothing of its own about the same keyword, but for words; else changes nothing."""
    if any(keyword in found and keyword not in WORDS for keyword in more):
        return False
    if any(group & found.keys() and group & more.keys() for group in _TOGETHER):
        return False
    for keyword, entry in more.items():
        found.setdefault(keyword, entry)
    return True


def _modern(found: Unfolded, dialect: int) -> Unfolded:
    if "$ref" in found:
        beside = found.keys() - WORDS - {"$ref"}
        return {f"{keyword}{_IGNORED}" if keyword in beside else keyword: entry for keyword, entry in found.items()}
    bounds: Unfolded = {}
    if dialect == 4:
        for flag, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if flag in found:
                value, place = found.pop(flag)
                if value is True and bound in found:
                    bounds[flag] = (found.pop(bound)[0], place)
    for keyword in ignored_in(dialect) & found.keys():
        found[f"{keyword}{_IGNORED}"] = found.pop(keyword)
    found.update(bounds)
    _modern_items(found)
    dependencies, place = found.pop("dependencies", (None, ""))
    if isinstance(dependencies, dict):
        names: JsonObject = {name: value for name, value in dependencies.items() if isinstance(value, list)}
        schemas: JsonObject = {name: value for name, value in dependencies.items() if not isinstance(value, list)}
        if names:
            found["dependentRequired"] = (names, place)
        if schemas:
            found["dependentSchemas"] = (schemas, place)
    return found


def _modern_items(found: Unfolded) -> None:
    additional = found.pop("additionalItems", None)
    if "items" in found and isinstance(found["items"][0], list):
        found["prefixItems"] = found.pop("items")
        if additional is not None:
            found["items"] = additional
