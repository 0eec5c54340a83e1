"""The search for a value that shows a difference or something in common: suggestions in a fixed order, and the plainest one.

`candidates` suggests, place by place from the root:

1. values built to fit each schema, and all together (`building`), one for each branch that can be chosen;
2. `const`, `enum`, `default`, `examples`, and what lies at the edges of bounds, lengths and patterns (`probes`);
3. the built objects and lists with one member changed: left out, replaced by what step 1 to 3 suggest for its place, one
   more, one unknown; then with two members changed.

A place where all schemas say the same words is not probed: nothing there tells them apart. The budget is a count of
suggestions, so a search gives the same answer on every machine. What a suggestion shows is the validator's to say.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.schema.bearing import may_hold, names_in, say_the_same
from broker.domain.schema.building import Builder
from broker.domain.schema.dialect import SchemaError
from broker.domain.schema.drawn import Drawn
from broker.domain.schema.fits import listing, number_at
from broker.domain.schema.probes import edge_numbers, edge_texts
from broker.domain.schema.shrinking import shrink
from broker.domain.schema.terms import Term, at_name, bearing_on

__all__ = ["candidates", "find", "shrink"]

_PLAIN: Final[tuple[JsonValue, ...]] = (
    "a",
    1,
    None,
    True,
    {},
    [],
    "",
    0,
    -1,
    0.5,
    False,
    "zz",
    ["a"],
    [1],
    {"zz": 1},
    "a b",
    "é\n",
)
_POOL: Final = (4_000, 60, 24, 12, 8, 6)
_BASES: Final = (14, 5, 3, 2, 2, 1)
_TURN: Final = 6
_MAX_ITEMS: Final = 1_100
_UNKNOWN: Final[tuple[JsonValue, ...]] = (1, "a")


def candidates(schemas: Sequence[JsonObject], *, strings: Sequence[str] = (), limit: int) -> Iterator[JsonValue]:
    """Values that probe where the schemas differ or agree, at most `limit`, each once.

    strings: further strings to try wherever a string may stand.
    """
    values = _Search(strings).values([[(schema, schema)] for schema in schemas], 0)
    try:
        yield from islice(_distinct(values), limit)
    except (SchemaError, RecursionError):
        return


def find(
    values: Iterable[JsonValue], accepts: Callable[[JsonValue], bool], refuses: Callable[[JsonValue], bool]
) -> tuple[JsonValue] | None:
    """The first value that is accepted and refused, in a tuple since null is a value; None where there is none."""
    return next(((value,) for value in values if accepts(value) and refuses(value)), None)


class _Search:
    """One search: the strings to try, and the pools of places that were probed before."""

    def __init__(self, strings: Sequence[str]) -> None:
        self._strings = tuple(strings)
        self._builder = Builder()

    def values(self, places: Sequence[Sequence[Term]], depth: int) -> Iterator[JsonValue]:
        """Suggestions for one place; `places` holds, for each schema of the question, the terms that bear on it."""
        bases = self._bases(places, depth)
        yield from bases
        if depth and say_the_same(places):
            return
        bearing = bearing_on([term for terms in places for term in terms])
        nodes = [node for node, _ in bearing]
        for node in nodes:
            if isinstance(node, dict):
                yield from [node["const"]] if "const" in node else []
                yield from listing(node, "enum")
                yield from [node["default"]] if "default" in node else []
                yield from listing(node, "examples")
        yield from edge_numbers(nodes)
        yield from edge_texts(nodes)
        if may_hold(nodes, "string", ("pattern", "minLength", "maxLength")):
            yield from self._strings
        if depth + 1 >= len(_POOL):
            yield from _PLAIN[:6]
            return
        if depth == 0:
            yield from _PLAIN[:8]
        yield from self._objects(places, bearing, [base for base in bases if isinstance(base, dict)], depth)
        yield from self._arrays(bearing, [base for base in bases if isinstance(base, list)], depth)
        yield from _PLAIN

    def _bases(self, places: Sequence[Sequence[Term]], depth: int) -> list[JsonValue]:
        """Built values: for all schemas together, and for each."""
        limit = _BASES[min(depth, len(_BASES) - 1)]
        together = [term for terms in places for term in terms]
        drawn = (
            value for terms in [together, *places] for value in self._builder.drawn(terms, depth).between(0, limit)
        )
        return list(_distinct(drawn))

    def _pool(self, places: Sequence[Sequence[Term]], depth: int) -> Drawn:
        return Drawn(_distinct(self.values(places, depth)), _POOL[min(depth, len(_POOL) - 1)])

    def _objects(
        self, places: Sequence[Sequence[Term]], bearing: Sequence[Term], built_bases: list[JsonObject], depth: int
    ) -> Iterator[JsonValue]:
        if not may_hold(
            [node for node, _ in bearing],
            "object",
            (
                "properties",
                "required",
                "patternProperties",
                "additionalProperties",
                "propertyNames",
                "minProperties",
                "maxProperties",
                "unevaluatedProperties",
            ),
        ):
            return
        bases: list[JsonObject] = [*built_bases, {}] if {} not in built_bases else built_bases
        names = names_in(bearing, self._builder)
        inside = {name: [at_name(bearing_on(terms), name) for terms in places] for name in names}
        telling = [name for name in names if not say_the_same(inside[name])]
        required = {str(name) for node, _ in bearing for name in listing(node, "required")}
        names = [*telling, *(name for name in names if name not in telling)]
        for base in bases:
            for name in names:
                if name in base:
                    yield {other: value for other, value in base.items() if other != name}
        for base in bases[:3]:
            for value in _UNKNOWN:
                yield {**base, "zz": value}
        pools: dict[str, Drawn] = {}
        for name in names:
            values = self.values(inside[name], depth + 1) if inside[name] else iter(_UNKNOWN)
            pools[name] = Drawn(_distinct(values), _POOL[min(depth + 1, len(_POOL) - 1)] if name in telling else 3)
        for start in range(
            0, _POOL[1], _TURN
        ):  # a few of each name in turn, so that none waits for another's long tail
            for base in bases:
                for name in names:
                    for value in pools[name].between(start, start + _TURN):
                        yield {**base, name: value}
        yield from self._more_objects(bearing, bases, names, pools, required)

    def _more_objects(
        self,
        bearing: Sequence[Term],
        bases: list[JsonObject],
        names: list[str],
        pools: dict[str, Drawn],
        required: set[str],
    ) -> Iterator[JsonValue]:
        """Two changes at once, and counts of members."""
        counts = [
            int(number)
            for node, _ in bearing
            for keyword in ("minProperties", "maxProperties")
            if (number := number_at(node, keyword)) is not None
        ]
        for count in dict.fromkeys(counts):
            for size in (count, count - 1, count + 1):
                if 0 <= size <= _MAX_ITEMS:
                    for base in bases[:2]:
                        fill = {f"x{number}": "a" for number in range(size)}
                        made = {**base, **fill}
                        yield dict(list(made.items())[:size])
        extra = [
            (node["additionalProperties"], root)
            for node, root in bearing
            if isinstance(node, dict) and isinstance(node.get("additionalProperties"), dict)
        ]
        extra += [
            (node["unevaluatedProperties"], root)
            for node, root in bearing
            if isinstance(node, dict) and isinstance(node.get("unevaluatedProperties"), dict)
        ]
        if extra:
            for base in bases[:3]:
                for value in self._pool([[term] for term in extra], 2).between(0, _POOL[2]):
                    yield {**base, "zz": value}
        for base in bases[:4]:
            for index, one in enumerate(names[:24]):
                for other in names[index + 1 : 24]:
                    without = {name: value for name, value in base.items() if name not in (one, other)}
                    yield without
                    for first in pools[one].between(0, 6):
                        yield {**without, one: first}
                        for second in pools[other].between(0, 6):
                            yield {**base, one: first, other: second}
        for name in required:
            for base in bases[:2]:
                yield {**{other: value for other, value in base.items() if other != name}, "zz": 1}

    def _arrays(self, bearing: Sequence[Term], built_bases: list[list[JsonValue]], depth: int) -> Iterator[JsonValue]:
        nodes = [node for node, _ in bearing if isinstance(node, dict)]
        if not may_hold(
            nodes,
            "array",
            ("items", "prefixItems", "contains", "minItems", "maxItems", "uniqueItems", "unevaluatedItems"),
        ):
            return
        rest = [
            [(node[keyword], root)]
            for node, root in bearing
            if isinstance(node, dict)
            for keyword in ("items", "contains", "unevaluatedItems")
            if keyword in node
        ]
        pool = (self._pool(rest, depth + 1).between(0, _POOL[1]) if rest else []) or list(_PLAIN[:3])
        width = max((len(listing(node, "prefixItems")) for node in nodes), default=0)
        bases: list[list[JsonValue]] = [*built_bases, []]
        for index in range(min(width, 12)):
            here = [
                [(listing(node, "prefixItems")[index], root)]
                for node, root in bearing
                if index < len(listing(node, "prefixItems"))
            ]
            choices = self._pool(here, depth + 1).between(0, _POOL[1])
            for base in list(bases[:3]):
                if index <= len(base):
                    for value in choices:
                        yield [*base[:index], value, *base[index + 1 :]]
                    if choices and index == len(base):
                        bases.append([*base, choices[0]])
        for base in bases[:6]:
            yield from (base[:-1], [*base, *base[-1:]])
            for value in [*pool, *_PLAIN[:5]]:
                yield [*base, value]
                if base:
                    yield [*base[:-1], value]
        for value in pool:
            yield [value]
            yield [value, value]
        for one in pool[:5]:
            for other in pool[:5]:
                yield [one, other]
                yield [one, other, one]
        yield from self._long_arrays(nodes, pool)

    def _long_arrays(self, nodes: Sequence[JsonObject], pool: list[JsonValue]) -> Iterator[JsonValue]:
        counts = [
            int(number)
            for node in nodes
            for keyword in ("minItems", "maxItems", "minContains", "maxContains")
            if (number := number_at(node, keyword)) is not None
        ]
        good = pool[:4]
        for count in dict.fromkeys(counts):
            for size in (count, count - 1, count + 1):
                if 0 <= size <= _MAX_ITEMS:
                    yield from ([value] * size for value in good)
                    yield [pool[number % len(pool)] for number in range(size)]
                    yield list(range(size))
                    yield [f"x{number}" for number in range(size)]


def _distinct(values: Iterator[JsonValue]) -> Iterator[JsonValue]:
    seen: set[str] = set()
    for value in values:
        key = _spelt(value)
        if key not in seen:
            seen.add(key)
            yield value


_spelt: Final = json.JSONEncoder(sort_keys=True).encode  # made once: it is asked for every suggestion
