"""What changed from one contract to the next, and what class of change it is.

| class                    | when                                                                                    |
|--------------------------|-----------------------------------------------------------------------------------------|
| `none`                   | nothing changed that a caller, a reader or a model could tell                             |
| `semantic only`          | words alone: titles, descriptions, defaults, formats, examples, hints. Someone reads them |
| `breaking`               | inputs are lost, or that is not proved otherwise; or a reader of the output may meet what   |
|                          | it does not know: a value that is new, or that may be missing now                          |
| `renamed`                | inputs are lost by new names of properties alone; or the tool has another name             |
| `prose became structure` | inputs are lost, each by a rule that stood in the old description: breaking for a model     |
|                          | that took it for advice                                                                  |
| `compatible`             | something else changed, and no input is lost                                              |

Where several fit: `breaking` before `renamed` before `prose became structure` before `compatible`. Clients that allow tools by
exact names stop calling a renamed one without an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.contracts.contract import ToolContract
from broker.domain.contracts.prose import said_before
from broker.domain.schema.answers import No, Related
from broker.domain.schema.changes import Change, ChangeKind, Effect
from broker.domain.schema.dialect import escape
from broker.domain.schema.differences import schema_changes
from broker.domain.schema.place_changes import same

_RENAMED: Final = (ChangeKind.PROPERTY_RENAMED, ChangeKind.TOOL_RENAMED)
_MISSING: Final = (None, None)


class ChangeClass(StrEnum):
    """What a change is to callers; the names are those of `change: {class: …}`."""

    NONE = "none"
    SEMANTIC_ONLY = "semantic only"
    BREAKING = "breaking"
    RENAMED = "renamed"
    PROSE_BECAME_STRUCTURE = "prose became structure"
    COMPATIBLE = "compatible"


def contract_changes(old: ToolContract, new: ToolContract) -> tuple[Change, ...]:
    """Every change, with pointers into the contracts: names, inputs, outputs, then words about the tool."""
    return tuple(_changes(old.members, new.members))


def classify(changes: Sequence[Change], closed: Related) -> ChangeClass:
    """The class of a step (see the table). closed: the relation of the inputs as the gate accepts them."""
    if not changes:
        return ChangeClass.NONE
    if all(change.effect is Effect.WORDS and change.kind not in _RENAMED for change in changes):
        return ChangeClass.SEMANTIC_ONLY
    renamed = any(change.kind in _RENAMED and not change.output for change in changes)
    if any(change.output and change.widens for change in changes):
        return ChangeClass.BREAKING
    if isinstance(closed.lost, No):
        return ChangeClass.RENAMED if renamed else ChangeClass.COMPATIBLE
    narrowing = [change for change in changes if change.narrows and change.kind not in _RENAMED]
    if not all(change.prose for change in narrowing):
        return ChangeClass.BREAKING
    if renamed:
        return ChangeClass.RENAMED
    return ChangeClass.PROSE_BECAME_STRUCTURE if narrowing else ChangeClass.BREAKING


def _changes(old: JsonObject, new: JsonObject) -> Iterator[Change]:
    if old.get("name") != new.get("name"):
        yield Change(
            ChangeKind.TOOL_RENAMED, "/name", "/name", old.get("name"), new.get("name"), Effect.NEITHER, part="tool"
        )
    for change in _schema(old, new, "inputSchema"):
        yield replace(change, prose=said_before(change, old)) if change.narrows else change
    yield from _output(old, new)
    for member, kind in (("title", ChangeKind.TITLE_CHANGED), ("description", ChangeKind.DESCRIPTION_CHANGED)):
        if old.get(member) != new.get(member):
            yield _words(kind, old, new, f"/{member}", member)
    before, after = old.get("annotations"), new.get("annotations")
    was = before if isinstance(before, dict) else {}
    is_ = after if isinstance(after, dict) else {}
    for name in sorted(was.keys() | is_.keys()):
        if name not in was or name not in is_ or not same(was[name], is_[name]):
            kind = ChangeKind.TITLE_CHANGED if name == "title" else ChangeKind.ANNOTATION_CHANGED
            yield _words(kind, was, is_, f"/annotations/{escape(name)}", name)


def _schema(old: JsonObject, new: JsonObject, member: str) -> Iterator[Change]:
    before, after = old[member], new[member]
    assert isinstance(before, dict)  # parse_contract saw to it
    assert isinstance(after, dict)
    for change in schema_changes(before, after, output=member == "outputSchema"):
        yield replace(
            change,
            pointer_old=None if change.pointer_old is None else f"/{member}{change.pointer_old}",
            pointer_new=None if change.pointer_new is None else f"/{member}{change.pointer_new}",
        )


def _output(old: JsonObject, new: JsonObject) -> Iterator[Change]:
    pointer = "/outputSchema"
    if "outputSchema" in old and "outputSchema" in new:
        yield from _schema(old, new, "outputSchema")
    elif "outputSchema" in new:
        after = new["outputSchema"]
        yield Change(ChangeKind.OUTPUT_ADDED, None, pointer, None, after, Effect.NARROWS, part="output")
    elif "outputSchema" in old:
        before = old["outputSchema"]
        yield Change(ChangeKind.OUTPUT_REMOVED, pointer, None, before, None, Effect.WIDENS, part="output")


def _words(kind: ChangeKind, old: JsonObject, new: JsonObject, pointer: str, name: str) -> Change:
    before: tuple[JsonValue, str | None] = (old[name], pointer) if name in old else _MISSING
    after: tuple[JsonValue, str | None] = (new[name], pointer) if name in new else _MISSING
    return Change(kind, before[1], after[1], before[0], after[0], Effect.WORDS, detail=name, part="tool")
