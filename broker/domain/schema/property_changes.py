"""What changed about the names of an object: properties that come and go, that have to be there, and unknown names.

| change                                    | in the closed view                                                       |
|-------------------------------------------|--------------------------------------------------------------------------|
| a property comes, not required            | widens: its name was refused                                              |
| a property comes, required                | narrows and widens                                                        |
| a property goes                           | narrows: its name is refused                                              |
| `additionalProperties: false` comes, goes | neither, where properties are listed: unknown names are refused either way |
| `additionalProperties: true` comes, goes  | opens a free map, closes it, where none are listed                         |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from broker.domain.canonical import JsonValue
from broker.domain.schema.changes import Change, ChangeKind, Effect
from broker.domain.schema.dialect import escape
from broker.domain.schema.likeness import Likeness
from broker.domain.schema.place_changes import Place, below
from broker.domain.schema.unfolded import Unfolded, kinds

Listed = dict[str, tuple[JsonValue, str]]


def listed(found: Unfolded, keyword: str = "properties") -> Listed:
    """The members of a map of schemas, each with its pointer."""
    value, pointer = found.get(keyword, (None, ""))
    return (
        {name: (node, f"{pointer}/{escape(name)}") for name, node in value.items()} if isinstance(value, dict) else {}
    )


# What may list names too: `additionalProperties` does not see those, the closed view does.
_BESIDE: Final = ("$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas")


class Properties:
    """The names of one object in both schemas."""

    def __init__(self, place: Place, old: Unfolded, new: Unfolded, *, position: bool, likeness: Likeness) -> None:
        self._place = place
        self._old = old
        self._new = new
        self._position = position
        self._was = listed(old)
        self._is = listed(new)
        self._had = _required(old)
        self._has = _required(new)
        self._gone = {name: node for name, (node, _) in self._was.items() if name not in self._is}
        come = {name: node for name, (node, _) in self._is.items() if name not in self._was}
        self._renames = likeness.renamed(self._gone, come) if position else {}

    def both(self) -> Iterator[tuple[str, tuple[JsonValue, str], tuple[JsonValue, str]]]:
        """The properties that both have, renamed ones among them: places of their own."""
        back = {new_name: old_name for old_name, new_name in self._renames.items()}
        for name, after in self._is.items():
            before = self._was.get(name) or self._was.get(back.get(name, ""))
            if before is not None:
                yield below(self._place.where, name), before, after

    def changes(self) -> Iterator[Change]:
        """What came of the names."""
        for old_name, new_name in self._renames.items():
            yield self._renamed(old_name, new_name)
            yield from self._demanded(old_name, new_name)
        for name in self._is:
            if name in self._was:
                yield from self._demanded(name, name)
            elif name not in self._renames.values():
                yield self._added(name)
        for name in self._gone:
            if name not in self._renames:
                yield self._removed(name)
        for name in sorted((self._had.keys() | self._has.keys()) - self._was.keys() - self._is.keys()):
            yield from self._demanded(name, name)
        yield from self._unknown()

    def _about(self, name: str) -> Place:
        return replace(self._place, where=below(self._place.where, name))

    def _added(self, name: str) -> Change:
        required = name in self._has
        kind = ChangeKind.PROPERTY_ADDED_REQUIRED if required else ChangeKind.PROPERTY_ADDED_OPTIONAL
        effect = Effect.EITHER if required or not self._position else Effect.WIDENS
        if self._place.output:
            effect = Effect.NARROWS
        detail = _summary(self._is[name][0], required=required)
        return self._about(name).change(kind, (None, None), self._is[name], effect, detail=detail)

    def _removed(self, name: str) -> Change:
        effect = Effect.NARROWS if self._position else Effect.EITHER
        if self._place.output:
            effect = Effect.WIDENS
        detail = _summary(self._was[name][0], required=name in self._had)
        return self._about(name).change(
            ChangeKind.PROPERTY_REMOVED, self._was[name], (None, None), effect, detail=detail
        )

    def _renamed(self, old_name: str, new_name: str) -> Change:
        detail = _summary(self._was[old_name][0], required=old_name in self._had)
        before, after = self._was[old_name], self._is[new_name]
        return self._about(old_name).change(
            ChangeKind.PROPERTY_RENAMED, (old_name, before[1]), (new_name, after[1]), Effect.EITHER, detail=detail
        )

    def _demanded(self, old_name: str, new_name: str) -> Iterator[Change]:
        """Whether a name of both has to be there, where that changed."""
        had, has = self._had.get(old_name), self._has.get(new_name)
        if had is None and has is not None:
            before = self._was[old_name][1] if old_name in self._was else None
            yield self._about(new_name).change(
                ChangeKind.REQUIRED_ADDED, (None, before), (new_name, has), Effect.NARROWS
            )
        elif had is not None and has is None:
            after = self._is[new_name][1] if new_name in self._is else None
            yield self._about(new_name).change(
                ChangeKind.REQUIRED_REMOVED, (old_name, had), (None, after), Effect.WIDENS
            )

    def _unknown(self) -> Iterator[Change]:
        for keyword in ("additionalProperties", "unevaluatedProperties"):
            before, after = self._old.get(keyword, (None, None)), self._new.get(keyword, (None, None))
            if not all(value is None or isinstance(value, bool) or value == {} for value in (before[0], after[0])):
                continue  # a map, of which the values have a schema
            was, is_ = before[0] is not False, after[0] is not False
            mapped, maps = _free(before[0], self._was), _free(after[0], self._is)
            if was == is_ and (mapped == maps or not self._position or before[0] == after[0]):
                continue
            opens = is_ if was != is_ else maps
            effect = Effect.WIDENS if opens else Effect.NARROWS
            if self._place.output or (self._position and mapped == maps):
                other = "unevaluatedProperties" if keyword == "additionalProperties" else "additionalProperties"
                alone = not {other, *_BESIDE} & (self._old.keys() | self._new.keys())
                effect = Effect.NEITHER if alone or self._place.output else Effect.EITHER
            kind = ChangeKind.UNKNOWN_ACCEPTED if opens else ChangeKind.UNKNOWN_REFUSED
            yield self._place.change(kind, before, after, effect, detail=keyword)


def _free(value: JsonValue, properties: Listed) -> bool:
    """Whether the closed view leaves the object a free map; `{}` says so more plainly than `true`."""
    return value == {} or (value is True and not properties)


def _required(found: Unfolded) -> dict[str, str]:
    """The names that have to be there, each with the pointer of where that is said."""
    value, pointer = found.get("required", (None, ""))
    names = value if isinstance(value, list) else []
    return {name: f"{pointer}/{index}" for index, name in enumerate(names) if isinstance(name, str)}


def _summary(node: JsonValue, *, required: bool) -> str:
    """What a property is, in two or three words."""
    demanded = "required" if required else "optional"
    kind = kinds({"type": (node.get("type"), "")}) if isinstance(node, dict) else None
    return f"{demanded} {' or '.join([*sorted(kind - {'null'}), *(kind & {'null'})])}" if kind else demanded
