"""Values by chance, led by schemas: most fit one of them or miss it by one change, which is where claims break.

1. A value is grown along a way through the schema: of a choice one branch, of `allOf` and references all, names that are
   required nearly always, others half the time.
2. Then, as often as not, one or two places are changed: a literal or an edge out of any schema, a name more or less.

Patterns are read with Python's own reader; what it does not read gives a plain text.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from functools import lru_cache
from random import Random
from re import _parser  # type: ignore[attr-defined]
from typing import Any

PLAIN = (None, True, False, 0, 1, -1, 0.5, 2, "", "a", "zz", "é", "a\n", "١", [], {}, [1], ["a", "a"], {"zz": 1})
_MAX_TEXT = 3_000
_MAX_ITEMS = 60


class Sampler:
    """Values for the schemas of one question."""

    def __init__(self, chance: Random, *schemas: dict[str, Any]) -> None:
        self._chance = chance
        self._roots = schemas
        self._stock: list[Any] = [*PLAIN]
        self._names: list[str] = ["zz", "x1"]
        for schema in schemas:
            self._harvest(schema, 0)

    def values(self, count: int) -> Iterator[Any]:
        """As many values as are asked for."""
        for _ in range(count):
            root = self._chance.choice(self._roots)
            value = self._grown([(root, root)], 0)
            for _ in range(self._chance.choice((0, 0, 1, 1, 2))):
                value = self._changed(value)
            yield value

    # Growing.

    def _grown(self, terms: list[tuple[Any, Any]], depth: int) -> Any:
        nodes = self._followed(terms)
        for node, _ in nodes:
            if "const" in node and self._chance.random() < 0.9:
                return copy.deepcopy(node["const"])
            if isinstance(node.get("enum"), list) and node["enum"] and self._chance.random() < 0.9:
                return copy.deepcopy(self._chance.choice(node["enum"]))
        match self._kind([node for node, _ in nodes]):
            case "object":
                return self._object(nodes, depth)
            case "array":
                return self._array(nodes, depth)
            case "string":
                return self._text([node for node, _ in nodes])
            case "integer" | "number" as kind:
                return self._number([node for node, _ in nodes], kind)
            case "boolean":
                return self._chance.random() < 0.5
            case "null":
                return None
        return copy.deepcopy(self._chance.choice(self._stock))

    def _followed(self, terms: list[tuple[Any, Any]]) -> list[tuple[dict[str, Any], Any]]:
        found: list[tuple[dict[str, Any], Any]] = []
        pending = list(terms)
        while pending and len(found) < 40:
            node, root = pending.pop()
            if not isinstance(node, dict):
                continue
            found.append((node, root))
            if isinstance(node.get("$ref"), str):
                pending.append((_target(root, node["$ref"]), root))
            pending.extend((child, root) for child in node.get("allOf", ()))
            chosen_ones = [self._chance.choice(node[keyword]) for keyword in ("anyOf", "oneOf") if node.get(keyword)]
            pending.extend((child, root) for child in chosen_ones)
            if "if" in node:
                chosen = self._chance.choice((("if", "then"), ("else",)))
                pending.extend((node[keyword], root) for keyword in chosen if keyword in node)
            if self._chance.random() < 0.3:
                pending.extend((child, root) for child in (node.get("dependentSchemas") or {}).values())
        return found

    def _kind(self, nodes: list[dict[str, Any]]) -> str:
        wanted: list[str] = []
        for node in nodes:
            kinds = node.get("type", [])
            wanted.extend([kinds] if isinstance(kinds, str) else kinds)
        if wanted and self._chance.random() < 0.97:
            return self._chance.choice(wanted)
        said = {keyword for node in nodes for keyword in node}
        if said & {
            "properties",
            "required",
            "additionalProperties",
            "patternProperties",
            "minProperties",
            "propertyNames",
        }:
            return "object"
        if said & {"items", "prefixItems", "contains", "minItems"}:
            return "array"
        if said & {"pattern", "minLength", "maxLength"}:
            return "string"
        if said & {"minimum", "maximum", "multipleOf", "exclusiveMinimum", "exclusiveMaximum"}:
            return "number"
        return "any"

    def _object(self, nodes: list[tuple[dict[str, Any], Any]], depth: int) -> dict[str, Any]:
        chance = self._chance
        known = dict.fromkeys(name for node, _ in nodes for name in node.get("properties", ()))
        required = {name for node, _ in nodes for name in node.get("required", ())}
        names = [name for name in known if chance.random() < (0.95 if name in required else 0.5)]
        names += [name for name in sorted(required - set(known)) if chance.random() < 0.95]
        for node, _ in nodes:
            for pattern in node.get("patternProperties", ()):
                if chance.random() < 0.5:
                    names.append(text_matching(pattern, chance))
            if isinstance(node.get("propertyNames"), dict) and chance.random() < 0.3:
                name = self._grown([(node["propertyNames"], {})], depth + 6)
                names += [name] if isinstance(name, str) else []
            if isinstance(node.get("additionalProperties"), dict) and chance.random() < 0.4:
                names.append(chance.choice(self._names))
            for name, others in (node.get("dependentRequired") or {}).items():
                if name in names and chance.random() < 0.7:
                    names += others
        if chance.random() < 0.08:
            names.append(chance.choice(self._names))
        return {name: self._member(nodes, name, depth) for name in dict.fromkeys(names)}

    def _member(self, nodes: list[tuple[dict[str, Any], Any]], name: str, depth: int) -> Any:
        terms = [(node["properties"][name], root) for node, root in nodes if name in (node.get("properties") or {})]
        for node, root in nodes:
            terms.extend(
                (child, root) for pattern, child in (node.get("patternProperties") or {}).items() if _in(pattern, name)
            )
        if not terms:
            terms = [(node[key], root) for node, root in nodes for key in _OTHERS if isinstance(node.get(key), dict)]
        return self._grown(terms, depth + 1) if terms and depth < 9 else copy.deepcopy(self._chance.choice(self._stock))

    def _array(self, nodes: list[tuple[dict[str, Any], Any]], depth: int) -> list[Any]:
        chance = self._chance
        edges = [node[key] for node, _ in nodes for key in _COUNTS if isinstance(node.get(key), int)]
        edge = (
            int(chance.choice(edges)) + chance.choice((-1, 0, 0, 1))
            if edges and chance.random() < 0.7
            else chance.randrange(4)
        )
        made: list[Any] = []
        for index in range(max(0, min(edge, _MAX_ITEMS)) if depth < 9 else 0):
            terms = []
            for node, root in nodes:
                prefix = node.get("prefixItems", ())
                if index < len(prefix):
                    terms.append((prefix[index], root))
                elif "items" in node and not isinstance(node["items"], list):
                    terms.append((node["items"], root))
                if "contains" in node and chance.random() < 0.4:
                    terms.append((node["contains"], root))
            if made and chance.random() < 0.1:
                made.append(copy.deepcopy(chance.choice(made)))
            else:
                made.append(self._grown(terms, depth + 1) if terms else copy.deepcopy(chance.choice(self._stock)))
        return made

    def _text(self, nodes: list[dict[str, Any]]) -> str:
        chance = self._chance
        patterns = [node["pattern"] for node in nodes if isinstance(node.get("pattern"), str)]
        if patterns and chance.random() < 0.9:
            return text_matching(chance.choice(patterns), chance)
        edges = [
            node[key] for node in nodes for key in ("minLength", "maxLength") if isinstance(node.get(key), int | float)
        ]
        if edges and chance.random() < 0.8:
            return chance.choice("a1é") * max(
                0, min(int(chance.choice(edges)) + chance.choice((-1, 0, 0, 1)), _MAX_TEXT)
            )
        texts = [value for value in self._stock if isinstance(value, str)]
        return chance.choice(texts or ["a"])

    def _number(self, nodes: list[dict[str, Any]], kind: str) -> float:
        chance = self._chance
        edges: list[float] = [node[key] for node in nodes for key in _BOUNDS if _is_number(node.get(key))]
        number = chance.choice(edges) if edges and chance.random() < 0.9 else chance.choice((0, 1, 2, 10, -1))
        steps = [node["multipleOf"] for node in nodes if _is_number(node.get("multipleOf"))]
        if steps and chance.random() < 0.7 and abs(number / steps[0]) < 1e15:
            return (
                float(steps[0] * chance.randrange(-2, 8))
                if kind == "number"
                else int(steps[0] * chance.randrange(-2, 8))
            )
        number += chance.choice((0, 0, 1, -1)) if kind == "integer" else chance.choice((0, 0, 1, -1, 0.5, -0.5))
        return number

    # Changing.

    def _changed(self, value: Any) -> Any:
        """A copy with one place changed."""
        chance = self._chance
        if isinstance(value, dict) and value and chance.random() < 0.85:
            name = chance.choice(list(value))
            match chance.randrange(4):
                case 0:
                    return {other: member for other, member in value.items() if other != name}
                case 1:
                    return {**value, chance.choice(self._names): copy.deepcopy(chance.choice(self._stock))}
            return {**value, name: self._changed(value[name])}
        if isinstance(value, list) and value and chance.random() < 0.8:
            index = chance.randrange(len(value))
            match chance.randrange(4):
                case 0:
                    return value[:index] + value[index + 1 :]
                case 1:
                    return [*value, copy.deepcopy(chance.choice([*value, chance.choice(self._stock)]))]
            return [*value[:index], self._changed(value[index]), *value[index + 1 :]]
        if isinstance(value, str) and chance.random() < 0.5:
            return chance.choice((value + "a", value[1:], value[:-1], value + "\n", value.upper(), "/" + value))
        if _is_number(value) and abs(value) < 1e15 and chance.random() < 0.5:
            return value + chance.choice((1, -1, 0.5))
        return copy.deepcopy(chance.choice(self._stock))

    def _harvest(self, node: Any, depth: int) -> None:
        """Literals, edges and names out of a schema."""
        if isinstance(node, list):
            for child in node:
                self._harvest(child, depth + 1)
        if not isinstance(node, dict) or depth > 40:
            return
        for keyword, child in node.items():
            if keyword in ("const", "default"):
                self._stock.append(child)
            elif keyword in ("enum", "examples") and isinstance(child, list):
                self._stock.extend(child)
            elif keyword in _BOUNDS and _is_number(child):
                self._stock.extend((child, child + 1, child - 1))
            elif keyword == "pattern" and isinstance(child, str):
                self._stock.extend(text_matching(child, self._chance) for _ in range(3))
            elif keyword == "required" and isinstance(child, list):
                self._names.extend(name for name in child if isinstance(name, str))
            else:
                if keyword in ("properties", "dependentRequired", "dependentSchemas") and isinstance(child, dict):
                    self._names.extend(child)
                self._harvest(child, depth + 1)


_OTHERS = ("additionalProperties", "unevaluatedProperties")
_COUNTS = ("minItems", "maxItems", "minContains", "maxContains")
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")


def text_matching(pattern: str, chance: Random) -> str:
    """A text in which the pattern probably finds a match."""
    tree = _tree(pattern)
    return "a" if tree is None else _walked(tree, chance)[:_MAX_TEXT]


def _walked(tree: Any, chance: Random) -> str:
    made: list[str] = []
    for kind, what in tree:
        match str(kind):
            case "LITERAL":
                made.append(chr(what))
            case "NOT_LITERAL":
                made.append(next(letter for letter in "azZ0 é" if ord(letter) != what))
            case "ANY":
                made.append(chance.choice("aZ0/ é"))
            case "IN":
                made.append(_one_of(what, chance))
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                low, high, inner = what
                times = low + (chance.choice((0, 0, 1, 2, 5)) if chance.random() < 0.9 else 40)
                made.extend(_walked(inner, chance) for _ in range(min(times, int(high), low + 200)))
            case "SUBPATTERN":
                made.append(_walked(what[-1], chance))
            case "BRANCH":
                made.append(_walked(chance.choice(what[1]), chance))
    return "".join(made)


def _one_of(members: Any, chance: Random) -> str:
    spans: list[tuple[int, int]] = []
    refused = False
    for kind, what in members:
        match str(kind):
            case "NEGATE":
                refused = True
            case "LITERAL":
                spans.append((what, what))
            case "RANGE":
                spans.append(what)
            case "CATEGORY":
                spans.extend(_CATEGORIES.get(str(what), ((97, 122),)))
    if refused or not spans:
        outside = [letter for letter in "aZ0_- /.é\n" if not any(low <= ord(letter) <= high for low, high in spans)]
        return chance.choice(outside or ["\x00"])
    low, high = chance.choice(spans)
    return chr(chance.choice((low, high, chance.randint(low, high)))) if not 0xD800 <= high <= 0xDFFF else "a"


_CATEGORIES = {
    "CATEGORY_DIGIT": ((48, 57),),
    "CATEGORY_SPACE": ((32, 32), (9, 10)),
    "CATEGORY_WORD": ((48, 57), (97, 122), (65, 90), (95, 95)),
    "CATEGORY_NOT_DIGIT": ((97, 122), (45, 47)),
    "CATEGORY_NOT_SPACE": ((97, 122), (33, 47)),
    "CATEGORY_NOT_WORD": ((45, 47), (32, 32)),
}


@lru_cache(maxsize=2_000)
def _tree(pattern: str) -> Any:
    try:
        return _parser.parse(
            pattern.replace("(?<", "(?P<") if "(?<=" not in pattern and "(?<!" not in pattern else pattern
        )
    except (re.error, RecursionError, OverflowError):
        return None


@lru_cache(maxsize=20_000)
def _in(pattern: str, text: str) -> bool:
    try:
        return re.search(pattern, text) is not None
    except (re.error, RecursionError):
        return False


def _target(root: Any, reference: str) -> Any:
    if not reference.startswith("#"):
        return True
    node = root
    for step in reference[1:].split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict) and name in node:
            node = node[name]
        elif isinstance(node, list) and name.isdecimal() and int(name) < len(node):
            node = node[int(name)]
        else:
            return True
    return node


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
