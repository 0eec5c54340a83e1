"""A value that knows where it stands in its file, and the problems that can be said about it.

1. A `Located` holds text, a whole number, a flag, nothing, a list, or a map; no floating point, no dates.
2. `UNREADABLE` stands where a problem has been reported already, so that nothing is reported twice.
3. A `Problem` names the place, the rule, what was found and expected, and the mend. All problems are collected; whoever
   looks at them sees the whole list. What may be a secret is never quoted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

from broker.domain.canonical import JsonValue
from broker.domain.errors import BrokerError
from broker.domain.schema.dialect import escape

MAX_QUOTED: Final = 80
MAX_PROBLEMS: Final = 200


class Unreadable(Enum):
    """The mark for a value about which a problem is already known."""

    MARK = "unreadable"


UNREADABLE: Final = Unreadable.MARK

Value: TypeAlias = "bool | int | str | Unreadable | tuple[Located, ...] | Mapping[str, Entry] | None"


@dataclass(frozen=True, slots=True)
class Located:
    """A value with its place: 1-based line and column, and the JSON pointer from the file's root."""

    value: Value
    file: str
    line: int
    column: int
    pointer: str

    @property
    def readable(self) -> bool:
        return self.value is not UNREADABLE

    def entries(self) -> Mapping[str, Entry]:
        """The entries of a map; none where it is something else."""
        return self.value if isinstance(self.value, Mapping) else {}

    def items(self) -> tuple[Located, ...]:
        """The members of a list; none where it is something else."""
        return self.value if isinstance(self.value, tuple) else ()

    def get(self, name: str) -> Located | None:
        """The value under a name; None where it is absent, null, or unreadable."""
        entry = self.entries().get(name)
        if entry is None or entry.value.value is None or not entry.value.readable:
            return None
        return entry.value

    def text(self, name: str) -> str | None:
        """The text under a name; None where there is none."""
        found = self.get(name)
        return found.value if found is not None and isinstance(found.value, str) else None

    def texts(self, name: str) -> tuple[str, ...]:
        """The texts of the list under a name, or the one text that stands there alone."""
        found = self.get(name)
        if found is None:
            return ()
        if isinstance(found.value, str):
            return (found.value,)
        return tuple(item.value for item in found.items() if isinstance(item.value, str))

    def children(self, name: str) -> Iterator[tuple[str, Located]]:
        """The readable entries of the map under a name, null left out."""
        found = self.get(name)
        for key, entry in found.entries().items() if found is not None else ():
            if entry.value.readable and entry.value.value is not None:
                yield key, entry.value


@dataclass(frozen=True, slots=True)
class Entry:
    """A key and its value, each with its place."""

    key: Located
    value: Located


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong in one place.

    source: the line it stands on, for the caret; empty where there is none to show.
    """

    file: str
    line: int
    column: int
    pointer: str
    rule: str
    message: str
    mend: str
    source: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        lines = [f"{place}: {self.rule}: {self.message}"]
        if self.source:
            number = str(self.line)
            lines.append(f"  {number} | {self.source}")
            lines.append(f"  {' ' * len(number)} | {' ' * (self.column - 1)}^")
        lines.append(f"  mend: {self.mend}")
        return "\n".join(lines)


class PolicyInvalidError(BrokerError):
    """The policy files are not a lawful policy.

    Raised: by `load_policy` and by a `PolicySource` that reloads; `problems` holds every problem of every file.
    Wire:   none: the broker does not start, or keeps the last good policy. The command exits with 3.
    Retry:  no, until the files are mended; each problem says how.
    """

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        count = len(self.problems)
        head = f"{count} problem{'' if count == 1 else 's'} in the policy files"
        return "\n\n".join([head, *map(str, self.problems)])


@dataclass(slots=True)
class Problems:
    """Collects problems; the first `MAX_PROBLEMS` are kept, since nobody reads more."""

    found: list[Problem] = field(default_factory=list)

    def report(self, node: Located, rule: str, message: str, *, mend: str) -> None:
        """Report a problem about a located value."""
        self.add(Problem(node.file, node.line, node.column, node.pointer, rule, message, mend))

    def add(self, problem: Problem) -> None:
        """Keep a problem; once only, since what is taken over by `extends` is seen again with each version."""
        if len(self.found) < MAX_PROBLEMS and problem not in self.found:
            self.found.append(problem)


def child_pointer(pointer: str, name: str | int) -> str:
    """The JSON pointer one step further (RFC 6901)."""
    return f"{pointer}/{escape(str(name))}"


def quote(value: Value) -> str:
    """A value as it may be shown in a message: short, on one line, with its type visible."""
    match value:
        case None:
            return "nothing"
        case bool():
            return f"the flag {'true' if value else 'false'}"
        case int():
            return f"the number {value}"
        case str():
            shown = value if len(value) <= MAX_QUOTED else value[:MAX_QUOTED] + "…"
            return f'the text "{shown.encode("unicode_escape").decode("ascii") if not shown.isprintable() else shown}"'
        case Unreadable():
            return "something unreadable"
        case tuple():
            return "a list"
        case _:
            return "a map"


def plain(node: Located) -> JsonValue:
    """The value without its places, as JSON."""
    match node.value:
        case Unreadable():
            return None
        case tuple():
            return [plain(item) for item in node.value]
        case Mapping():
            return {name: plain(entry.value) for name, entry in node.value.items()}
        case _:
            return node.value
