"""Values that schemas accept together, built from what the schemas say rather than guessed.

1. A *term* is a schema with the document its references lead into. All terms of a place have to hold.
2. `allOf` and `$ref` are followed; of `anyOf`, `oneOf` and `if` one branch is chosen. The choices are tried one at a time: all
   the first branches, then each other branch with the first of the rest.
3. What has to hold then says the type, the values, the bounds, the language, the names: the smallest value of that form is
   made, then one with all names, then a few between.
4. What a choice or `not` still refuses is left out by looking (`fits`). The number of tries is bounded, depth too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.schema.answers import Yes
from broker.domain.schema.branches import variants
from broker.domain.schema.drawn import Drawn
from broker.domain.schema.fits import fits, listing, mapping, number_at, same
from broker.domain.schema.patterns import Unportable, parse_pattern
from broker.domain.schema.probes import edge_numbers, edge_texts, numbers_within, texts_within
from broker.domain.schema.regular import Language, complement, intersection, member, text
from broker.domain.schema.terms import Term, at_name, bearing_on

_MAX_DEPTH: Final = 10
_MAX_ITEMS: Final = 1_000
_MAX_OPTIONAL: Final = 30
_MAX_VALUES: Final = 48
_MAX_MISSES: Final = 40
_MAX_TEXTS: Final = 8
_STEPS: Final = 2_000
_ANY_TEXT: Final[JsonObject] = {"type": "string"}
_KINDS: Final = ("object", "string", "integer", "number", "array", "boolean", "null")


class Builder:
    """What was built so far, by the terms that it fits."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Drawn] = {}

    def drawn(self, terms: Sequence[Term], depth: int = 0) -> Drawn:
        """Values that fit all the terms, the plainest first."""
        # By identity: the documents outlive the search, and the same schema reached twice is the same object.
        key = tuple(id(schema) if isinstance(schema, dict) else schema for schema, _ in terms)
        if key not in self._known:
            self._known[key] = Drawn(self._values(terms, depth), _MAX_VALUES)
        return self._known[key]

    def _values(self, terms: Sequence[Term], depth: int) -> Iterator[JsonValue]:
        found: list[JsonValue] = []
        ways = [_of_variant(variant, self, depth) for variant in variants(terms)]
        ways.append(_at_edges(terms))
        while ways:  # in turn: values of different ways differ more than those of one
            for way in list(ways):
                for value in islice(way, _MAX_MISSES):
                    fitting = all(fits(schema, value, root) for schema, root in terms)
                    if fitting and not any(same(value, known) for known in found):
                        found.append(value)
                        yield value
                        break
                else:
                    ways.remove(way)


def _of_variant(nodes: list[Term], builder: Builder, depth: int) -> Iterator[JsonValue]:
    if any(node is False for node, _ in nodes):
        return
    fixed = [[node["const"]] if "const" in node else listing(node, "enum") for node, _ in nodes
             if isinstance(node, dict) and ("const" in node or "enum" in node)]  # fmt: skip
    if fixed:
        yield from (value for value in fixed[0] if all(any(same(value, other) for other in more) for more in fixed[1:]))
        return
    for kind in _kinds(nodes):
        match kind:
            case "null":
                yield None
            case "boolean":
                yield True
                yield False
            case "integer" | "number":
                yield from numbers_within([node for node, _ in nodes], whole=kind == "integer")
            case "string":
                yield from _texts(nodes)
            case "array":
                yield from _arrays(nodes, builder, depth)
            case _:
                yield from _objects(nodes, builder, depth)


def _at_edges(terms: Sequence[Term]) -> Iterator[JsonValue]:
    """Numbers and texts at what other branches and `not` say: where one of them begins, another may end."""
    nodes = [node for node, _ in bearing_on(terms)]
    yield from edge_numbers(nodes)
    yield from edge_texts(nodes)


def _kinds(nodes: Sequence[Term]) -> list[str]:
    kinds = list(_KINDS)
    for node, _ in nodes:
        if isinstance(node, dict) and "type" in node:
            wanted = node["type"] if isinstance(node["type"], list) else [node["type"]]
            kinds = [kind for kind in kinds if kind in wanted or (kind == "integer" and "number" in wanted)]
    # The type that most is said about comes first: where nothing names a type, the keywords hint at it.
    said = {keyword for node, _ in nodes if isinstance(node, dict) for keyword in node}
    hints = {
        "object": ("properties", "required", "additionalProperties", "patternProperties", "minProperties"),
        "array": ("items", "prefixItems", "contains", "minItems"),
        "string": ("pattern", "minLength", "maxLength"),
        "integer": ("minimum", "maximum", "multipleOf", "exclusiveMinimum"),
    }
    kinds.sort(key=lambda kind: not said.intersection(hints.get(kind, ())))
    return kinds


def _texts(nodes: Sequence[Term]) -> Iterator[str]:
    schemas = [node for node, _ in nodes]
    languages: list[Language] = []
    for schema in schemas:
        if isinstance(schema, dict) and isinstance(schema.get("pattern"), str):
            language = parse_pattern(str(schema["pattern"]))
            if not isinstance(language, Unportable):
                languages.append(language)
    if not languages:
        yield from (bounds for bounds in texts_within(schemas) if isinstance(bounds, str))
        return
    found: list[str] = []
    for bounds in texts_within(schemas):
        if not isinstance(bounds, str):
            found.extend(_member(intersection(*languages, bounds)))
            yield from found[-1:]
    for _ in range(_MAX_TEXTS if found else 0):
        more = _member(intersection(*languages, *(complement(text(known)) for known in found)))
        found.extend(more)
        yield from more


def _member(language: Language) -> list[str]:
    answer = member(language, steps=_STEPS)
    return [answer.witness] if isinstance(answer, Yes) and isinstance(answer.witness, str) else []


def _arrays(nodes: Sequence[Term], builder: Builder, depth: int) -> Iterator[JsonValue]:
    schemas = [node for node, _ in nodes if isinstance(node, dict)]
    contains = [(node["contains"], root) for node, root in nodes if isinstance(node, dict) and "contains" in node]
    least = max([_count(node, "minItems", 0) for node in schemas], default=0)
    containing = max([_count(node, "minContains", 1) for node in schemas if "contains" in node], default=0)
    least = max(least, containing)
    if depth >= _MAX_DEPTH or least > _MAX_ITEMS:
        if not least:
            yield []
        return
    distinct = any(node.get("uniqueItems") is True for node in schemas)
    tuples = max((len(listing(node, "prefixItems")) for node in schemas), default=0)
    for length in dict.fromkeys((least, least + 1, tuples)):
        items: list[JsonValue] = []
        for index in range(length):
            here = _at_index(nodes, index)
            wanted = [*here, *contains] if index < containing else here
            fresh = _fresh(builder.drawn(wanted, depth + 1), items if distinct else [])
            fresh = fresh or _fresh(builder.drawn(here, depth + 1), items if distinct else [])
            if not fresh:
                break
            items.append(fresh[0])
        if len(items) == length:
            yield items


def _fresh(values: Drawn, taken: list[JsonValue]) -> list[JsonValue]:
    """The first value that is not taken yet."""
    for number in range(len(taken) + 1):
        value = values.between(number, number + 1)
        if not value or not any(same(value[0], known) for known in taken):
            return value
    return []


def _count(node: JsonObject, keyword: str, absent: int) -> int:
    number = number_at(node, keyword)
    return absent if number is None else int(number)


def _at_index(nodes: Sequence[Term], index: int) -> list[Term]:
    found: list[Term] = []
    for node, root in nodes:
        prefix = listing(node, "prefixItems")
        if index < len(prefix):
            found.append((prefix[index], root))
        elif isinstance(node, dict) and "items" in node:
            found.append((node["items"], root))
        elif isinstance(node, dict) and "unevaluatedItems" in node:
            found.append((node["unevaluatedItems"], root))
    return found


def _objects(nodes: Sequence[Term], builder: Builder, depth: int) -> Iterator[JsonValue]:
    required = _closed_under_dependence(nodes, {str(name) for node, _ in nodes for name in listing(node, "required")})
    least = max([int(number_at(node, "minProperties") or 0) for node, _ in nodes], default=0)
    mentioned = dict.fromkeys(name for node, _ in nodes for name in mapping(node, "properties"))
    optional = [name for name in mentioned if name not in required][:_MAX_OPTIONAL]
    drawn: dict[str, Drawn] = {}

    def members(name: str, start: int, end: int) -> list[JsonValue]:
        if name not in drawn:
            terms = at_name(nodes, name) if depth < _MAX_DEPTH else [(False, {})]
            drawn[name] = builder.drawn(terms, depth + 1)
        return drawn[name].between(start, end)

    if least > _MAX_ITEMS or not all(members(name, 0, 1) for name in sorted(required)):
        return
    smallest: JsonObject = {name: members(name, 0, 1)[0] for name in sorted(required)}
    if len(smallest) < least:
        for name in [*optional, *_made_up_names(nodes, builder, least)]:
            if len(smallest) < least and name not in smallest and members(name, 0, 1):
                smallest[name] = members(name, 0, 1)[0]
    yield smallest
    whole = {**smallest, **{name: value for name in optional for value in members(name, 0, 1)}}
    yield whole
    for name in optional:
        if name in whole:
            yield {**smallest, name: whole[name]}
            yield {other: value for other, value in whole.items() if other != name}
    for name in [*sorted(required), *optional]:
        for value in members(name, 1, 3):
            yield {**smallest, name: value}
            yield {**whole, name: value}
    for name in _made_up_names(nodes, builder, 1):
        for value in members(name, 0, 1):
            yield {**smallest, name: value}


def _closed_under_dependence(nodes: Sequence[Term], names: set[str]) -> set[str]:
    for _ in range(8):
        more = {
            str(other)
            for node, _ in nodes
            for name, others in mapping(node, "dependentRequired").items()
            if name in names and isinstance(others, list)
            for other in others
        }
        if more <= names:
            break
        names = names | more
    return names


def _made_up_names(nodes: Sequence[Term], builder: Builder, count: int) -> Iterator[str]:
    """Names that no schema lists: such as match patterns and what bounds names, then plain ones."""
    for pattern in dict.fromkeys(pattern for node, _ in nodes for pattern in mapping(node, "patternProperties")):
        language = parse_pattern(pattern)
        yield from [] if isinstance(language, Unportable) else _member(language)
    terms = [
        (node["propertyNames"], root) for node, root in nodes if isinstance(node, dict) and "propertyNames" in node
    ]
    if terms:
        names = builder.drawn([*terms, (_ANY_TEXT, _ANY_TEXT)], _MAX_DEPTH - 1).between(0, count + 2)
        yield from (name for name in names if isinstance(name, str))
    yield from (f"x{number}" for number in range(1, count + 1))
