"""The scopes that a template can become, compared between two versions.

A template denotes { template(v) : v stands at its pointers in an accepted input that needs the scope, below its roots }.
Whether that set loses or gains from old to new, each answer by the first step that has one:

1. contract, condition and roots are the same: no;
2. every input of the one side that needs the scope is one of the other side: no (then so are the values);
3. each value that one side may hold is one that the other holds: no. A side *holds* what its property's schema accepts where
   one of its inputs stays accepted with any of these values put in;
4. a value of the one side with which no input of the other is accepted: yes, with the scope as witness;
5. unknown.

Roots that grow or shrink are a difference of their own: a value below the one and not below the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.policy.document import VersionPolicy
from broker.domain.policy.facts import VersionFacts
from broker.domain.policy.roots import within
from broker.domain.policy.templates import SAFE_PATH_PATTERN, SAFE_PATTERN, fill, safe_value
from broker.domain.schema.answers import SAME, Answer, Blocker, No, Related, Unknown, Yes
from broker.domain.schema.dialect import SchemaError
from broker.domain.schema.holding import holding, values_at
from broker.domain.schema.positions import property_schema
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
            if found is None:
                unknown = Unknown((Blocker("", pointer, "several parts of the contract speak of it"),))
                return Related(unknown, unknown)
            schemas.append(found)
        return self._arithmetic.relate(schemas[0], schemas[1])

    def _more(self, template: str, less: VersionFacts, more: VersionFacts) -> Answer:
        """Whether `more` has a scope that `less` has not."""
        whole = self._needing_inputs(template, less, more)
        if _roots_cover(template, less.version, more.version):
            if isinstance(whole, No):
                return whole
            if self._values_covered(template, less, more):
                return No("values")
        for scope, pinned in self._candidates(template, less, more, whole):
            there = self._can_be(template, more, pinned)
            here = self._can_be(template, less, pinned)
            if isinstance(there, Yes) and isinstance(here, No):
                return Yes(scope)
        reason = whole.blockers if isinstance(whole, Unknown) else ()
        return Unknown(reason or (Blocker("", "", f"the values of {template} could not be compared"),))

    def _needing_inputs(self, template: str, less: VersionFacts, more: VersionFacts) -> Answer:
        """Whether an input of `more` needs the scope and is no such input of `less`."""
        return self._arithmetic.relate(_needing(template, more), _needing(template, less)).lost

    def _values_covered(self, template: str, less: VersionFacts, more: VersionFacts) -> bool:
        """Step 3."""
        fillers: dict[str, JsonObject] = {}
        for pointer in less.version.scopes[template].placeholders:
            wide = property_schema(less.version.contract.input_schema, pointer)
            narrow = property_schema(more.version.contract.input_schema, pointer)
            if wide is None or narrow is None:
                return False
            if not isinstance(self._arithmetic.relate(narrow, wide).lost, No):
                return False
            fillers[pointer] = dict(wide)
        reached = less.reach.get(template)
        if not isinstance(reached, Yes) or not isinstance(reached.witness, dict):
            return False
        around = _with_any(reached.witness, fillers)
        if around is None:
            return False
        # References lead to the root of the schema they stand in.
        definitions: JsonObject = {
            key: filler.pop(key) for filler in fillers.values() for key in _DEFINITIONS if key in filler
        }
        return isinstance(self._arithmetic.relate({**definitions, **around}, _needing(template, less)).lost, No)

    def _candidates(
        self, template: str, less: VersionFacts, more: VersionFacts, whole: Answer
    ) -> Iterator[tuple[str, dict[str, str]]]:
        """Scopes that `more` may have and `less` not, with the values that make them."""
        witnesses: list[JsonValue] = []
        if isinstance(whole, Yes):
            witnesses.append(whole.witness)
        pointers = more.version.scopes[template].placeholders
        for pointer in pointers:
            found = [property_schema(facts.version.contract.input_schema, pointer) for facts in (more, less)]
            if found[0] is None or found[1] is None:
                continue
            guards: tuple[JsonObject, ...] = ({}, {"type": "string", "pattern": _safe_pattern(more.version, pointer)})
            for guard in guards:
                schema: JsonObject = {**found[0], "allOf": [guard]} if guard and "allOf" not in found[0] else found[0]
                value = self._arithmetic.relate(schema, found[1]).lost
                if isinstance(value, Yes):
                    witnesses.extend(self._inputs_with(template, more, {pointer: str(value.witness)}))
            rule = more.version.arguments.get(pointer)
            for root in rule.within if rule is not None else ():
                for below in _BELOW:
                    witnesses.extend(self._inputs_with(template, more, {pointer: root.rstrip("/") + below}))
        for witness in witnesses:
            made = _scope_of(template, more.version, witness)
            if made is not None:
                yield made

    def _inputs_with(self, template: str, facts: VersionFacts, pinned: dict[str, str]) -> list[JsonValue]:
        answer = self._can_be(template, facts, pinned)
        return [answer.witness] if isinstance(answer, Yes) else []

    def _can_be(self, template: str, facts: VersionFacts, pinned: dict[str, str]) -> Answer:
        """Whether an accepted input needs the scope and holds these values, which lie below the roots."""
        version = facts.version
        for pointer, value in pinned.items():
            rule = version.arguments.get(pointer)
            if rule is not None and rule.within and within(rule.kind, value, rule.within) is None:
                return No("roots")
        try:
            places = [
                holding(version.contract.input_schema, pointer, {"const": value}) for pointer, value in pinned.items()
            ]
        except SchemaError as error:
            return Unknown((Blocker("", "", str(error)),))
        needed = version.scopes[template].needed_when
        asked = [facts.accepted or {}, *places]
        if needed is False:
            return No("nothing needs it")
        return self._arithmetic.common([*asked, needed] if isinstance(needed, dict) else asked)


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
    others = accepted.get("allOf")
    return {**accepted, "allOf": [*(others if isinstance(others, list) else ()), {"not": {"not": needed}}]}


def _same(template: str, old: VersionPolicy, new: VersionPolicy) -> bool:
    pointers = old.scopes[template].placeholders
    return (
        old.contract.input_schema == new.contract.input_schema
        and old.scopes[template] == new.scopes[template]
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
        if not all(within(wide.kind, root, roots) is not None for root in narrow.within):
            return False
    return True


def _safe_pattern(version: VersionPolicy, pointer: str) -> str:
    rule = version.arguments.get(pointer)
    return SAFE_PATH_PATTERN if rule is not None and rule.kind == "path" else SAFE_PATTERN


def _scope_of(template: str, version: VersionPolicy, witness: JsonValue) -> tuple[str, dict[str, str]] | None:
    """The scope that an input makes of a template, and the values in it."""
    values: dict[str, str] = {}
    for pointer in version.scopes[template].placeholders:
        found = list(values_at(witness, pointer))
        if len(found) != 1 or isinstance(found[0], bool) or not isinstance(found[0], str | int):
            return None
        rule = version.arguments.get(pointer)
        if not safe_value(rule.kind if rule is not None else None, str(found[0])):
            return None
        if rule is not None and rule.within and within(rule.kind, str(found[0]), rule.within) != str(found[0]):
            return None
        values[pointer] = str(found[0])
    scope = fill(template, values)
    return (scope, values) if scope is not None else None


def _with_any(witness: JsonObject, fillers: dict[str, JsonObject], pointer: str = "") -> JsonObject | None:
    """The inputs that are the witness with any fitting value at the pointers; None where the way there is through a list."""
    properties: JsonObject = {}
    for name, value in witness.items():
        below = f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"
        if below in fillers:
            properties[name] = fillers[below]
        elif any(wanted.startswith(below + "/") for wanted in fillers):
            made = _with_any(value, fillers, below) if isinstance(value, dict) else None
            if made is None:
                return None
            properties[name] = made
        else:
            properties[name] = {"const": value}
    return {"type": "object", "properties": properties, "required": [*sorted(witness)], "additionalProperties": False}
