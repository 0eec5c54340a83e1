"""One YAML file to located nodes, from the parser's events, with every problem at file:line:column.

1. UTF-8, at most 1 MiB, nested at most 32 deep; a byte-order mark only at the very beginning.
2. Refused wherever they stand, since readers disagree on them or a reviewer cannot see them: tabs, line breaks that
   only YAML 1.1 knows, several documents, directives, tags, anchors and aliases, merge keys, keys that are not text.
3. No key twice in one map, compared after unescaping.
4. Scalars as in `scalars`.

A syntax error ends the file, since nothing behind it has one reading; everything else is collected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from broker.adapters.policyfile.scalars import AmbiguousError, read_plain
from broker.domain.policy.located import UNREADABLE, Entry, Located, Problem, Problems, Value, child_pointer

MAX_BYTES: Final = 1_048_576
MAX_DEPTH: Final = 32
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STRAY: Final = re.compile("[\t\ufeff\x85\u2028\u2029]")
_STRAYS: Final = {
    "\t": ("yaml.tab", "a tab", "use spaces"),
    "\ufeff": ("yaml.bom", "a byte-order mark in the middle of the file", "take it out"),
}
_BREAK: Final = ("yaml.line-break", "a line break that only some readers know", "use an ordinary line break")


def read_document(content: bytes, *, file: str, problems: Problems) -> Located | None:
    """The root of a YAML file; None where it has none that can be read."""
    text = _decode(content, file, problems)
    if text is None:
        return None
    strays = set()
    for number, content_line in enumerate(text.split("\n"), 1):
        for stray in _STRAY.finditer(content_line):
            rule, what, mend = _STRAYS.get(stray[0], _BREAK)
            problems.add(Problem(file, number, stray.start() + 1, "", rule, f"{what} was found", mend))
            strays.add(number)
    try:
        return _Builder(file, problems).build(yaml.parse(text, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        # What a stray character leads to is not a problem of its own.
        if line not in strays:
            words = " ".join(filter(None, (error.context, error.problem)))
            mend = "quote text that holds `: `, ` #` or begins with a sign of YAML; check the indentation"
            problems.add(Problem(file, line, column, "", "yaml.syntax", words or "not YAML", mend))
    except yaml.YAMLError:  # characters that YAML does not have
        line, column = _first_unprintable(text)
        message, mend = "a character that YAML does not allow was found", "take it out, or write it as an escape"
        problems.add(Problem(file, line, column, "", "yaml.character", message, mend))
    return None


def _decode(content: bytes, file: str, problems: Problems) -> str | None:
    if len(content) > MAX_BYTES:
        message = f"{len(content)} bytes, at most {MAX_BYTES} are read"
        problems.add(Problem(file, 1, 1, "", "file.size", message, "split it"))
        return None
    try:
        return content.decode("utf-8").removeprefix("\ufeff").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        problems.add(Problem(file, line, column, "", "yaml.encoding", "not UTF-8 here", "save the file as UTF-8"))
        return None


def _first_unprintable(text: str) -> tuple[int, int]:
    for number, line in enumerate(text.split("\n"), 1):
        for column, character in enumerate(line, 1):
            if not character.isprintable():
                return number, column
    return 1, 1


class _Builder:
    """Turns one stream of events into located nodes."""

    def __init__(self, file: str, problems: Problems) -> None:
        self._file = file
        self._problems = problems
        self._events: Iterator[Any] = iter(())

    def build(self, events: Iterator[Any]) -> Located | None:
        self._events = events
        root: Located | None = None
        documents = 0
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                place = self._at(event, "")
                if event.version or event.tags:
                    self._problems.report(place, "yaml.directive", "a directive was found", mend="take it out")
                if documents > 1:
                    message = "a second document begins here"
                    self._problems.report(place, "yaml.documents", message, mend="one file is one document")
            elif isinstance(event, yaml.NodeEvent):
                node = self._node(event, "", 0)
                root = root if documents > 1 else node
        if documents == 0:
            message, mend = "the file is empty", "write it, or take it away"
            self._problems.add(Problem(self._file, 1, 1, "", "yaml.empty", message, mend))
        return root

    def _at(self, event: Any, pointer: str, value: Value = UNREADABLE) -> Located:
        mark = event.start_mark
        return Located(value, self._file, mark.line + 1, mark.column + 1, pointer)

    def _refuse(self, event: Any, pointer: str, rule: str, message: str, mend: str) -> Located:
        place = self._at(event, pointer)
        self._problems.report(place, rule, message, mend=mend)
        return place

    def _node(self, event: Any, pointer: str, depth: int) -> Located:
        if isinstance(event, yaml.AliasEvent):
            return self._refuse(event, pointer, "yaml.alias", "an alias was found", "write the value out")
        if event.anchor is not None:
            self._refuse(event, pointer, "yaml.alias", "an anchor was found", "write values out where they are used")
        if event.tag is not None:
            self._refuse(event, pointer, "yaml.tag", "a tag was found", "take it out; quote text instead")
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event, pointer)
        if depth == MAX_DEPTH:
            self._refuse(event, pointer, "yaml.depth", f"nested deeper than {MAX_DEPTH}", "flatten it")
        # Beyond the limit the children are still consumed, without recursion, to find the end.
        if depth >= MAX_DEPTH:
            self._skip()
            return self._at(event, pointer)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(event, pointer, depth)
        return self._mapping(event, pointer, depth)

    def _skip(self) -> None:
        level = 1
        while level:
            event = next(self._events)
            if isinstance(event, yaml.CollectionStartEvent):
                level += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                level -= 1

    def _scalar(self, event: Any, pointer: str) -> Located:
        if event.style in ("'", '"', "|", ">"):
            if not event.value.isascii() and any("\ud800" <= character <= "\udfff" for character in event.value):
                return self._refuse(event, pointer, "yaml.character", "half a character was found", "take it out")
            return self._at(event, pointer, event.value)
        try:
            return self._at(event, pointer, read_plain(event.value))
        except AmbiguousError:
            message = f"{event.value[:40]} is read as different values by different readers of YAML"
            return self._refuse(event, pointer, "yaml.ambiguous", message, f'quote it: "{event.value[:40]}"')

    def _sequence(self, event: Any, pointer: str, depth: int) -> Located:
        items: list[Located] = []
        while not isinstance(child := next(self._events), yaml.SequenceEndEvent):
            items.append(self._node(child, child_pointer(pointer, len(items)), depth + 1))
        return self._at(event, pointer, tuple(items))

    def _mapping(self, event: Any, pointer: str, depth: int) -> Located:
        entries: dict[str, Entry] = {}
        while not isinstance(key_event := next(self._events), yaml.MappingEndEvent):
            key = self._key(key_event, pointer, depth)
            name = key.value if isinstance(key.value, str) else None
            value = self._node(next(self._events), key.pointer, depth + 1)
            if name is None:
                continue
            first = entries.get(name)
            if first is None:
                entries[name] = Entry(key, value)
            else:
                message = f"the key {name[:80]!r} stands twice in one map, first on line {first.key.line}"
                self._problems.report(key, "yaml.duplicate-key", message, mend="keep one of them")
        return self._at(event, pointer, entries)

    def _key(self, event: Any, pointer: str, depth: int) -> Located:
        if isinstance(event, yaml.ScalarEvent):
            if event.value == "<<" and event.style not in ("'", '"'):
                return self._refuse(event, pointer, "yaml.merge", "a merge key was found", "write the entries out")
            below = child_pointer(pointer, event.value)
            key = self._node(event, below, depth)
            if key.readable and not isinstance(key.value, str):
                return self._refuse(
                    event,
                    below,
                    "yaml.key",
                    f"the key {event.value[:40]} is not text",
                    f'quote it: "{event.value[:40]}"',
                )
            return key
        key = self._node(event, pointer, depth + 1)
        self._problems.report(key, "yaml.key", "the key is not text", mend="write a text key")
        return self._at(event, pointer)
