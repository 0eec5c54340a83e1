"""Schemas by chance, and successors of a schema, for tests of what is claimed about schemas.

All keywords of 2020-12 that a contract may use are made, references and recursion among them. Names, numbers and texts come
from small stocks, so that two schemas meet often enough for a claim about them to say something.

A reference in place (not below a property or an item) leads to a later definition only, so no schema applies to itself.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

NAMES = ("a", "b", "c", "mode", "x-1")
ODD_NAMES = ("$ref", "properties", "enum", "const", "", "~1", "a/b", "not")
PATTERNS = (  # the last two are not portable, so little may be claimed about them
    "^[ab]+$", "^x-[0-9]$", "^(a|bb|mode)$", "^[a-z]{1,3}$", "^[^a]*$", "^$", "^a[a-z]*$", "^[a-c]?[b-d]{0,2}$", "^(ab|ba)*$",
    "^a", "b",
)  # fmt: skip
LITERALS = (
    None,
    True,
    False,
    0,
    1,
    2,
    1.0,
    1.5,
    -1,
    "",
    "a",
    "bb",
    "abc",
    [],
    [1],
    ["a"],
    [1, 1],
    {},
    {"a": 1},
    {"b": "a"},
)
ANNOTATIONS = ({"format": "email"}, {"contentEncoding": "base64"}, {"contentMediaType": "application/json"})
LARGE_NUMBERS = (
    2**53 - 1,
    2**53,
    2**53 + 1,
    2**63,
    2**64,
    10**30,
    1e300,
    -1e308,
    1e-300,
    5e-324,
    -0.0,
    0.1,
    0.30000000000000004,
)
KINDS = ("object", "object", "object", "string", "string", "integer", "number", "array", "any", "any")
PYTHON_TYPES = {"object": dict, "string": str, "integer": int, "number": int | float, "array": list}
DIALECTS = (
    ("http://json-schema.org/draft-07/schema#", 7),
    ("http://json-schema.org/draft-07/schema#", 7),
    ("http://json-schema.org/draft-06/schema#", 6),
    ("http://json-schema.org/draft-04/schema#", 4),
    ("https://json-schema.org/draft/2019-09/schema", 2019),
)


class SchemaMaker:
    """Makes documents, and successors of documents, from one source of chance."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._definitions = 0
        self._names = NAMES

    def document(self) -> dict[str, Any]:
        """A whole schema, most often of an object, with definitions in half of the cases."""
        self._definitions = self._chance.choice((0, 0, 1, 2, 3))
        self._names = NAMES if self._chance.random() < 0.9 else ODD_NAMES
        made = self._node(0, 0, inside=False, wanted="object")
        if not isinstance(made, dict):
            made = {"properties": {"a": made}}
        if self._chance.random() < 0.7:
            made["type"] = "object"
            if "properties" not in made:
                made["properties"] = self._named(0)
        if self._definitions:
            made["$defs"] = {f"d{n}": self._node(1, n + 1, inside=False) for n in range(self._definitions)}
        if self._chance.random() < 0.15:
            self._ask_about_itself(made)
        self._refer_to_properties(made)
        return made

    def older(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The schema as an older dialect might have it: siblings of `$ref` and newer keywords stay, and are ignored there."""
        declared, names = self._chance.choice(DIALECTS)
        made = _older(copy.deepcopy(schema), names, self._chance)
        return {"$schema": declared, **made}

    def successor(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The schema after one to three edits such as people make; some of them change nothing."""
        made = copy.deepcopy(schema)
        self._definitions = len(made.get("$defs", {}))
        for _ in range(self._chance.choice((1, 1, 1, 2, 3))):
            nodes = [node for node in _nodes(made) if isinstance(node, dict)]
            self._edit(nodes[min(self._chance.randrange(len(nodes)), self._chance.randrange(len(nodes)))])
        return made

    def condition(self, schema: dict[str, Any]) -> dict[str, Any]:
        """What a scope may ask of the arguments that a schema describes."""
        names = list(schema.get("properties", {})) or list(self._names)
        name = self._chance.choice(names)
        self._definitions = 0
        match self._chance.randrange(5):
            case 0:
                return {"required": [name]}
            case 1:
                return {"properties": {name: {"const": self._literal()}}, "required": [name]}
            case 2:
                return {"not": {"required": [name]}}
            case 3:
                return {"properties": {name: self._node(2, 0, inside=False)}, "required": [name]}
        made = self._node(1, 0, inside=False)
        return made if isinstance(made, dict) else {"required": [name]}

    # Nodes.

    def _node(self, depth: int, least: int, *, inside: bool = True, wanted: str = "") -> Any:
        """A schema; `least` is the first definition that it may refer to, `inside` whether a step leads to it from the root."""
        chance = self._chance
        if chance.random() < 0.06:
            return chance.choice((True, False, {}))
        made: dict[str, Any] = {}
        kind = wanted if wanted and chance.random() < 0.8 else chance.choice(KINDS)
        if kind != "any" and chance.random() < 0.8:
            made["type"] = [kind, "null"] if chance.random() < 0.1 else kind
        elif chance.random() < 0.15:
            made["type"] = chance.sample(("null", "boolean", "string", "integer", "object", "array"), 2)
        if depth < 4 and chance.random() < 0.35:
            self._combine(made, depth, least, kind=kind, inside=inside)
        if kind == "any" or chance.random() < 0.12:
            self._choose(made, kind)
        makers: dict[str, Callable[[dict[str, Any], int], None]] = {
            "object": self._object,
            "string": self._string,
            "integer": self._number,
            "number": self._number,
            "array": self._array,
        }
        if kind in makers:
            makers[kind](made, depth)
        return made

    def _ask_about_itself(self, made: dict[str, Any]) -> None:
        """Let a combinator ask whether one property fits the whole, which is where closing may change a meaning."""
        name = self._chance.choice(self._names)
        made.setdefault("properties", {})[name] = {"additionalProperties": {}}
        asked = {"properties": {name: {"$ref": "#"}}, "required": [name]}
        match self._chance.choice(("not", "if", "oneOf")):
            case "not":
                made["not"] = asked
            case "if":
                made.update({"if": asked, "then": {"maxProperties": 1}, "else": {"required": [name]}})
            case _:
                made["oneOf"] = [asked, {"properties": {name: {"maxProperties": 1}}}]

    def _refer_to_properties(self, made: dict[str, Any]) -> None:
        """Let some references to the root lead to one of its properties instead, one that refers to nothing itself."""
        plain = [name for name, child in made.get("properties", {}).items() if '"$ref"' not in json.dumps(child)]
        for node in _nodes(made):
            if plain and isinstance(node, dict) and node.get("$ref") == "#" and self._chance.random() < 0.5:
                name = self._chance.choice(plain)
                node["$ref"] = f"#/properties/{name.replace('~', '~0').replace('/', '~1')}"

    def _choose(self, made: dict[str, Any], kind: str) -> None:
        stock = [value for value in LITERALS if kind == "any" or isinstance(value, PYTHON_TYPES[kind])]
        if self._chance.random() < 0.5:
            made["const"] = copy.deepcopy(self._chance.choice(stock))
        else:
            chosen = self._chance.sample(stock, min(len(stock), self._chance.choice((1, 2, 2, 3))))
            made["enum"] = copy.deepcopy([value for n, value in enumerate(chosen) if value not in chosen[:n]])

    def _string(self, made: dict[str, Any], depth: int) -> None:
        if self._chance.random() < 0.5:
            made["pattern"] = self._chance.choice(PATTERNS)
        if self._chance.random() < 0.3:
            made["minLength"] = self._chance.randrange(3)
        if self._chance.random() < 0.4:
            made["maxLength"] = self._chance.randrange(1, 5)
        if self._chance.random() < 0.08:
            made.update(self._chance.choice(ANNOTATIONS))

    def _number(self, made: dict[str, Any], depth: int) -> None:
        stock = LARGE_NUMBERS if self._chance.random() < 0.06 else (-1, 0, 1, 2, 3, 1.5, 2.0)
        for keyword in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
            if self._chance.random() < 0.3:
                made[keyword] = self._chance.choice(stock)
        if self._chance.random() < 0.2:
            made["multipleOf"] = self._chance.choice((1, 2, 3, 0.5, 0.1, 0.01))

    def _array(self, made: dict[str, Any], depth: int) -> None:
        chance = self._chance
        if depth < 4 and chance.random() < 0.7:
            made["items"] = self._node(depth + 1, 0)
        if depth < 4 and chance.random() < 0.25:
            made["prefixItems"] = [self._node(depth + 1, 0) for _ in range(chance.choice((1, 2)))]
        if depth < 4 and chance.random() < 0.25:
            made["contains"] = self._node(depth + 1, 0)
            if chance.random() < 0.4:
                made[chance.choice(("minContains", "maxContains"))] = chance.randrange(3)
        for keyword in ("minItems", "maxItems"):
            if chance.random() < 0.25:
                made[keyword] = chance.randrange(4)
        if chance.random() < 0.2:
            made["uniqueItems"] = True
        if depth < 4 and chance.random() < 0.12:
            made["unevaluatedItems"] = self._closing(depth)

    def _object(self, made: dict[str, Any], depth: int) -> None:
        chance = self._chance
        if depth < 4 and chance.random() < 0.8:
            made["properties"] = self._named(depth)
        if chance.random() < 0.5:
            made["required"] = chance.sample(self._names, chance.choice((1, 1, 2)))
        if depth < 4 and chance.random() < 0.4:
            made["additionalProperties"] = self._closing(depth)
        if depth < 4 and chance.random() < 0.15:
            made["unevaluatedProperties"] = self._closing(depth)
        if depth < 4 and chance.random() < 0.15:
            made["patternProperties"] = {chance.choice(PATTERNS): self._node(depth + 1, 0)}
        if depth < 4 and chance.random() < 0.1:
            made["propertyNames"] = chance.choice(({"maxLength": 1}, {"enum": ["a", "b"]}, {"pattern": "^[a-c]"}))
        for keyword in ("minProperties", "maxProperties"):
            if chance.random() < 0.1:
                made[keyword] = chance.randrange(4)
        if chance.random() < 0.1:
            keyword = chance.choice(("dependentRequired", "dependentRequired", "dependencies"))
            made[keyword] = {chance.choice(self._names): [chance.choice(self._names)]}
        if depth < 4 and chance.random() < 0.08:
            made["dependentSchemas"] = {
                chance.choice(self._names): self._node(depth + 1, self._definitions, inside=False)
            }

    def _named(self, depth: int) -> dict[str, Any]:
        return {
            name: self._node(depth + 1, 0)
            for name in self._chance.sample(self._names, self._chance.choice((1, 2, 2, 3)))
        }

    def _closing(self, depth: int) -> Any:
        return False if self._chance.random() < 0.6 else self._node(depth + 1, 0)

    def _combine(self, made: dict[str, Any], depth: int, least: int, *, kind: str, inside: bool) -> None:
        chance = self._chance

        def here() -> Any:
            return self._node(depth + 1, least, inside=inside, wanted=kind)  # of one type, so that they meet

        match chance.randrange(6):
            case 0 if least < self._definitions:
                made["$ref"] = f"#/$defs/d{chance.randrange(least, self._definitions)}"
            case 0 if inside:
                made["$ref"] = "#"  # below a property or an item, so nothing applies to itself
            case 1:
                made["not"] = here()
            case 2:
                made["if"] = here()
                for keyword in ("then", "else"):
                    if chance.random() < 0.7:
                        made[keyword] = here()
            case _:
                keyword = chance.choice(("allOf", "anyOf", "anyOf", "oneOf", "oneOf"))
                made[keyword] = [here() for _ in range(chance.choice((1, 2, 2, 3)))]

    def _literal(self) -> Any:
        return copy.deepcopy(self._chance.choice(LITERALS))

    # Edits.

    def _edit(self, node: dict[str, Any]) -> None:
        chance = self._chance
        keywords = [keyword for keyword in node if keyword != "$defs"]
        match chance.randrange(9):
            case 0 | 1 if keywords:
                del node[chance.choice(keywords)]
            case 2 | 3:
                self._move_bounds(node)
            case 4:
                added = self._node(2, self._definitions, inside=False)
                if isinstance(added, dict):
                    node.update(added)
            case 5 if isinstance(node.get("properties"), dict):
                node["properties"] = {**node["properties"], **self._named(2)}
            case 6 if isinstance(node.get("enum"), list) and len(node["enum"]) > 1:
                node["enum"] = node["enum"][1:]
            case 7:
                inner = {keyword: node.pop(keyword) for keyword in keywords}
                node["allOf"] = [inner]  # means the same, except beside what is unevaluated
            case 8:
                node["additionalProperties"] = not node.get("additionalProperties", True)

    def _move_bounds(self, node: dict[str, Any]) -> None:
        for keyword, value in list(node.items()):
            if isinstance(value, int) and not isinstance(value, bool) and keyword[:3] in ("min", "max", "exc"):
                low = 0 if keyword.endswith(("Length", "Items", "Properties", "Contains")) else -2
                node[keyword] = max(low, value + self._chance.choice((-1, 1)))


def _nodes(node: Any) -> Iterator[Any]:
    """Every schema in a schema, itself included."""
    yield node
    if not isinstance(node, dict):
        return
    for keyword, child in node.items():
        if keyword in ("properties", "patternProperties", "$defs", "dependentSchemas") and isinstance(child, dict):
            for inner in child.values():
                yield from _nodes(inner)
        elif keyword in ("allOf", "anyOf", "oneOf", "prefixItems") and isinstance(child, list):
            for inner in child:
                yield from _nodes(inner)
        elif isinstance(child, dict) and keyword not in ("const", "dependentRequired", "dependencies"):
            yield from _nodes(child)


def _older(node: Any, dialect: int, chance: Random) -> Any:
    """Each keyword in the form that the older dialect has for it, where it has one."""
    if not isinstance(node, dict):
        return {} if dialect == 4 and node is True else {"not": {}} if dialect == 4 and node is False else node
    made: dict[str, Any] = {}
    for keyword, child in node.items():
        if keyword in ("properties", "patternProperties", "$defs", "dependentSchemas"):
            made[keyword] = {name: _older(inner, dialect, chance) for name, inner in child.items()}
        elif keyword in ("allOf", "anyOf", "oneOf", "prefixItems"):
            made[keyword] = [_older(inner, dialect, chance) for inner in child]
        elif isinstance(child, bool) and keyword in ("additionalProperties", "items") and dialect == 4:
            made[keyword] = child if keyword == "additionalProperties" else _older(child, dialect, chance)
        elif isinstance(child, dict | bool) and keyword not in (
            "const",
            "dependentRequired",
            "dependencies",
            "uniqueItems",
        ):
            made[keyword] = _older(child, dialect, chance)
        else:
            made[keyword] = child
    if "prefixItems" in made and chance.random() < 0.8:
        rest = made.pop("items", None)
        made["items"] = made.pop("prefixItems")
        if rest is not None:
            made["additionalItems"] = rest
    if dialect <= 7 and chance.random() < 0.8:
        needed = made.pop("dependencies", {})
        needed = {**needed, **made.pop("dependentRequired", {}), **made.pop("dependentSchemas", {})}
        if needed:
            made["dependencies"] = needed
    if dialect == 4:
        for flag, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if flag in made:
                made[bound] = made.pop(flag)
                made[flag] = True
        if made.get("required") == []:
            del made["required"]
    return made
