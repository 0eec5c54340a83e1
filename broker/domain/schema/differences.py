"""The changes from one schema to another, place by place.

1. Both are walked together, as `unfolded` says: what is spelled otherwise and means the same is no change. Names of definitions,
   the order of keys, of `enum`, `required` and equal options are none either.
2. A pair of places is looked at once, however often references lead there; recursion ends so.
3. In the closed view, a name that an object does not list is refused. So a property that comes widens, one that goes narrows,
   and `additionalProperties: false` beside listed properties changes nothing. For what a tool gives, it is its readers who
   lose: a property that goes, a value that may come or be missing widens; one that comes does not.
4. Whatever bears on acceptance and differs is said: no change but words means that the same is accepted. More than some
   thousand pairs are not walked, and that is said too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.schema.changes import Change, ChangeKind, Effect, Part
from broker.domain.schema.dialect import LISTS, MAPS, SINGLES, escape
from broker.domain.schema.likeness import Likeness
from broker.domain.schema.place_changes import Place, below, changes_at, same, wording_at
from broker.domain.schema.property_changes import Properties, listed
from broker.domain.schema.unfolded import Document, Unfolded

_MAX_PAIRS: Final = 5_000
_STRUCTURAL: Final = frozenset(
    (
        *MAPS, *LISTS, *SINGLES, "", "$ref", "$dynamicRef", "$recursiveRef", "type", "enum", "const", "pattern", "required",
        "dependentRequired", "multipleOf", "uniqueItems", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum",
        "maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties", "maxContains", "minContains",
    )
) - {"additionalItems"}  # fmt: skip  # no keyword any more where it is still there once unfolded
_ASIDE: Final = {
    "not": "what it may not be",
    "if": "its `if`",
    "then": "its `then`",
    "else": "its `else`",
    "contains": "one of its items",
    "propertyNames": "its names",
    "unevaluatedItems": "its other items",
    "unevaluatedProperties": "its other members",
    "$ref": "what it refers to",
}
_NOTHING_SAID: Final = ("items", "propertyNames", "unevaluatedItems", "then", "else")  # where they accept everything
_EITHER: Final = ("if", "contains", "additionalProperties", "unevaluatedProperties", "patternProperties", "$ref")
_ABSENT: Final = (None, None)


@dataclass(frozen=True, slots=True)
class Pair:
    """A place in both documents. position: whether it is one that the closed view closes."""

    old: JsonValue
    pointer_old: str
    new: JsonValue
    pointer_new: str
    where: str = ""
    aside: str = ""
    sign: int = 1
    position: bool = True


def schema_changes(old: JsonObject, new: JsonObject, *, output: bool = False) -> tuple[Change, ...]:
    """What changed from one schema to the other, in the order of the new one. output: of what a tool gives, not takes."""
    return tuple(_Walk(old, new, output=output).changes())


class _Walk:
    """One comparison."""

    def __init__(self, old: JsonObject, new: JsonObject, *, output: bool) -> None:
        self._old = Document(old)
        self._new = Document(new)
        self._part: Part = "output" if output else "input"
        self._likeness = Likeness(self._old, self._new)
        self._seen: set[tuple[int, int, int, bool]] = set()
        self._plain = not (_refers(old) or _refers(new)) and old.get("$schema") == new.get("$schema")

    def changes(self) -> Iterator[Change]:
        old, new = self._old.root, self._new.root
        if old.get("$schema") != new.get("$schema"):
            before, after = _entry(old, "$schema", ""), _entry(new, "$schema", "")
            yield self._place(Pair(old, "", new, "")).change(ChangeKind.DIALECT_CHANGED, before, after, Effect.WORDS)
        pending = [Pair(old, "", new, "")]
        while pending:
            pair = pending.pop()
            if self._known(pair):
                continue
            if len(self._seen) > _MAX_PAIRS:
                where = (pair.old, pair.pointer_old), (pair.new, pair.pointer_new)
                detail = "there are too many places"
                yield self._place(pair).change(ChangeKind.NOT_COMPARED, *where, Effect.EITHER, detail=detail)
                return
            inner: list[Pair] = []
            yield from self._at(pair, inner)
            pending.extend(reversed(inner))

    def _known(self, pair: Pair) -> bool:
        """Whether there is nothing to look at: seen before, or the same text without references."""
        if isinstance(pair.old, dict) and isinstance(pair.new, dict):
            if self._plain and pair.old == pair.new and same(pair.old, pair.new):
                return True
            key = (id(pair.old), id(pair.new), pair.sign, pair.position)
            if key in self._seen:
                return True
            self._seen.add(key)
            return False
        return isinstance(pair.old, bool) and pair.old is pair.new

    def _place(self, pair: Pair) -> Place:
        return Place(pair.where, pair.aside, pair.sign, self._part)

    def _at(self, pair: Pair, inner: list[Pair]) -> Iterator[Change]:
        old = self._old.unfold(pair.old, pair.pointer_old)
        new = self._new.unfold(pair.new, pair.pointer_new)
        place = self._place(pair)
        if "" in old or "" in new:
            where = (pair.old, pair.pointer_old), (pair.new, pair.pointer_new)
            if not same(pair.old, pair.new):
                yield place.change(ChangeKind.CONSTRAINT_CHANGED, *where, Effect.EITHER, detail="schema")
            return
        yield from changes_at(place, old, new)
        names = Properties(place, old, new, position=pair.position, likeness=self._likeness)
        yield from names.changes()
        for named, (had, pointer_old), (has, pointer_new) in names.both():
            inner.append(Pair(had, pointer_old, has, pointer_new, named, pair.aside, pair.sign, pair.position))
        yield from self._maps(pair, old, new, inner)
        yield from self._singles(pair, old, new, inner)
        yield from self._prefix(pair, old, new, inner)
        yield from self._options(pair, old, new, inner)
        yield from wording_at(place, old, new, _STRUCTURAL)

    def _maps(self, pair: Pair, old: Unfolded, new: Unfolded, inner: list[Pair]) -> Iterator[Change]:
        for keyword in ("patternProperties", "dependentSchemas"):
            was, is_ = listed(old, keyword), listed(new, keyword)
            for name in [*is_, *(name for name in was if name not in is_)]:
                told = f"names like {name}" if keyword == "patternProperties" else f"where it has {name}"
                aside = f"{pair.aside}, {told}" if pair.aside else told
                change = self._one(pair, keyword, was.get(name), is_.get(name), aside, pair.sign, False, inner)
                if change is not None:
                    yield change

    def _singles(self, pair: Pair, old: Unfolded, new: Unfolded, inner: list[Pair]) -> Iterator[Change]:
        for keyword in ("items", "additionalProperties", *_ASIDE):
            was, is_ = self._single(old, keyword, self._old), self._single(new, keyword, self._new)
            sign = -pair.sign if keyword == "not" else 0 if keyword in ("if", "contains") else pair.sign
            aside = _ASIDE.get(keyword, "")
            aside = f"{pair.aside}, {aside}" if pair.aside and aside else aside or pair.aside
            position = pair.position and keyword in ("items", "$ref")
            where = {"items": f"{pair.where}[]", "additionalProperties": below(pair.where, "*")}.get(
                keyword, pair.where
            )
            change = self._one(pair, keyword, was, is_, aside, sign, position, inner, where=where)
            if change is not None:
                yield change

    def _prefix(self, pair: Pair, old: Unfolded, new: Unfolded, inner: list[Pair]) -> Iterator[Change]:
        was, is_ = _numbered(old, "prefixItems"), _numbered(new, "prefixItems")
        for index, (before, after) in enumerate(zip_longest(was, is_)):
            where = f"{pair.where}[{index}]"
            change = self._one(
                pair, "prefixItems", before, after, pair.aside, pair.sign, pair.position, inner, where=where
            )
            if change is not None:
                yield change

    @staticmethod
    def _single(found: Unfolded, keyword: str, document: Document) -> tuple[JsonValue, str] | None:
        if keyword not in found:
            return None
        value, pointer = found[keyword]
        if keyword == "$ref":
            return document.target(value) or (value, pointer)
        if keyword in ("additionalProperties", "unevaluatedProperties") and isinstance(value, bool):
            return None  # `Properties` speaks of these
        if keyword == "additionalProperties" and value == {}:
            return None
        return None if keyword in _NOTHING_SAID and value in (True, {}) else (value, pointer)

    def _one(
        self,
        pair: Pair,
        keyword: str,
        was: tuple[JsonValue, str] | None,
        is_: tuple[JsonValue, str] | None,
        aside: str,
        sign: int,
        position: bool,
        inner: list[Pair],
        *,
        where: str | None = None,
    ) -> Change | None:
        """A schema under a keyword: a place of its own where both have it; else a change."""
        named = pair.where if where is None else where
        if was is not None and is_ is not None:
            inner.append(Pair(*was, *is_, named, aside, sign, position))
            return None
        if was is None and is_ is None:
            return None
        place = self._place(pair)
        either = keyword in _EITHER
        if is_ is not None:
            effect = Effect.EITHER if either else Effect.NARROWS
            return place.change(ChangeKind.CONSTRAINT_ADDED, _ABSENT, is_, effect, detail=keyword)
        effect = Effect.EITHER if either else Effect.WIDENS
        return place.change(ChangeKind.CONSTRAINT_REMOVED, was or _ABSENT, _ABSENT, effect, detail=keyword)

    def _options(self, pair: Pair, old: Unfolded, new: Unfolded, inner: list[Pair]) -> Iterator[Change]:
        for keyword in ("allOf", "anyOf", "oneOf"):
            was, is_ = _numbered(old, keyword), _numbered(new, keyword)
            place = self._place(pair)
            if bool(was) != bool(is_):
                before, after = old.get(keyword, _ABSENT), new.get(keyword, _ABSENT)
                kind, effect = (
                    (ChangeKind.CONSTRAINT_ADDED, Effect.NARROWS)
                    if is_
                    else (ChangeKind.CONSTRAINT_REMOVED, Effect.WIDENS)
                )
                yield place.change(kind, before, after, effect, detail=keyword)
                continue
            for one, other in self._likeness.paired([node for node, _ in was], [node for node, _ in is_]):
                if one is not None and other is not None:
                    told = f"option {other + 1}" if keyword != "allOf" else f"condition {other + 1}"
                    aside = f"{pair.aside}, {told}" if pair.aside else told
                    sign = 0 if keyword == "oneOf" else pair.sign
                    inner.append(Pair(*was[one], *is_[other], pair.where, aside, sign, False))
                    continue
                added = other is not None
                kind = ChangeKind.BRANCH_ADDED if added else ChangeKind.BRANCH_REMOVED
                effect = Effect.NARROWS if added == (keyword == "allOf") else Effect.WIDENS
                before = was[one] if one is not None else _ABSENT
                after = is_[other] if other is not None else _ABSENT
                yield place.change(kind, before, after, Effect.EITHER if keyword == "oneOf" else effect, detail=keyword)


def _refers(node: JsonValue) -> bool:
    if isinstance(node, dict):
        return "$ref" in node or any(map(_refers, node.values()))
    return isinstance(node, list) and any(map(_refers, node))


def _entry(schema: JsonObject, keyword: str, pointer: str) -> tuple[JsonValue, str | None]:
    return (schema[keyword], f"{pointer}/{escape(keyword)}") if keyword in schema else _ABSENT


def _numbered(found: Unfolded, keyword: str) -> list[tuple[JsonValue, str]]:
    value, pointer = found.get(keyword, (None, ""))
    return [(node, f"{pointer}/{index}") for index, node in enumerate(value)] if isinstance(value, list) else []
