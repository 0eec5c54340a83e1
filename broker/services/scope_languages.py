"""The scopes that a template can become, compared between two versions.

A template denotes { template(v) : v stands at its pointers in an accepted input that needs the scope, below its roots }.
Whether that set loses or gains from old to new, each answer by the first step that has one:

1. contract, condition and roots are the same: no;
2. every input of the one side that needs the scope is one of the other side: no (then so are the values);
3. each value that one side may hold is one that the other holds: no. What may stand at each pointer is a language
   (`domain.policy.scope_language`); the other side has to have an input that holds something at every pointer at all;
4. a value of the one side with which no input of the other is accepted: yes, with the scope as witness;
5. unknown.

Roots that grow or shrink are a difference of their own: a value below the one and not below the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.policy.document import ROOTED_KINDS, VersionPolicy
from broker.domain.policy.facts import VersionFacts
from broker.domain.policy.roots import normalise, root_within, within
from broker.domain.policy.scope_language import raw_values, scope_values, spellings
from broker.domain.policy.templates import fill, safe_value
from broker.domain.schema.answers import SAME, Answer, Blocker, No, Related, Unknown, Yes
from broker.domain.schema.dialect import SchemaError, escape
from broker.domain.schema.embedding import both
from broker.domain.schema.fits import same
from broker.domain.schema.holding import holding, values_at
from broker.domain.schema.positions import property_schema
from broker.domain.schema.projection import project
from broker.domain.schema.regular import difference, intersection, matches, member, nothing
from broker.domain.schema.strings import Bounds, spelled_language
from broker.ports.schemas import SchemaArithmetic

_DEFINITIONS: Final = ("$defs", "definitions")
_BELOW: Final = ("", "/a", "/a/b", "/a.txt")


class ScopeLanguages:
    """Compares; asks the arithmetic."""

    def __init__(self, arithmetic: SchemaArithmetic) -> None:
        self._arithmetic = arithmetic

    def related(self, template: str, old: VersionFacts, new: VersionFacts) -> Related:
        """Whether the scopes that a template of both versions can become are fewer (lost) or more (gained)."""
        if old.accepted is None or new.accepted is None:
            unknown = Unknown((Blocker("", "", "a contract has no one reading"),))
            return Related(unknown, unknown)
        if _same(template, old.version, new.version):
            return SAME
        return Related(self._more(template, new, old), self._more(template, old, new))

    def values_related(self, pointer: str, old: VersionFacts, new: VersionFacts) -> Related:
        """Whether the values that an argument may have are fewer or more, as its own schema says."""
        schemas = []
        for facts in (old, new):
            found = property_schema(facts.version.contract.input_schema, pointer)
            if found is None or not project(facts.accepted or {}, pointer).whole:
                unknown = Unknown((Blocker("", pointer, "several parts of the contract speak of it"),))
                return Related(unknown, unknown)
            schemas.append(found)
        return self._arithmetic.relate(schemas[0], schemas[1])

    def _more(self, template: str, less: VersionFacts, more: VersionFacts) -> Answer:
        """Whether `more` has a scope that `less` has not."""
        reached = more.reach.get(template)
        if isinstance(less.reach.get(template), No) and isinstance(reached, Yes):
            made = _scope_of(template, more.version, reached.witness)
            if made is not None:
                return Yes(made[0])
        values = [_Values.of(template, pointer, less, more) for pointer in more.version.scopes[template].placeholders]
        cover = _roots_cover(template, less.version, more.version)
        if self._values_covered(template, values, less, roots_cover=cover):
            return No("languages")
        whole = self._needing_inputs(template, less, more)
        if isinstance(whole, No) and cover and all(one.same_kind for one in values):
            return whole
        if cover and all(one.same_kind for one in values) and self._fit_an_input(template, values, less, more):
            return No("values")
        for scope, pinned in self._candidates(template, values, more, whole):
            there = self._can_be(template, more, pinned)
            here = self._can_be(template, less, pinned)
            if isinstance(there, Yes) and isinstance(here, No) and any(one.excludes(pinned) for one in values):
                return Yes(scope)
        reason = whole.blockers if isinstance(whole, Unknown) else ()
        return Unknown(reason or (Blocker("", "", f"the values of {template} could not be compared"),))

    def _needing_inputs(self, template: str, less: VersionFacts, more: VersionFacts) -> Answer:
        """Whether an input of `more` needs the scope and is no such input of `less`."""
        return self._arithmetic.relate(_needing(template, more), _needing(template, less)).lost

    def _values_covered(
        self, template: str, values: Sequence[_Values], less: VersionFacts, *, roots_cover: bool
    ) -> bool:
        """Step 3, by languages."""
        if any(one.more.upper is nothing() for one in values):
            return True
        covered = all(
            isinstance(difference(one.more.upper, one.less.lower), No)
            # Values of which the one side takes all spellings, it takes in every normal form.
            or (roots_cover and one.same_kind and isinstance(difference(one.raw_more.upper, one.raw_less.lower), No))
            for one in values
        )
        return covered and isinstance(self._holds_all(template, values, less), Yes)

    def _holds_all(self, template: str, values: Sequence[_Values], facts: VersionFacts) -> Answer:
        """Whether an accepted input needs the scope and holds something at each pointer."""
        return self._can_be(template, facts, dict.fromkeys(one.pointer for one in values))

    def _fit_an_input(self, template: str, values: Sequence[_Values], less: VersionFacts, more: VersionFacts) -> bool:
        """Step 3, by an input of the side that may have less, in which each value of the other fits."""
        fillers: dict[str, JsonObject] = {}
        for one in values:
            schema = property_schema(more.version.contract.input_schema, one.pointer)
            if schema is None:
                return False
            text: JsonObject = {"type": ["string", "integer"]}
            fillers[one.pointer] = {**schema, "allOf": [*_listed(schema.get("allOf")), text]}
            if not isinstance(difference(one.raw_more.upper, spelled_language(schema, schema).lower), No):
                return False
        held = self._holds_all(template, values, less)
        around = _with_any(held.witness, fillers) if isinstance(held, Yes) and isinstance(held.witness, dict) else None
        if around is None:
            return False
        # References lead to the root of the schema they stand in.
        definitions: JsonObject = {
            key: filler.pop(key) for filler in fillers.values() for key in _DEFINITIONS if key in filler
        }
        return isinstance(self._arithmetic.relate({**definitions, **around}, _needing(template, less)).lost, No)

    def _candidates(
        self, template: str, values: Sequence[_Values], more: VersionFacts, whole: Answer
    ) -> Iterator[tuple[str, dict[str, str | None]]]:
        """Scopes that `more` may have and `less` not, with the values that make them."""
        pinned: list[dict[str, str | None]] = []
        for one in values:
            for there in (one.more.lower, one.more.upper):
                answers = [difference(there, one.less.upper), difference(there, one.raw_less.upper)]
                for answer in answers:
                    if not isinstance(answer, Yes):
                        continue
                    pinned.append({one.pointer: str(answer.witness)})
            rule = more.version.arguments.get(one.pointer)
            roots = rule.within if rule is not None else ()
            pinned.extend({one.pointer: root.rstrip("/") + below} for root in roots for below in _BELOW)
        if isinstance(whole, Yes):
            made = _scope_of(template, more.version, whole.witness)
            if made is not None:
                yield made
        for some in pinned:
            held = self._can_be(template, more, {**dict.fromkeys(one.pointer for one in values), **some})
            made = _scope_of(template, more.version, held.witness) if isinstance(held, Yes) else None
            if made is not None:
                yield made

    def _can_be(self, template: str, facts: VersionFacts, pinned: Mapping[str, str | None]) -> Answer:
        """Whether an accepted input needs the scope and holds these values, which lie below the roots; None is any value."""
        version = facts.version
        for pointer, value in pinned.items():
            rule = version.arguments.get(pointer)
            if value is not None and rule is not None and rule.within and within(rule.kind, value, rule.within) is None:
                return No("roots")
        try:
            places = [
                holding(version.contract.input_schema, pointer, _leaf(value)) for pointer, value in pinned.items()
            ]
        except SchemaError as error:
            return Unknown((Blocker("", "", str(error)),))
        needed = version.scopes[template].needed_when
        asked = [facts.accepted or {}, *places]
        if needed is False:
            return No("nothing needs it")
        return self._arithmetic.common([*asked, needed] if isinstance(needed, dict) else asked)


@dataclass(frozen=True, slots=True)
class _Values:
    """What may stand at one pointer, on the side that may have less and on the one that may have more.

    raw_…: before a value is brought to its normal form, below a root or not.
    """

    pointer: str
    kind: str | None
    same_kind: bool
    less: Bounds
    more: Bounds
    raw_less: Bounds
    raw_more: Bounds

    @classmethod
    def of(cls, template: str, pointer: str, less: VersionFacts, more: VersionFacts) -> _Values:
        sides = [(facts.version, template, pointer, facts.accepted or {}) for facts in (less, more)]
        kinds = [
            rule.kind if (rule := facts.version.arguments.get(pointer)) is not None else None for facts in (less, more)
        ]
        values = [scope_values(*side) for side in sides]
        raw = [raw_values(*side) for side in sides]
        return cls(pointer, kinds[0], kinds[0] == kinds[1], values[0], values[1], raw[0], raw[1])

    def excludes(self, pinned: Mapping[str, str | None]) -> bool:
        """Whether the side that may have less has no scope with the value, be it by another spelling of it."""
        value = pinned.get(self.pointer)
        if value is None:
            return False
        if not matches(self.less.upper, value):
            return True
        return isinstance(member(intersection(self.raw_less.upper, spellings(self.kind, value))), No)


def _leaf(value: str | None) -> JsonObject:
    """A value that a scope spells like this; None is any."""
    if value is None:
        return {"type": ["string", "integer"]}
    if value.removeprefix("-").isdecimal() and str(int(value)) == value:
        return {"enum": [value, int(value)]}
    return {"const": value}


def _needing(template: str, facts: VersionFacts) -> JsonObject:
    """The accepted inputs that need the scope, as one schema.

    The condition stands behind two `not`, through which no annotation passes: it must not make known what is unknown.
    """
    accepted = facts.accepted or {}
    needed = facts.version.scopes[template].needed_when
    if needed is True:
        return accepted
    if needed is False:
        return {"not": {}}
    return both(accepted, needed, opaque=True)


def _same(template: str, old: VersionPolicy, new: VersionPolicy) -> bool:
    pointers = old.scopes[template].placeholders
    return (
        same(old.contract.input_schema, new.contract.input_schema)
        and same(old.scopes[template].needed_when, new.scopes[template].needed_when)
        and [old.arguments.get(pointer) for pointer in pointers] == [new.arguments.get(pointer) for pointer in pointers]
    )


def _roots_cover(template: str, less: VersionPolicy, more: VersionPolicy) -> bool:
    """Whether the roots of `less` take in all that those of `more` do."""
    for pointer in less.scopes[template].placeholders:
        wide, narrow = less.arguments.get(pointer), more.arguments.get(pointer)
        roots = wide.within if wide is not None else ()
        if not roots:
            continue
        if narrow is None or not narrow.within or wide is None or narrow.kind != wide.kind:
            return False
        if not all(root_within(wide.kind, root, roots) for root in narrow.within):
            return False
    return True


def _scope_of(template: str, version: VersionPolicy, witness: JsonValue) -> tuple[str, dict[str, str | None]] | None:
    """The scope that an input makes of a template, and the values in it."""
    values: dict[str, str] = {}
    for pointer in version.scopes[template].placeholders:
        found = list(values_at(witness, pointer))
        if len(found) != 1 or isinstance(found[0], bool) or not isinstance(found[0], str | int):
            return None
        rule, value = version.arguments.get(pointer), str(found[0])
        if not safe_value(rule.kind if rule is not None else None, value):
            return None
        if rule is not None and rule.kind in ROOTED_KINDS and normalise(rule.kind, value) != value:
            return None
        if rule is not None and rule.within and within(rule.kind, value, rule.within) is None:
            return None
        values[pointer] = value
    scope = fill(template, values)
    return (scope, {**values}) if scope is not None else None


def _with_any(witness: JsonObject, fillers: dict[str, JsonObject], pointer: str = "") -> JsonObject | None:
    """The inputs that are the witness with any fitting value at the pointers; None where the way there is through a list."""
    properties: JsonObject = {}
    for name, value in witness.items():
        below = f"{pointer}/{escape(name)}"
        if below in fillers and not isinstance(value, list):
            properties[name] = fillers[below]
        elif any(wanted == below or wanted.startswith(below + "/") for wanted in fillers):
            made = _with_any(value, fillers, below) if isinstance(value, dict) else None
            if made is None:
                return None
            properties[name] = made
        else:
            properties[name] = {"const": value}
    return {"type": "object", "properties": properties, "required": [*sorted(witness)], "additionalProperties": False}


def _listed(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []
