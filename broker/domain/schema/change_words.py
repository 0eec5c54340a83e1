"""A change of a schema in one sentence, as a reviewer reads it.

1. It names the value that it is about, says what holds now, and what did before.
2. It quotes at most some 80 characters of a contract, printable and on one line.
3. It says what follows where that is not plain: who is refused, who finds nothing, what the gate does either way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.domain.canonical import JsonValue
from broker.domain.schema.changes import Change, ChangeKind, Effect
from broker.domain.schema.wording import QUOTED, changed_words, plain, quoted, told_apart


def words(change: Change) -> str:
    """The change in one sentence."""
    said = _ABOUT_NAMES[change.kind](change) if change.kind in _ABOUT_NAMES else _value(change)
    return f'{said} (the description already said: "{plain(change.prose, 60)}")' if change.prose else said


def _value(change: Change) -> str:
    """What is said of a value: its name, and what became of it."""
    return f"{_name(change)} {_ABOUT_VALUES[change.kind](change)}"


def _name(change: Change) -> str:
    name = f"`{plain(change.where, 60)}`" if change.where else f"the {change.part}"
    if change.where and change.output:
        name = f"{name} of the output"
    return f"{name} ({plain(change.aside)})" if change.aside else name


def _described(change: Change) -> str:
    return f"{_name(change)} ({plain(change.detail, 40)})" if change.detail else _name(change)


def _lost_name(change: Change) -> str:
    return "readers that count on it find nothing" if change.output else "callers that send it are refused"


def _renamed(change: Change) -> str:
    result = (
        "readers find nothing under the old name" if change.output else "callers that send the old name are refused"
    )
    return f"{_described(change)} was renamed `{plain(str(change.after), 60)}`, going by their likeness; {result}"


def _tool_renamed(change: Change) -> str:
    return (
        f"the tool `{plain(str(change.before), 60)}` is called `{plain(str(change.after), 60)}` now: clients that allow "
        "tools by exact names stop calling it, without an error"
    )


def _stated(dialect: JsonValue) -> str:
    return "not stated" if dialect is None else quoted(dialect, 60)


_ABOUT_NAMES: Final[dict[ChangeKind, Callable[[Change], str]]] = {
    ChangeKind.PROPERTY_ADDED_OPTIONAL: lambda change: f"{_described(change)} was added",
    ChangeKind.PROPERTY_ADDED_REQUIRED: lambda change: (
        f"{_described(change)} was added" + ("" if change.output else "; callers that do not send it are refused")
    ),
    ChangeKind.PROPERTY_REMOVED: lambda change: f"{_described(change)} was removed; {_lost_name(change)}",
    ChangeKind.PROPERTY_RENAMED: _renamed,
    ChangeKind.TOOL_RENAMED: _tool_renamed,
    ChangeKind.OUTPUT_ADDED: lambda _: "an output schema was added: results are structured now",
    ChangeKind.OUTPUT_REMOVED: lambda _: "the output schema was removed: readers of structured results find none",
    ChangeKind.DIALECT_CHANGED: lambda change: (
        f"the dialect of the schema is {_stated(change.after)} now; it was {_stated(change.before)}"
    ),
}


def _values(value: JsonValue, joined: str = "or") -> str:
    """Values of an enum, as many as there is room for."""
    values = value if isinstance(value, list) else [value]
    shown: list[str] = []
    for item in values:
        text = quoted(item)
        if shown and sum(map(len, shown)) + len(text) > QUOTED:
            return f"{', '.join(shown)} and {len(values) - len(shown)} more"
        shown.append(text)
    return f"{', '.join(shown[:-1])} {joined} {shown[-1]}" if len(shown) > 1 else "".join(shown)


_BOUNDS: Final = {
    "maximum": ("be", "at most {}"),
    "exclusiveMaximum": ("be", "below {}"),
    "minimum": ("be", "at least {}"),
    "exclusiveMinimum": ("be", "above {}"),
    "maxLength": ("have", "at most {} characters"),
    "minLength": ("have", "at least {} characters"),
    "maxItems": ("have", "at most {} items"),
    "minItems": ("have", "at least {} items"),
    "maxProperties": ("have", "at most {} members"),
    "minProperties": ("have", "at least {} members"),
    "maxContains": ("have", "at most {} items of that kind"),
    "minContains": ("have", "at least {} items of that kind"),
}


def _limit(pointer: str | None, value: JsonValue) -> tuple[str, str]:
    """A bound in words, by the keyword that its pointer ends with."""
    verb, phrase = _BOUNDS[(pointer or "").rpartition("/")[2]]
    spelt = phrase.format(quoted(value, 40))
    return verb, spelt.replace("characters", "character").replace("items", "item") if value == 1 else spelt


def _tightened(change: Change) -> str:
    verb, limit = _limit(change.pointer_new, change.after)
    before = f"before there was no {'upper' if change.kind is ChangeKind.UPPER_BOUND_TIGHTENED else 'lower'} bound"
    if change.pointer_old is not None:
        before = f"before it had to {' '.join(_limit(change.pointer_old, change.before))}"
    return f"must now {verb} {limit}; {before}"


def _loosened(change: Change) -> str:
    verb, limit = _limit(change.pointer_old, change.before)
    if change.pointer_new is None:
        return f"no longer has to {verb} {limit}"
    return f"has to {' '.join(_limit(change.pointer_new, change.after))} now; before it had to {verb} {limit}"


def _reworded(what: str) -> Callable[[Change], str]:
    def said(change: Change) -> str:
        before, after = change.before, change.after
        if not isinstance(before, str):
            return f"has a {what} now: {quoted(after)}"
        if not isinstance(after, str):
            return f"has no {what} any more; it was {quoted(before)}"
        was, is_ = changed_words(before, after)
        if was == is_ and before.split() == after.split():
            return f"has another {what}: only spaces changed"
        return f'has another {what}: "{is_}"; it was "{was}"'

    return said


def _from_to(change: Change) -> str:
    before, after = told_apart(change.before, change.after)
    return f"{'absent' if change.pointer_new is None else after}; it was {'absent' if change.pointer_old is None else before}"


_ABOUT_VALUES: Final[dict[ChangeKind, Callable[[Change], str]]] = {
    ChangeKind.REQUIRED_ADDED: lambda change: (
        "is always given now; it could be missing" if change.output else "must now be given; it could be left out"
    ),
    ChangeKind.REQUIRED_REMOVED: lambda change: (
        "may be missing now; it was always given" if change.output else "may be left out now; it had to be given"
    ),
    ChangeKind.TYPE_CHANGED: lambda change: change.detail,
    ChangeKind.ENUM_ADDED: lambda change: f"must now be {_values(change.after)}; before, other values were accepted",
    ChangeKind.ENUM_REMOVED: lambda change: f"no longer has to be {_values(change.before)}",
    ChangeKind.ENUM_VALUES_ADDED: lambda change: f"now accepts {_values(change.after)}",
    ChangeKind.ENUM_VALUES_REMOVED: lambda change: f"no longer accepts {_values(change.before)}",
    ChangeKind.CONST_CHANGED: lambda change: (
        f"must now be {quoted(change.after, 40)}; it was {quoted(change.before, 40)}"
    ),
    ChangeKind.PATTERN_ADDED: lambda change: f"must now match {quoted(change.after)}",
    ChangeKind.PATTERN_CHANGED: lambda change: "must now match {1}; before it had to match {0}".format(
        *told_apart(change.before, change.after)
    ),
    ChangeKind.PATTERN_REMOVED: lambda change: f"no longer has to match {quoted(change.before)}",
    ChangeKind.UPPER_BOUND_TIGHTENED: _tightened,
    ChangeKind.LOWER_BOUND_TIGHTENED: _tightened,
    ChangeKind.UPPER_BOUND_LOOSENED: _loosened,
    ChangeKind.LOWER_BOUND_LOOSENED: _loosened,
    ChangeKind.MULTIPLE_CHANGED: lambda change: f"has to be a multiple of {_from_to(change)}",
    ChangeKind.UNIQUE_REQUIRED: lambda _: "must now have no item twice",
    ChangeKind.UNIQUE_LIFTED: lambda _: "may now have an item twice",
    ChangeKind.UNKNOWN_REFUSED: lambda change: f"now refuses names that it does not list{_seen_by_the_gate(change)}",
    ChangeKind.UNKNOWN_ACCEPTED: lambda change: f"now accepts names that it does not list{_seen_by_the_gate(change)}",
    ChangeKind.DEPENDENCY_ADDED: lambda change: f"needs {_values(change.after, 'and')} beside it now",
    ChangeKind.DEPENDENCY_REMOVED: lambda change: f"no longer needs {_values(change.before, 'and')} beside it",
    ChangeKind.BRANCH_ADDED: lambda change: f"has one more {_branch(change)}: {quoted(change.after)}",
    ChangeKind.BRANCH_REMOVED: lambda change: f"has one {_branch(change)} less: {quoted(change.before)}",
    ChangeKind.CONSTRAINT_ADDED: lambda change: f"has `{plain(change.detail)}` now: {quoted(change.after)}",
    ChangeKind.CONSTRAINT_CHANGED: lambda change: f"has another `{plain(change.detail)}`: {_from_to(change)}",
    ChangeKind.CONSTRAINT_REMOVED: lambda change: f"has no `{plain(change.detail)}` any more: {quoted(change.before)}",
    ChangeKind.NOT_COMPARED: lambda change: f"was not compared further: {change.detail}",
    ChangeKind.FORMAT_CHANGED: lambda change: f"says of its format, which nothing enforces: {_from_to(change)}",
    ChangeKind.DEFAULT_ADDED: lambda change: f"stands for {quoted(change.after)} now where it is left out",
    ChangeKind.DEFAULT_CHANGED: lambda change: f"stands, where it is left out, for {_from_to(change)}",
    ChangeKind.DEFAULT_REMOVED: lambda change: f"no longer stands for {quoted(change.before)} where it is left out",
    ChangeKind.TITLE_CHANGED: _reworded("title"),
    ChangeKind.DESCRIPTION_CHANGED: _reworded("description"),
    ChangeKind.EXAMPLES_CHANGED: lambda change: f"has other examples: {_from_to(change)}",
    ChangeKind.ANNOTATION_CHANGED: lambda change: f"says `{plain(change.detail, 40)}`: {_from_to(change)}",
}


def _seen_by_the_gate(change: Change) -> str:
    return "; the gate refuses those either way" if change.effect is Effect.NEITHER and not change.output else ""


def _branch(change: Change) -> str:
    return "condition that has to hold (`allOf`)" if change.detail == "allOf" else f"option (`{change.detail}`)"
