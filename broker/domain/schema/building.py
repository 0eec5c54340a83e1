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
from typing import Final, TypeAlias

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.schema.answers import Yes
from broker.domain.schema.closure import resolve
from broker.domain.schema.fits import fits, listing, mapping, number_at, pattern_matches, same, type_of
from broker.domain.schema.patterns import Unportable, parse_pattern
from broker.domain.schema.probes import numbers_within, texts_within
from broker.domain.schema.regular import Language, intersection, member

Term: TypeAlias = "tuple[JsonValue, JsonObject]"

_MAX_DEPTH: Final = 10
_MAX_NODES: Final = 120
_MAX_VARIANTS: Final = 40
_MAX_ITEMS: Final = 1_000
_MAX_OPTIONAL: Final = 30
_STEPS: Final = 2_000
_KINDS: Final = ("object", "string", "integer", "number", "array", "boolean", "null")


def built(terms: Sequence[Term], *, limit: int, depth: int = 0) -> Iterator[JsonValue]:
    """Values that fit all the terms, the plainest first, at most `limit`."""
    found: list[JsonValue] = []
    for variant in variants(terms):
        for value in islice(_of_variant(variant, depth), limit):
            if all(fits(schema, value, root) for schema, root in terms) and not any(
                same(value, known) for known in found
            ):
                found.append(value)
                yield value
                if len(found) >= limit:
                    return
                break  # one of each variant first: they differ more than the values of one
    for variant in variants(terms):
        for value in islice(_of_variant(variant, depth), 4 * limit):
            if all(fits(schema, value, root) for schema, root in terms) and not any(
                same(value, known) for known in found
            ):
                found.append(value)
                yield value
                if len(found) >= limit:
                    return


def variants(terms: Sequence[Term]) -> Iterator[list[Term]]:
    """The terms that have to hold, for each way of choosing branches; one departure from the first way at a time."""
    first, choices = _followed(terms, {})
    yield first
    for count, (key, width) in enumerate(choices):
        for branch in range(1, min(width, _MAX_VARIANTS)):
            if count * branch > 2 * _MAX_VARIANTS:
                return
            yield _followed(terms, {key: branch})[0]


def _followed(terms: Sequence[Term], chosen: dict[int, int]) -> tuple[list[Term], list[tuple[int, int]]]:
    """What has to hold when these branches are chosen, and the choices that there are."""
    nodes: list[Term] = []
    choices: list[tuple[int, int]] = []
    seen: set[int] = set()
    pending = list(terms)
    while pending and len(nodes) < _MAX_NODES:
        node, root = pending.pop(0)
        if not isinstance(node, dict):
            nodes.append((node, root))
            continue
        if id(node) in seen:
            continue
        seen.add(id(node))
        nodes.append((node, root))
        pending.extend((child, root) for child in listing(node, "allOf"))
        if isinstance(node.get("$ref"), str):
            pending.append((resolve(root, str(node["$ref"])), root))
        for keyword in ("anyOf", "oneOf"):
            branches = listing(node, keyword)
            if branches:
                key = id(branches)
                choices.append((key, len(branches)))
                pending.append((branches[min(chosen.get(key, 0), len(branches) - 1)], root))
        if "if" in node:
            key = id(node)
            choices.append((key, 2))
            if chosen.get(key, 0) == 0:
                pending.extend((node[keyword], root) for keyword in ("if", "then") if keyword in node)
            elif "else" in node:
                pending.append((node["else"], root))
    return nodes, choices


def _of_variant(nodes: list[Term], depth: int) -> Iterator[JsonValue]:
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
                yield from _arrays(nodes, depth)
            case _:
                yield from _objects(nodes, depth)


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
    for bounds in texts_within(schemas):
        if not languages and isinstance(bounds, str):
            yield bounds
        elif languages and not isinstance(bounds, str):
            answer = member(intersection(*languages, bounds), steps=_STEPS)
            if isinstance(answer, Yes) and isinstance(answer.witness, str):
                yield answer.witness


def _arrays(nodes: Sequence[Term], depth: int) -> Iterator[JsonValue]:
    schemas = [node for node, _ in nodes if isinstance(node, dict)]
    low = max([int(number_at(node, "minItems") or 0) for node in schemas], default=0)
    contains = [(node["contains"], root) for node, root in nodes if isinstance(node, dict) and "contains" in node]
    counts = [
        1 if number_at(node, "minContains") is None else int(number_at(node, "minContains") or 0)
        for node in schemas
        if "contains" in node
    ]
    least = max([low, *counts], default=0)
    if depth >= _MAX_DEPTH or least > _MAX_ITEMS:
        if not least:
            yield []
        return
    distinct = any(node.get("uniqueItems") is True for node in schemas)
    for length in dict.fromkeys(
        (least, least + 1, max((len(listing(node, "prefixItems")) for node in schemas), default=0))
    ):
        items: list[JsonValue] = []
        pools: dict[int, list[JsonValue]] = {}
        for index in range(length):
            place = min(index, max((len(listing(node, "prefixItems")) for node in schemas), default=0))
            if place not in pools:
                here = _at_index(nodes, index)
                wanted = length if distinct else 1
                pools[place] = list(
                    built([*here, *(contains if index < least else ())], limit=min(wanted, 40), depth=depth + 1)
                ) or list(built(here, limit=min(wanted, 40), depth=depth + 1))
            fresh = [item for item in pools[place] if not distinct or not any(same(item, known) for known in items)]
            if not fresh:
                break
            items.append(fresh[0])
        if len(items) == length:
            yield items


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


def _objects(nodes: Sequence[Term], depth: int) -> Iterator[JsonValue]:
    required = _closed_under_dependence(nodes, {str(name) for node, _ in nodes for name in listing(node, "required")})
    low = max([int(number_at(node, "minProperties") or 0) for node, _ in nodes], default=0)
    mentioned = list(dict.fromkeys(name for node, _ in nodes for name in mapping(node, "properties")))
    optional = [name for name in mentioned if name not in required][:_MAX_OPTIONAL]
    pools: dict[str, list[JsonValue]] = {}

    def member_of(name: str) -> list[JsonValue]:
        if name not in pools:
            pools[name] = [] if depth >= _MAX_DEPTH else list(built(at_name(nodes, name), limit=3, depth=depth + 1))
        return pools[name]

    if not all(member_of(name) for name in required):
        return
    smallest: JsonObject = {name: member_of(name)[0] for name in sorted(required)}
    for name in [*optional, *_made_up_names(nodes)]:
        if len(smallest) >= min(low, 200):
            break
        if name not in smallest and member_of(name):
            smallest[name] = member_of(name)[0]
    yield smallest
    whole = {**smallest, **{name: member_of(name)[0] for name in optional if member_of(name)}}
    yield whole
    for name in optional:
        if name in whole:
            yield {**smallest, name: whole[name]}
            yield {other: value for other, value in whole.items() if other != name}
    for name in [*sorted(required), *optional]:
        for value in member_of(name)[1:]:
            yield {**smallest, name: value}
            yield {**whole, name: value}
    for name in list(_made_up_names(nodes))[:3]:
        if member_of(name):
            yield {**smallest, name: member_of(name)[0]}


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


def at_name(nodes: Sequence[Term], name: str) -> list[Term]:
    """What has to hold for the member of this name."""
    found: list[Term] = []
    for node, root in nodes:
        properties = mapping(node, "properties")
        listed = [properties[name]] if name in properties else []
        listed.extend(
            child for pattern, child in mapping(node, "patternProperties").items() if pattern_matches(pattern, name)
        )
        if not listed and isinstance(node, dict) and "additionalProperties" in node:
            listed.append(node["additionalProperties"])
        found.extend((child, root) for child in listed)
    return found


def _made_up_names(nodes: Sequence[Term]) -> Iterator[str]:
    """Names that no schema lists: such as match patterns and what bounds names, then plain ones."""
    terms = [
        (node["propertyNames"], root) for node, root in nodes if isinstance(node, dict) and "propertyNames" in node
    ]
    for pattern in dict.fromkeys(pattern for node, _ in nodes for pattern in mapping(node, "patternProperties")):
        language = parse_pattern(pattern)
        answer = None if isinstance(language, Unportable) else member(language, steps=_STEPS)
        if isinstance(answer, Yes) and isinstance(answer.witness, str):
            yield answer.witness
    if terms:
        yield from (
            name
            for name in built([*terms, ({"type": "string"}, {})], limit=3, depth=_MAX_DEPTH - 1)
            if isinstance(name, str)
        )
    yield from (f"x{number}" for number in range(1, 201))


__all__ = ["Term", "at_name", "built", "type_of", "variants"]
