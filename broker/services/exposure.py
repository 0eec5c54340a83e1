"""Facts about the arguments of one version: which permissions nothing bounds, and which values no scope can carry.

1. An argument that is a permission is bounded where a root bounds it, or where every accepted input that holds an attack also
   needs a granted scope that names the argument or that `enforced_by` names. A scope that nobody is granted bounds nothing,
   and neither does one whose condition such an input escapes. The root `/` takes in every file, so it bounds nothing.
2. An attack is tried first in an input that is known to be accepted: the gate's validator says at once whether it goes
   through. Only what that leaves open is asked of the arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from broker.domain.canonical import JsonObject
from broker.domain.policy.document import ArgumentRule, VersionPolicy
from broker.domain.policy.facts import CarriedValue, Exposed
from broker.domain.policy.permissions import ATTACKS, DANGER, PermissionArgument, TooManyArguments, permission_arguments
from broker.domain.policy.templates import SAFE_PATH_PATTERN, SAFE_PATTERN
from broker.domain.schema.answers import Answer, Blocker, No, Unknown, Yes
from broker.domain.schema.embedding import refused
from broker.domain.schema.fits import same
from broker.domain.schema.holding import NOTHING, holding, put_at, values_at
from broker.domain.schema.patterns import Unportable, parse_pattern
from broker.domain.schema.projection import project
from broker.domain.schema.regular import Language, difference, intersection, matches, member
from broker.domain.schema.strings import Bounds
from broker.ports.schemas import SchemaArithmetic

_CANNOT_CARRY: Final = ("a:b", "a b", "a*b", "a%b", "é", "", "a/b")


class Exposure:
    """Asks about one version. known: accepted inputs, to put values into."""

    def __init__(
        self,
        arithmetic: SchemaArithmetic,
        version: VersionPolicy,
        accepted: JsonObject,
        reach: dict[str, Answer],
    ) -> None:
        self._arithmetic = arithmetic
        self._version = version
        self._contract = version.contract.input_schema
        self._accepted = accepted
        self._reach = reach
        self._known = [answer.witness for answer in reach.values() if isinstance(answer, Yes)][:4]
        self._values: dict[str, Bounds] = {}

    def exposed(self) -> tuple[tuple[Exposed, ...], tuple[tuple[str, Answer], ...]]:
        """The arguments through which an attack goes, and those of which that is unknown."""
        found: list[Exposed] = []
        undecided: list[tuple[str, Answer]] = []
        try:
            arguments = permission_arguments(self._version)
        except TooManyArguments as error:
            return (), (("", Unknown((Blocker("properties", "", str(error)),))),)
        for argument in arguments:
            unbounded = self._unbounded(argument.pointer)
            if unbounded is None:
                continue
            attack = self._attack(argument, unbounded)
            if isinstance(attack, Exposed):
                found.append(attack)
            elif isinstance(attack, Unknown):
                undecided.append((argument.pointer, attack))
        return tuple(found), tuple(undecided)

    def carried(self) -> Iterator[CarriedValue]:
        """For each value that a template names, whether it can be one that a scope cannot carry."""
        for name, rule in self._version.scopes.items():
            for pointer in rule.placeholders:
                yield CarriedValue(name, pointer, self._unsafe(name, pointer))

    def _unbounded(self, pointer: str) -> list[JsonObject] | None:
        """Schemas of the inputs that no scope bounds at this argument, all of which have to fit; None where there are none."""
        rule = self._version.arguments.get(pointer)
        if rule is not None and bounded_by_roots(rule):
            return None
        granted = {scope for task in self._version.tasks.values() for scope in task.scopes}
        enforcing = set(rule.enforced_by) if rule is not None else set()
        escaping = []
        for name, scope in self._version.scopes.items():
            if name in granted and (pointer in scope.placeholders or name in enforcing):
                escapes = refused_by(condition(scope.needed_when))
                if escapes == NOTHING:
                    return None
                if escapes:
                    escaping.append(escapes)
        return escaping

    def _attack(self, argument: PermissionArgument, unbounded: Sequence[JsonObject]) -> Exposed | Answer:
        """An attack that the argument takes: a well-known one, else any that its own schema lets through."""
        pointer, kind, because = argument.pointer, argument.kind, argument.because
        values = self._language(pointer)
        likely = [value for value in ATTACKS[kind] if matches(values.upper, value)]
        for value in likely:
            witness = self._put(pointer, value, unbounded)
            if witness is not None:
                return Exposed(pointer, kind, because, value, witness)
        for value in likely:
            answer = self._holding(pointer, {"const": value}, unbounded)
            if isinstance(answer, Yes) and isinstance(answer.witness, dict):
                return Exposed(pointer, kind, because, value, answer.witness)
        danger = _language(DANGER[kind])
        if isinstance(member(intersection(values.upper, danger)), No):
            return No("languages")
        # As the gate's validator reads patterns, portable or not: it is asked whether the value goes through.
        some = member(intersection(project(self._accepted, pointer, witness=True).bounds.upper, danger))
        if isinstance(some, Yes) and isinstance(some.witness, str):
            witness = self._put(pointer, some.witness, unbounded)
            if witness is not None:
                return Exposed(pointer, kind, because, some.witness, witness)
        leaf: JsonObject = {"type": "string", "pattern": DANGER[kind]}
        answer = self._holding_one(pointer, member(intersection(values.lower, danger)), leaf, unbounded)
        if not isinstance(answer, Yes) or not isinstance(answer.witness, dict):
            return answer
        held = (value for value in values_at(answer.witness, pointer) if isinstance(value, str))
        value = next((value for value in held if self._arithmetic.accepts(leaf, value)), "")
        return Exposed(pointer, kind, because, value, answer.witness)

    def _unsafe(self, name: str, pointer: str) -> Answer:
        """Whether an accepted input that needs the scope holds a value there that no scope can carry."""
        argument = self._version.arguments.get(pointer)
        safe = SAFE_PATH_PATTERN if argument is not None and argument.kind == "path" else SAFE_PATTERN
        leaf: JsonObject = {"type": "string", "not": {"pattern": safe}}
        carried, values = _language(safe), self._language(pointer)
        needed = condition(self._version.scopes[name].needed_when)
        if isinstance(difference(values.upper, carried), No):
            return No("languages")
        for value in _CANNOT_CARRY:
            if matches(values.upper, value) and not matches(carried, value):
                witness = self._put(pointer, value, [needed])
                if witness is not None:
                    return Yes(witness)
        return self._holding_one(pointer, difference(values.lower, carried), leaf, [needed])

    def _put(self, pointer: str, value: str, fitting: Sequence[JsonObject]) -> JsonObject | None:
        """A known input with the value in it, where the validators still take it."""
        for known in self._known:
            made = put_at(known, pointer, value, self._contract)
            if made is not None and all(
                self._arithmetic.accepts(schema, made) for schema in (self._accepted, *fitting)
            ):
                return made
        return None

    def _holding(self, pointer: str, leaf: JsonObject, others: Sequence[JsonObject]) -> Answer:
        return common(self._arithmetic, self._accepted, holding(self._contract, pointer, leaf), *others)

    def _holding_one(self, pointer: str, likely: Answer, leaf: JsonObject, others: Sequence[JsonObject]) -> Answer:
        """The same; asked about one likely value first. That this one is not held says nothing about the rest."""
        if isinstance(likely, Yes):
            answer = self._holding(pointer, {"const": likely.witness}, others)
            if isinstance(answer, Yes):
                return answer
        return self._holding(pointer, leaf, others)

    def _language(self, pointer: str) -> Bounds:
        """What may stand at a pointer, spelled as text, lists opened."""
        if pointer not in self._values:
            self._values[pointer] = project(self._accepted, pointer).bounds
        return self._values[pointer]


def bounded_by_roots(rule: ArgumentRule) -> bool:
    """Whether the roots of an argument leave anything out."""
    return bool(rule.within) and not (rule.kind == "path" and "/" in rule.within)


def common(arithmetic: SchemaArithmetic, *schemas: JsonObject | None) -> Answer:
    """Whether something fits all schemas; None is one that could not be read."""
    asked: list[JsonObject] = []
    for schema in schemas:
        if schema is None:
            return Unknown((Blocker("", "", "a contract has no one reading"),))
        if schema == NOTHING:
            return No("nothing is accepted")
        if schema and not any(same(schema, other) for other in asked):
            asked.append(schema)
    return arithmetic.common(asked)


def condition(needed_when: bool | JsonObject) -> JsonObject:
    """A `needed_when` as a schema."""
    if needed_when is True:
        return {}
    return NOTHING if needed_when is False else needed_when


def refused_by(schema: JsonObject) -> JsonObject:
    """What a schema refuses."""
    if not schema:
        return NOTHING
    return {} if schema == NOTHING else refused(schema)


def _language(pattern: str) -> Language:
    made = parse_pattern(pattern)
    assert not isinstance(made, Unportable)
    return made
