"""The relation of two schemas: what is lost from old to new, and what is gained.

Each of the two questions goes through these steps until it has an answer:

1. the same bare text: no (`same text`);
2. the prover shows the inclusion: no (`cover`);
3. the prover shows it once what patterns imply has been written down: no (`languages`);
4. a value that one side accepts and the other refuses, as the validator says: yes, with the smallest such value;
5. structure shows the inclusion, recursion by induction over the value: no (`structure`);
6. a value out of the difference that the prover computes, or out of a longer search: yes;
7. unknown, with the keywords and places that differ.

A no and a yes have to hold in every reading of the patterns (`readings`). A prover's "not included" is never an answer:
it comes without a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.schema.answers import SAME, Answer, Blocker, No, Related, Unknown, Yes
from broker.domain.schema.bare import bare, text
from broker.domain.schema.blockers import blockers_between, unportable_blockers
from broker.domain.schema.dialect import SchemaError
from broker.domain.schema.implied import with_implied
from broker.domain.schema.plain import plain_values
from broker.domain.schema.proof import Accepts, Proved, Tools
from broker.domain.schema.readings import Readings, readings
from broker.domain.schema.structure import contained
from broker.domain.schema.telling import telling_strings
from broker.domain.schema.witness import candidates, shrink

FEW: Final = 3_000
MANY: Final = 20_000


def relate(old: JsonObject, new: JsonObject, tools: Tools) -> Related:
    """Lost and gained from old to new."""
    made: list[JsonObject] = []
    accepting: list[Accepts] = []
    for side, schema in (("old", old), ("new", new)):
        try:
            made.append(bare(schema))
        except SchemaError as error:
            unknown = unreadable(str(error), side)
            return Related(unknown, unknown)
    if text(made[0]) == text(made[1]):
        return SAME
    for side, schema in (("old", old), ("new", new)):
        accepts = tools.compiled(schema)
        if isinstance(accepts, Blocker):
            unknown = Unknown((Blocker(accepts.keyword, accepts.pointer, accepts.why, side),))
            return Related(unknown, unknown)
        accepting.append(accepts)
    return _Question(old, new, readings(made), (accepting[0], accepting[1]), tools).answered()


def unreadable(message: str, side: str = "") -> Unknown:
    """What a `SchemaError` says, as an answer."""
    pointer, _, why = message.partition(": ")
    where, _, keyword = pointer.rpartition("/")
    return Unknown((Blocker(keyword, where, why or message, side),))


@dataclass(frozen=True, slots=True)
class _Sides:
    """Validators of one reading: of old, and of new."""

    old: Accepts
    new: Accepts
    accepting: bool


class _Question:
    """One pair of schemas, and the answers found so far."""

    def __init__(
        self, old: JsonObject, new: JsonObject, read: Readings, accepts: tuple[Accepts, Accepts], tools: Tools
    ) -> None:
        self._originals = (old, new)
        self._read = read
        self._tools = tools
        self._true = read.all[0].schemas
        self._sides = self._compiled(accepts)
        self._lost: Answer | None = None
        self._gained: Answer | None = None
        self._stopped = ""
        self._telling: tuple[str, ...] | None = None

    def answered(self) -> Related:
        self._prove("cover", [reading.schemas for reading in self._read.all])
        if self._open() and not self._stopped:
            implied = [with_implied(reading.schemas) for reading in self._read.all]
            if any(pair is not None for pair in implied):
                pairs = [pair or reading.schemas for pair, reading in zip(implied, self._read.all, strict=True)]
                self._prove("languages", pairs)
        if self._open():
            self._search(plain_values(self._true))
        if self._open():
            self._search(candidates(self._true, strings=self._strings(), limit=FEW))
        if self._open():
            self._prove_by_structure()
        if self._open():
            self._search_differences()
        return Related(self._lost or self._unknown(lost=True), self._gained or self._unknown(lost=False))

    def _strings(self) -> tuple[str, ...]:
        if self._telling is None:
            self._telling = telling_strings(self._true)
        return self._telling

    def _open(self) -> bool:
        return self._lost is None or self._gained is None

    def _compiled(self, true: tuple[Accepts, Accepts]) -> tuple[_Sides, ...] | None:
        made = [_Sides(*true, accepting=True)]
        for reading in self._read.all[1:]:
            old, new = (self._tools.compiled(schema) for schema in reading.schemas)
            if isinstance(old, Blocker) or isinstance(new, Blocker):
                return None
            made.append(_Sides(old, new, reading.accepting))
        return tuple(made)

    def _prove(self, by: str, pairs: Sequence[Sequence[JsonObject]]) -> None:
        """A direction that is proved in every reading."""
        lost, gained = self._lost is None, self._gained is None
        for old, new in pairs:
            proved: Proved = self._tools.included(old, new)
            self._stopped = self._stopped or proved.stopped
            lost, gained = lost and proved.lost, gained and proved.gained
            if not lost and not gained:
                return
        self._settle(No(by) if lost else None, No(by) if gained else None)

    def _prove_by_structure(self) -> None:
        lost = self._lost is None and all(contained(*reading.schemas) for reading in self._read.all)
        gained = self._gained is None and all(contained(*reading.schemas[::-1]) for reading in self._read.all)
        self._settle(No("structure") if lost else None, No("structure") if gained else None)

    def _settle(self, lost: Answer | None, gained: Answer | None) -> None:
        self._lost = self._lost or lost
        self._gained = self._gained or gained

    def _search(self, values: Iterable[JsonValue]) -> None:
        if self._sides is None:
            return
        accepts_old, accepts_new = self._sides[0].old, self._sides[0].new
        for value in values:
            in_old = accepts_old(value)
            if in_old == accepts_new(value):
                continue
            if in_old and self._lost is None and self._is_lost(value):
                self._lost = Yes(shrink(value, self._is_lost))
            elif not in_old and self._gained is None and self._is_gained(value):
                self._gained = Yes(shrink(value, self._is_gained))
            if not self._open():
                return

    def _is_lost(self, value: JsonValue) -> bool:
        assert self._sides is not None
        return self._read.allows(value) and all(
            (not sides.accepting or sides.old(value)) and not sides.new(value) for sides in self._sides
        )

    def _is_gained(self, value: JsonValue) -> bool:
        assert self._sides is not None
        return self._read.allows(value) and all(
            (not sides.accepting or sides.new(value)) and not sides.old(value) for sides in self._sides
        )

    def _search_differences(self) -> None:
        old, new = self._true
        for one, other, open_ in ((old, new, self._lost is None), (new, old, self._gained is None)):
            if open_ and not self._stopped:
                difference = self._tools.difference(one, other)
                if difference is not None:
                    self._search(candidates([difference, one, other], strings=self._strings(), limit=FEW))
        if self._open():
            self._search(candidates(self._true, strings=self._strings(), limit=MANY))

    def _unknown(self, *, lost: bool) -> Unknown:
        found: list[Blocker] = []
        if self._stopped:
            found.append(Blocker("", "", self._stopped))
        found.extend(unportable_blockers(self._originals, self._read.loose))
        found.extend(blockers_between(*self._originals))
        if not found:
            found.append(
                Blocker("", "", "neither a proof nor a value that shows it was found", "old" if lost else "new")
            )
        return Unknown(tuple(found))
