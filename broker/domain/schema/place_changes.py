"""What changed at one place of a schema, looking at its own keywords and not below them.

| keywords                                       | compared as                                              |
|------------------------------------------------|----------------------------------------------------------|
| `type`                                         | a set; `integer` lies within `number`                      |
| `enum`, `const`                                | a set of values; `true` is not 1                           |
| `maximum`, `exclusiveMaximum`, … `minContains` | the tighter of the bounds on each side                     |
| `dependentRequired`                            | for each name, a set of names                              |
| words (`title`, `default`, `format`, unknown …) | as they stand                                              |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from broker.domain.canonical import JsonValue
from broker.domain.schema.changes import Change, ChangeKind, Effect, Part
from broker.domain.schema.unfolded import Unfolded, kinds

# By keyword: the kinds of change where it comes, changes, goes; and whether it is an upper bound.
_UPPER: Final = (("maximum", "exclusiveMaximum"), ("maxLength",), ("maxItems",), ("maxProperties",), ("maxContains",))
_LOWER: Final = (("minimum", "exclusiveMinimum"), ("minLength",), ("minItems",), ("minProperties",), ("minContains",))
_WORDS: Final = {
    "title": ChangeKind.TITLE_CHANGED,
    "description": ChangeKind.DESCRIPTION_CHANGED,
    "format": ChangeKind.FORMAT_CHANGED,
    "examples": ChangeKind.EXAMPLES_CHANGED,
}
_ALL_TYPES: Final = frozenset(("null", "boolean", "number", "string", "array", "object"))
_MISSING: Final = (None, None)


@dataclass(frozen=True, slots=True)
class Place:
    """A place in both schemas. sign: 1 where narrowing it narrows the whole, -1 inside `not`, 0 where it may do either."""

    where: str
    aside: str
    sign: int
    part: Part

    @property
    def output(self) -> bool:
        """Whether it is about what a tool gives."""
        return self.part == "output"

    def change(
        self,
        kind: ChangeKind,
        old: tuple[JsonValue, str | None],
        new: tuple[JsonValue, str | None],
        effect: Effect,
        *,
        detail: str = "",
    ) -> Change:
        """A change at this place; `old` and `new` are what stands there, and where."""
        return Change(
            kind=kind, pointer_old=old[1], pointer_new=new[1], before=old[0], after=new[0],
            effect=self.effect(effect), where=self.where, aside=self.aside, detail=detail, part=self.part,
        )  # fmt: skip

    def effect(self, effect: Effect) -> Effect:
        """What an effect at this place is for the whole."""
        if effect not in (Effect.NARROWS, Effect.WIDENS) or self.sign == 1:
            return effect
        if self.sign == 0:
            return Effect.EITHER
        return Effect.WIDENS if effect is Effect.NARROWS else Effect.NARROWS


def same(one: JsonValue, other: JsonValue) -> bool:
    """Whether two values are the same to JSON Schema: 1 is 1.0, and neither is true."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


def changes_at(place: Place, old: Unfolded, new: Unfolded) -> Iterator[Change]:
    """The changes of the keywords that hold no schema, but for `required`."""
    yield from _types(place, old, new)
    yield from _values(place, old, new)
    yield from _pattern(place, old, new)
    for keywords in _UPPER:
        yield from _bounds(place, old, new, keywords, upper=True)
    for keywords in _LOWER:
        yield from _bounds(place, old, new, keywords, upper=False)
    yield from _multiple(place, old, new)
    yield from _unique(place, old, new)
    yield from _dependencies(place, old, new)


def wording_at(place: Place, old: Unfolded, new: Unfolded, structural: frozenset[str]) -> Iterator[Change]:
    """The changes of words: of all keywords that bear on nothing that is accepted."""
    for keyword in sorted((old.keys() | new.keys()) - structural):
        before, after = old.get(keyword, _MISSING), new.get(keyword, _MISSING)
        if before[1] is not None and after[1] is not None and same(before[0], after[0]):
            continue
        if keyword == "default":
            kind = (
                ChangeKind.DEFAULT_ADDED if before[1] is None
                else ChangeKind.DEFAULT_REMOVED if after[1] is None
                else ChangeKind.DEFAULT_CHANGED
            )  # fmt: skip
        else:
            kind = _WORDS.get(keyword, ChangeKind.ANNOTATION_CHANGED)
        yield place.change(kind, before, after, Effect.WORDS, detail=keyword)


def _types(place: Place, old: Unfolded, new: Unfolded) -> Iterator[Change]:
    before, after = kinds(old), kinds(new)
    if before == after:
        return
    was, is_ = _covered(before), _covered(after)
    effect = _effect(lost=not was <= is_, gained=not is_ <= was)
    if effect is Effect.NEITHER:
        return
    now = "may be of any type now" if after is None else f"has to be {_named(after)} now"
    detail = now + ("; before, of any type" if before is None else f"; before, {_named(before)}")
    yield place.change(
        ChangeKind.TYPE_CHANGED, old.get("type", _MISSING), new.get("type", _MISSING), effect, detail=detail
    )


def _covered(types: frozenset[str] | None) -> frozenset[str]:
    if types is None:
        return _ALL_TYPES | {"integer"}
    return types | {"integer"} if "number" in types else types


def _named(types: frozenset[str]) -> str:
    names = sorted(types - {"null"}) + sorted(types & {"null"})
    spelt = [name if name == "null" else f"an {name}" if name[:1] in "aio" else f"a {name}" for name in names]
    return " or ".join(spelt)


def _values(place: Place, old: Unfolded, new: Unfolded) -> Iterator[Change]:
    before, after = old.get("enum", _MISSING), new.get("enum", _MISSING)
    was, is_ = before[0], after[0]
    if not isinstance(was, list) or not isinstance(is_, list):
        if isinstance(is_, list):
            yield place.change(ChangeKind.ENUM_ADDED, before, after, Effect.NARROWS)
        elif isinstance(was, list):
            yield place.change(ChangeKind.ENUM_REMOVED, before, after, Effect.WIDENS)
        return
    gone = _without(was, is_)
    come = _without(is_, was)
    if gone and come and len(was) == len(is_) == 1:
        yield place.change(ChangeKind.CONST_CHANGED, (was[0], before[1]), (is_[0], after[1]), Effect.EITHER)
        return
    if gone:
        yield place.change(ChangeKind.ENUM_VALUES_REMOVED, (gone, before[1]), (None, after[1]), Effect.NARROWS)
    if come:
        yield place.change(ChangeKind.ENUM_VALUES_ADDED, (None, before[1]), (come, after[1]), Effect.WIDENS)


def _without(values: list[JsonValue], others: list[JsonValue]) -> list[JsonValue]:
    texts = {other for other in others if isinstance(other, str)}
    return [
        value
        for value in values
        if (value not in texts if isinstance(value, str) else not any(same(value, other) for other in others))
    ]


def _pattern(place: Place, old: Unfolded, new: Unfolded) -> Iterator[Change]:
    before, after = old.get("pattern", _MISSING), new.get("pattern", _MISSING)
    if before[0] == after[0]:
        return
    if before[1] is None:
        yield place.change(ChangeKind.PATTERN_ADDED, before, after, Effect.NARROWS)
    elif after[1] is None:
        yield place.change(ChangeKind.PATTERN_REMOVED, before, after, Effect.WIDENS)
    else:
        yield place.change(ChangeKind.PATTERN_CHANGED, before, after, Effect.EITHER)


def _bounds(place: Place, old: Unfolded, new: Unfolded, keywords: tuple[str, ...], *, upper: bool) -> Iterator[Change]:
    before, after = _tightest(old, keywords, upper=upper), _tightest(new, keywords, upper=upper)
    if before is None and after is None:
        return
    tightened = ChangeKind.UPPER_BOUND_TIGHTENED if upper else ChangeKind.LOWER_BOUND_TIGHTENED
    loosened = ChangeKind.UPPER_BOUND_LOOSENED if upper else ChangeKind.LOWER_BOUND_LOOSENED
    if before is None and after is not None:
        yield place.change(tightened, _MISSING, after[1], Effect.NARROWS)
    elif after is None and before is not None:
        yield place.change(loosened, before[1], _MISSING, Effect.WIDENS)
    elif before is not None and after is not None and before[0] != after[0]:
        if before[0] < after[0]:
            yield place.change(tightened, before[1], after[1], Effect.NARROWS)
        else:
            yield place.change(loosened, before[1], after[1], Effect.WIDENS)


def _tightest(
    found: Unfolded, keywords: tuple[str, ...], *, upper: bool
) -> tuple[tuple[float, bool], tuple[JsonValue, str | None]] | None:
    """How tight a bound is (the more, the tighter; one that excludes itself is tighter), and what says so."""
    tightest: tuple[tuple[float, bool], tuple[JsonValue, str | None]] | None = None
    for keyword in keywords:
        value, pointer = found.get(keyword, _MISSING)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        key = (-value if upper else value, keyword.startswith("exclusive"))
        if tightest is None or key > tightest[0]:
            tightest = (key, (value, pointer))
    return tightest


def _multiple(place: Place, old: Unfolded, new: Unfolded) -> Iterator[Change]:
    before, after = old.get("multipleOf", _MISSING), new.get("multipleOf", _MISSING)
    if before[0] != after[0]:
        effect = _effect(lost=after[1] is not None, gained=before[1] is not None)
        yield place.change(ChangeKind.MULTIPLE_CHANGED, before, after, effect)


def _unique(place: Place, old: Unfolded, new: Unfolded) -> Iterator[Change]:
    before, after = old.get("uniqueItems", _MISSING), new.get("uniqueItems", _MISSING)
    if (before[0] is True) != (after[0] is True):
        kind, effect = (
            (ChangeKind.UNIQUE_REQUIRED, Effect.NARROWS)
            if after[0] is True
            else (ChangeKind.UNIQUE_LIFTED, Effect.WIDENS)
        )
        yield place.change(kind, before, after, effect)


def _dependencies(place: Place, old: Unfolded, new: Unfolded) -> Iterator[Change]:
    before, after = old.get("dependentRequired", _MISSING), new.get("dependentRequired", _MISSING)
    was = before[0] if isinstance(before[0], dict) else {}
    is_ = after[0] if isinstance(after[0], dict) else {}
    for name in [*is_, *(name for name in was if name not in is_)]:
        had, has = was.get(name), is_.get(name)
        had = had if isinstance(had, list) else []
        has = has if isinstance(has, list) else []
        about = Place(below(place.where, name), place.aside, place.sign, place.part)
        if come := _without(has, had):
            kind = ChangeKind.DEPENDENCY_ADDED
            yield about.change(
                kind, (None, before[1]), (list(come), after[1]), Effect.NARROWS, detail="dependentRequired"
            )
        if gone := _without(had, has):
            kind = ChangeKind.DEPENDENCY_REMOVED
            yield about.change(
                kind, (list(gone), before[1]), (None, after[1]), Effect.WIDENS, detail="dependentRequired"
            )


def below(where: str, name: str) -> str:
    """The name of a member of a value that has a name."""
    return f"{where}.{name}" if where else name


def _effect(*, lost: bool, gained: bool) -> Effect:
    if lost and gained:
        return Effect.EITHER
    return Effect.NARROWS if lost else Effect.WIDENS if gained else Effect.NEITHER
