"""Plain values to try first: what most questions about real contracts are answered by, made without looking whether they fit.

1. A base is made for all schemas together and for each: its required names, each with the plainest value that `const`, `enum`,
   `type` and the bounds of its schemas suggest. Negations and choices are not looked into.
2. Then a base with one name more, one less, one that is unknown, or with another value for one name, two levels deep. Names
   about which the schemas say different things come first.

These are suggestions alone: the validators say what they show, and `witness` searches on where none shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.schema.closure import in_place
from broker.domain.schema.dialect import SchemaError
from broker.domain.schema.fits import listing, mapping, number_at
from broker.domain.schema.terms import Term, at_name

PLAIN: Final = 400
_DEPTH: Final = 5
_CHANGED_DEPTH: Final = 3
_LONGEST: Final = 2_000
_KINDS: Final = ("object", "string", "integer", "number", "boolean", "array", "null")
_UNKNOWN: Final = "zz"


def plain_values(schemas: Sequence[JsonObject], *, limit: int = PLAIN) -> Iterator[JsonValue]:
    """Suggestions, at most `limit`; some may be equal."""
    try:
        yield from islice(_values([_parts([(schema, schema)]) for schema in schemas], 0), limit)
    except (SchemaError, RecursionError):
        return


def _values(places: list[list[Term]], depth: int) -> Iterator[JsonValue]:
    """places: for each schema, what applies to this place; lists and objects are changed inside."""
    together = [part for parts in places for part in parts]
    bases: list[JsonValue] = []
    for parts in [together, *places]:
        for value in _samples(parts, depth):
            if value not in bases or isinstance(value, bool):
                bases.append(value)
                yield value
    objects = [base for base in bases if isinstance(base, dict)]
    if not objects or depth >= _CHANGED_DEPTH:
        return
    names = list(dict.fromkeys(name for node, _ in together if isinstance(node, dict) for name in _named(node)))
    inside = {name: [_parts(at_name(parts, name)) for parts in places] for name in names}
    telling = [name for name in names if _differ(inside[name])]
    for base in objects:
        for name in telling:
            yield {other: value for other, value in base.items() if other != name}
        yield {**base, _UNKNOWN: 1}
    changed = {name: list(islice(_values(inside[name], depth + 1), 24)) for name in telling}
    for base in objects:
        for name in telling:
            for value in changed[name]:
                yield {**base, name: value}
    for base in objects:
        for name in names:
            if name not in telling and name not in base:
                for value in islice(_samples([part for parts in inside[name] for part in parts], depth + 1), 2):
                    yield {**base, name: value}


def _parts(terms: Sequence[Term]) -> list[Term]:
    """The schemas of a place with what stands beside them by reference and `allOf`."""
    found: list[Term] = []
    for node, root in terms:
        if isinstance(node, dict):
            found.extend((part, root) for part, _ in in_place(node, root, frozenset()))
    return found


def _named(node: JsonObject) -> Iterator[str]:
    yield from mapping(node, "properties")
    yield from (name for name in listing(node, "required") if isinstance(name, str))


def _differ(places: list[list[Term]]) -> bool:
    first = [node for node, _ in places[0]]
    return any([node for node, _ in parts] != first for parts in places[1:])


def _samples(parts: list[Term], depth: int) -> Iterator[JsonValue]:
    """Plain values of a place, the most fitting first."""
    nodes = [node for node, _ in parts if isinstance(node, dict)]
    fixed = [[node["const"]] if "const" in node else listing(node, "enum") for node in nodes]
    fixed = [values for values in fixed if values]
    if fixed:
        yield from (value for value in fixed[0] if all(value in values for values in fixed[1:]))
        if len(fixed) > 1:
            yield from (value for values in fixed for value in values[:6])
        return
    for choice in (listing(node, keyword) for node in nodes for keyword in ("oneOf", "anyOf")):
        for child in choice[:3] if depth < _DEPTH else ():
            root = parts[0][1]
            yield from islice(_samples([*_parts([(child, root)]), *_without_choices(parts)], depth + 1), 1)
    for kind in _kinds(nodes):
        match kind:
            case "object":
                yield from _objects(parts, nodes, depth)
            case "array":
                yield from _arrays(parts, nodes, depth)
            case "string":
                least = max((int(number_at(node, "minLength") or 0) for node in nodes), default=0)
                yield "a" * min(max(least, 1), _LONGEST)
            case "integer" | "number":
                yield max((_least(node) for node in nodes), default=1)
            case "boolean":
                yield True
            case _:
                yield None


def _without_choices(parts: list[Term]) -> list[Term]:
    return [
        ({key: value for key, value in node.items() if key not in ("oneOf", "anyOf")}, root)
        for node, root in parts
        if isinstance(node, dict)
    ]


def _least(node: JsonObject) -> float:
    above, least = number_at(node, "exclusiveMinimum"), number_at(node, "minimum")
    if above is not None:
        return int(above) + 1
    most = number_at(node, "maximum")
    found = least if least is not None else min(1, most) if most is not None else 1
    return int(found) if float(found).is_integer() else found


def _kinds(nodes: list[JsonObject]) -> list[str]:
    kinds = list(_KINDS)
    for node in nodes:
        said = node.get("type")
        if said is not None:
            wanted = said if isinstance(said, list) else [said]
            kinds = [kind for kind in kinds if kind in wanted or (kind == "integer" and "number" in wanted)]
    if len(kinds) == len(_KINDS):  # nothing says the type
        return ["object", "string"] if any("properties" in node for node in nodes) else ["string", "integer", "object"]
    return kinds


def _objects(parts: list[Term], nodes: list[JsonObject], depth: int) -> Iterator[JsonValue]:
    names = dict.fromkeys(name for node in nodes for name in listing(node, "required") if isinstance(name, str))
    made: JsonObject = {}
    for name in names if depth < _DEPTH else ():
        made[name] = next(_samples(_parts(at_name(parts, name)), depth + 1), "a")
    yield made


def _arrays(parts: list[Term], nodes: list[JsonObject], depth: int) -> Iterator[JsonValue]:
    members = _parts([(node["items"], root) for node, root in parts if isinstance(node, dict) and "items" in node])
    held = [node["contains"] for node in nodes if "contains" in node]
    least = max((int(number_at(node, "minItems") or 0) for node in nodes), default=0)
    one = next(_samples([*members, *((node, parts[0][1]) for node in held if isinstance(node, dict))], depth + 1), "a")
    yield [one] * min(max(least, 1), _LONGEST)
    if not least and not held:
        yield []
