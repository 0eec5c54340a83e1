"""A pattern as a tree, and why one is not read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from broker.domain.schema.charsets import CharSet


@dataclass(frozen=True, slots=True)
class Unportable:
    """Why a pattern is not read, or not read the same everywhere. position: 0-based, in characters."""

    position: int
    why: str
    keyword: str = "pattern"

    def __str__(self) -> str:
        return f"{self.why}, at character {self.position + 1}"


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of a set."""

    chars: CharSet


@dataclass(frozen=True, slots=True)
class Start:
    """The start of the string."""


@dataclass(frozen=True, slots=True)
class End:
    """The end of the string."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """What follows matches the body, or does not where it is refused."""

    refused: bool
    body: Node


@dataclass(frozen=True, slots=True)
class Sequence:
    """One after the other."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Any of them."""

    branches: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """Low to high times; None is without end."""

    item: Node
    low: int
    high: int | None


Node: TypeAlias = Chars | Start | End | Ahead | Sequence | Choice | Repeat


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern as a tree. classes, ahead: the first place where validators may read it differently."""

    root: Node
    classes: Unportable | None
    ahead: Unportable | None
    spelling: Unportable | None
