"""Answers to questions about sets of values: yes with a witness, no with a proof, or unknown with what stood in the way.

1. *Yes* carries one value that shows it; whoever hands out a yes has had it confirmed by the validator.
2. *No* says how it was proved. No proof, no "no".
3. *Unknown* names what could not be decided: keyword, place, why. Unknown is never read as yes or no.

The relation of two sets, old and new, is two questions: is something lost (in old, not in new)? is something gained?
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from broker.domain.canonical import JsonValue


@dataclass(frozen=True, slots=True)
class Yes:
    """There is such a value; here is one."""

    witness: JsonValue


@dataclass(frozen=True, slots=True)
class No:
    """There is none. by: how that was proved (`same text`, `cover`, `languages`, …)."""

    by: str


@dataclass(frozen=True, slots=True)
class Blocker:
    """What could not be decided.

    side:    `old` or `new`, empty where there is one schema.
    pointer: JSON pointer into that schema; empty is its root.
    """

    keyword: str
    pointer: str
    why: str
    side: str = ""

    def __str__(self) -> str:
        place = f"{self.side} {self.pointer or '/'}".strip()
        return f"{self.keyword} at {place}: {self.why}"


@dataclass(frozen=True, slots=True)
class Unknown:
    """Neither was found. At least one blocker, the most likely first."""

    blockers: tuple[Blocker, ...]


Answer: TypeAlias = Yes | No | Unknown


class Relation(StrEnum):
    """What became of a set; UNDECIDED where either question is."""

    EQUAL = "equal"
    NARROWED = "narrowed"
    WIDENED = "widened"
    INCOMPARABLE = "incomparable"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Related:
    """lost: is something in old that is not in new? gained: the reverse."""

    lost: Answer
    gained: Answer

    @property
    def relation(self) -> Relation:
        match self.lost, self.gained:
            case Unknown(), _:
                return Relation.UNDECIDED
            case _, Unknown():
                return Relation.UNDECIDED
            case Yes(), Yes():
                return Relation.INCOMPARABLE
            case Yes(), _:
                return Relation.NARROWED
            case _, Yes():
                return Relation.WIDENED
            case _:
                return Relation.EQUAL


SAME = Related(No("same text"), No("same text"))
