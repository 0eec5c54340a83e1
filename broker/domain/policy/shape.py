"""The shapes that policy files are made of; one table of them drives the reader and the published JSON Schema.

| shape    | accepts                                                                        |
|----------|--------------------------------------------------------------------------------|
| `Text`   | text that a pattern matches as a whole, or one of a few options                  |
| `Whole`  | a whole number within bounds                                                   |
| `Flag`   | true or false                                                                  |
| `ListOf` | a list of one shape, no member twice                                           |
| `MapOf`  | a map from free names to one shape; `nullable` where null takes an entry away    |
| `Record` | a map of known names; any other name is a problem, with the nearest legal name   |
| `Either` | one shape or another, told apart by YAML type                                  |
| `AnyMap` | a map that is handed on as JSON                                                |

`conform` reports every departure and gives the tree back with the wrong parts marked unreadable, so that the rules that
come after it can go on with the rest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final, TypeAlias

from broker.domain.policy.located import UNREADABLE, Entry, Located, Problems, quote

Shape: TypeAlias = "Text | Whole | Flag | ListOf | MapOf | Record | Either | AnyMap"


@dataclass(frozen=True, slots=True)
class Text:
    """Text. `expected` completes "… was expected"; a secret one is never quoted."""

    expected: str
    pattern: str = r"[^\x00-\x1f\x7f]+"
    options: tuple[str, ...] = ()
    secret: bool = False


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number, both bounds included."""

    expected: str
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""

    expected: str = "true or false"


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of one shape."""

    item: Shape
    expected: str
    least: int = 1
    most: int = 1000


@dataclass(frozen=True, slots=True)
class MapOf:
    """A map from names of one kind to values of one shape."""

    key: Text
    value: Shape
    expected: str
    nullable: bool = False
    least: int = 0


@dataclass(frozen=True, slots=True)
class Record:
    """A map of known names.

    required: names that must be there, unless the name in `unless` is.
    exactly_one: names of which exactly one must be there.
    """

    name: str
    fields: Mapping[str, tuple[Shape, str]]
    required: tuple[str, ...] = ()
    unless: str | None = None
    exactly_one: tuple[str, ...] = ()

    @property
    def expected(self) -> str:
        return f"a map with {', '.join(self.fields)}"


@dataclass(frozen=True, slots=True)
class Either:
    """One shape or another, of different YAML types."""

    first: Shape
    second: Shape

    @property
    def expected(self) -> str:
        return f"{self.first.expected}, or {self.second.expected}"


@dataclass(frozen=True, slots=True)
class AnyMap:
    """A map handed on as JSON."""

    expected: str


_TYPES: Final[Mapping[type, tuple[type, ...]]] = {
    Text: (str,),
    Whole: (int,),
    Flag: (bool,),
    ListOf: (tuple,),
    MapOf: (Mapping,),
    Record: (Mapping,),
    AnyMap: (Mapping,),
}


def _fits(shape: Shape, node: Located) -> bool:
    if isinstance(shape, Either):
        return _fits(shape.first, node) or _fits(shape.second, node)
    if isinstance(node.value, bool):
        return isinstance(shape, Flag)
    return isinstance(node.value, _TYPES[type(shape)])


def _broken(node: Located) -> Located:
    return replace(node, value=UNREADABLE)


def conform(shape: Shape, node: Located, problems: Problems) -> Located:
    """The tree with everything that departs from the shape reported and marked unreadable."""
    if not node.readable:
        return node
    if isinstance(shape, Either):
        return (
            conform(shape.first if _fits(shape.first, node) else shape.second, node, problems)
            if _fits(shape, node)
            else _wrong_type(shape, node, problems)
        )
    if not _fits(shape, node):
        return _wrong_type(shape, node, problems)
    match shape:
        case Text():
            return _text(shape, node, problems)
        case Whole():
            assert isinstance(node.value, int)
            if shape.least <= node.value <= shape.most:
                return node
            message = f"{quote(node.value)} was found, {shape.expected} was expected"
            problems.report(node, "field.value", message, mend=f"write {shape.expected}")
            return _broken(node)
        case ListOf():
            return _list(shape, node, problems)
        case MapOf():
            return _map(shape, node, problems)
        case Record():
            return _record(shape, node, problems)
        case Flag() | AnyMap():
            return node


def _wrong_type(shape: Shape, node: Located, problems: Problems) -> Located:
    secret = isinstance(shape, Text) and shape.secret
    found = "another type" if secret else quote(node.value)
    mend = f"write {shape.expected}"
    if isinstance(shape, Text) and isinstance(node.value, bool | int):
        mend = f"write {shape.expected}; quote it where the value itself is meant as text"
    problems.report(node, "field.type", f"{found} was found, {shape.expected} was expected", mend=mend)
    return _broken(node)


def _text(shape: Text, node: Located, problems: Problems) -> Located:
    assert isinstance(node.value, str)
    if node.value in shape.options or (not shape.options and re.fullmatch(shape.pattern, node.value)):
        return node
    found = "something else" if shape.secret else quote(node.value)
    mend = f"write {shape.expected}"
    near = get_close_matches(node.value, shape.options, 1)
    if near:
        mend = f"did you mean {near[0]}?"
    problems.report(node, "field.value", f"{found} was found, {shape.expected} was expected", mend=mend)
    return _broken(node)


def _list(shape: ListOf, node: Located, problems: Problems) -> Located:
    items = tuple(conform(shape.item, item, problems) for item in node.items())
    if not shape.least <= len(items) <= shape.most:
        message = f"a list of {len(items)} was found, {shape.expected} was expected"
        problems.report(node, "field.value", message, mend="leave the key out, or fill the list")
        return _broken(node)
    seen: dict[object, Located] = {}
    for item in items:
        first = seen.setdefault(item.value, item) if isinstance(item.value, str | int) else item
        if first is not item:
            message = f"{quote(item.value)} stands twice, first on line {first.line}"
            problems.report(item, "field.value", message, mend="take one of them out")
    return replace(node, value=items)


def _map(shape: MapOf, node: Located, problems: Problems) -> Located:
    made: dict[str, Entry] = {}
    for name, entry in node.entries().items():
        if not _text(shape.key, entry.key, problems).readable:
            continue
        kept = shape.nullable and entry.value.value is None
        made[name] = entry if kept else Entry(entry.key, conform(shape.value, entry.value, problems))
    if len(node.entries()) < shape.least:
        problems.report(node, "field.value", f"an empty map was found, {shape.expected} was expected", mend="fill it")
    return replace(node, value=made)


def _record(shape: Record, node: Located, problems: Problems) -> Located:
    made: dict[str, Entry] = {}
    for name, entry in node.entries().items():
        if name not in shape.fields:
            near = get_close_matches(name.lower(), shape.fields, 1, 0.6)
            mend = f"did you mean {near[0]}?" if near else f"legal here: {', '.join(shape.fields)}"
            problems.report(entry.key, "field.unknown", f"the key {name[:80]!r} is not known here", mend=mend)
            continue
        made[name] = Entry(entry.key, conform(shape.fields[name][0], entry.value, problems))
    if shape.unless is None or shape.unless not in node.entries():
        for name in shape.required:
            if name not in node.entries():
                expected = shape.fields[name][0].expected
                message = f"the key {name} is missing in this {shape.name}"
                problems.report(node, "field.missing", message, mend=f"add {name}: {expected}")
    if shape.exactly_one and sum(name in node.entries() for name in shape.exactly_one) != 1:
        names = " or ".join(shape.exactly_one)
        problems.report(node, "field.missing", f"exactly one of {names} was expected", mend=f"keep one of {names}")
        return _broken(node)
    return replace(node, value=made)
