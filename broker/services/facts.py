"""Facts for the rules: what is asked of the arithmetic about one version, and about a step between two.

Every question is about sets of argument objects:

| fact                    | question                                                                                      |
|-------------------------|-----------------------------------------------------------------------------------------------|
| a scope is in reach     | have what is accepted and `needed_when` something in common?                                    |
| an argument is exposed  | have what is accepted and "an attack stands there" something in common?                         |
| a value is carried      | have what is accepted, what needs the scope, and "something no scope can carry stands there" …?   |
| inputs lost, gained     | how do the closed views relate?                                                                |
| a cut scope is needed   | have what the new version accepts and the old `needed_when` something in common?                |

Questions about the scopes that a template can become are in `scope_languages`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.contracts.contract_changes import classify, contract_changes
from broker.domain.policy.document import VersionPolicy
from broker.domain.policy.facts import Moved, StepFacts, VersionFacts
from broker.domain.policy.lockstep import moved_apart
from broker.domain.policy.permissions import PermissionArgument, TooManyArguments, permission_arguments
from broker.domain.policy.templates import binds
from broker.domain.schema.answers import SAME, Answer, Blocker, No, Related, Unknown, Yes
from broker.domain.schema.closure import accepted_inputs, in_place, open_inputs
from broker.domain.schema.dialect import SchemaError, escape
from broker.domain.schema.fits import same
from broker.domain.schema.holding import NOTHING, holding, values_at
from broker.ports.schemas import SchemaArithmetic
from broker.services.exposure import Exposure, common, condition, refused_by
from broker.services.scope_languages import ScopeLanguages

EVERY_OBJECT: Final[JsonObject] = {"type": "object"}
_COMBINING: Final = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "items", "contains", "prefixItems")
_SAYING_NOTHING: Final = ("$schema", "$comment", "$defs", "title", "description", "type")
_MAPS: Final = ("additionalProperties", "patternProperties", "unevaluatedProperties")


class Facts:
    """Asks; remembers what it has asked about a version, by the digest of what it grants."""

    def __init__(self, arithmetic: SchemaArithmetic) -> None:
        self._arithmetic = arithmetic
        self._languages = ScopeLanguages(arithmetic)
        self._versions: dict[str, VersionFacts] = {}

    def version(self, version: VersionPolicy) -> VersionFacts:
        """The facts of one version."""
        found = self._versions.get(version.digest)
        if found is None:
            found = self._versions[version.digest] = self._about(version)
        # Versions that grant the same have one digest, and each answers for itself.
        return found if found.version is version else replace(found, version=version)

    def step(self, old: VersionPolicy, new: VersionPolicy) -> StepFacts:
        """The facts of the step from one version to another."""
        before, after = self.version(old), self.version(new)
        closed = self._inputs(before, after)
        changes = contract_changes(old.contract, new.contract)
        gone = before.granted - after.granted
        bound = {scope: tuple(term for term in sorted(after.granted) if binds(scope, term)) for scope in sorted(gone)}
        both = sorted(before.granted & after.granted)
        step = StepFacts(
            old=before,
            new=after,
            closed=closed,
            changes=changes,
            change_class=classify(changes, closed),
            cut={scope: self._still_needed(scope, before, after) for scope, terms in bound.items() if not terms},
            bound={scope: self._unbound(scope, terms, before, after) for scope, terms in bound.items() if terms},
            conditions={
                **{scope: self._condition(scope, scope, before, after) for scope in both},
                **{
                    term: Related(No("bound"), self._condition(scope, term, before, after).gained)
                    for scope, terms in bound.items()
                    for term in terms
                },
            },
            languages={
                scope: self._languages.related(scope, before, after) for scope in both if new.scopes[scope].placeholders
            },
            moved=(),
        )
        return replace(step, moved=tuple(self._moved(before, after))) if moved_apart(step) else step

    # one version

    def _about(self, version: VersionPolicy) -> VersionFacts:
        try:
            accepted = accepted_inputs(version.contract.input_schema)
        except SchemaError as error:
            why = Unknown((Blocker("", "", str(error)),))
            return VersionFacts(version, None, dict.fromkeys(version.scopes, why), False, (), (), ())
        reach = {name: self._common(accepted, condition(rule.needed_when)) for name, rule in version.scopes.items()}
        exposure = Exposure(self._arithmetic, version, accepted, reach)
        exposed, undecided = exposure.exposed()
        return VersionFacts(
            version=version,
            accepted=accepted,
            reach=reach,
            anything=self._accepts_anything(version.contract.input_schema),
            exposed=exposed,
            undecided_exposure=undecided,
            carried=tuple(exposure.carried()),
        )

    def _accepts_anything(self, schema: JsonObject) -> bool:
        """The open view where it lists no properties; else the closed one, which a map of anything leaves open."""
        parts = [part for part, _ in in_place(schema, schema, frozenset())]
        if "properties" not in schema:
            asked = open_inputs(schema)
        elif any(part.get(keyword, False) is not False for part in parts for keyword in _MAPS):
            asked = accepted_inputs(schema)
        else:
            return False
        return isinstance(self._arithmetic.relate(EVERY_OBJECT, asked).lost, No)

    # a step

    def open_relation(self, old: VersionPolicy, new: VersionPolicy) -> Related:
        """The relation of the inputs as the contracts themselves have it; no rule asks for it."""
        try:
            return self._arithmetic.relate(
                open_inputs(old.contract.input_schema), open_inputs(new.contract.input_schema)
            )
        except SchemaError as error:
            unknown = Unknown((Blocker("", "", str(error)),))
            return Related(unknown, unknown)

    def _inputs(self, old: VersionFacts, new: VersionFacts) -> Related:
        for facts in (old, new):
            if facts.accepted is None:
                why = next((answer for answer in facts.reach.values() if isinstance(answer, Unknown)), None)
                unknown = why or Unknown((Blocker("", "", "a contract has no one reading"),))
                return Related(unknown, unknown)
        assert old.accepted is not None
        assert new.accepted is not None
        return self._arithmetic.relate(old.accepted, new.accepted)

    def _still_needed(self, scope: str, old: VersionFacts, new: VersionFacts) -> Answer:
        return self._common(new.accepted, condition(old.version.scopes[scope].needed_when))

    def _unbound(self, scope: str, terms: tuple[str, ...], old: VersionFacts, new: VersionFacts) -> Answer:
        """Whether an accepted input that needed the scope needs none of the terms that take its place."""
        others = [refused_by(condition(new.version.scopes[term].needed_when)) for term in terms]
        return self._common(new.accepted, condition(old.version.scopes[scope].needed_when), *others)

    def _condition(self, scope: str, term: str, old: VersionFacts, new: VersionFacts) -> Related:
        before, after = old.version.scopes[scope].needed_when, new.version.scopes[term].needed_when
        if same(before, after):
            return SAME
        needed, needs = condition(before), condition(after)
        return Related(
            lost=self._common(old.accepted, new.accepted, needed, refused_by(needs)),
            gained=self._common(old.accepted, new.accepted, needs, refused_by(needed)),
        )

    def _moved(self, old: VersionFacts, new: VersionFacts) -> Iterator[Moved]:
        for pointer, because in sorted(_permissions(old.version, new.version).items()):
            if not pointer:
                yield Moved("what is accepted", because, "changed", Yes(None))
                continue
            schemas = [facts.version.contract.input_schema for facts in (old, new)]
            present = [_lists(schema, pointer) for schema in schemas]
            if not any(present):
                continue
            if present[0] != present[1]:
                what = "was taken away" if present[0] else "is new"
                yield Moved(pointer, because, what, Yes(pointer))
                continue
            yield from self._moved_value(pointer, because, old, new)

    def _moved_value(self, pointer: str, because: str, old: VersionFacts, new: VersionFacts) -> Iterator[Moved]:
        related = self._languages.values_related(pointer, old, new)
        for answer, what in ((related.lost, "takes fewer values"), (related.gained, "takes more values")):
            if not isinstance(answer, No):
                yield Moved(pointer, because, what, answer)
        can_miss = [self._can_miss(pointer, facts) for facts in (old, new)]
        if isinstance(can_miss[0], Yes) and not isinstance(can_miss[1], Yes):
            yield Moved(
                pointer, because, "is required now", can_miss[0] if isinstance(can_miss[1], No) else can_miss[1]
            )
        elif isinstance(can_miss[1], Yes) and not isinstance(can_miss[0], Yes):
            yield Moved(pointer, because, "may be left out now", can_miss[1])

    def _can_miss(self, pointer: str, facts: VersionFacts) -> Answer:
        """Whether an accepted input holds nothing at a pointer."""
        for answer in facts.reach.values():
            if isinstance(answer, Yes) and not list(values_at(answer.witness, pointer)):
                return answer
        return self._common(facts.accepted, refused_by(holding(facts.version.contract.input_schema, pointer, {})))

    def _common(self, *schemas: JsonObject | None) -> Answer:
        return common(self._arithmetic, *schemas)


def _permissions(old: VersionPolicy, new: VersionPolicy) -> Mapping[str, str]:
    """By pointer, why an argument of either version is a permission."""
    found: dict[str, str] = {}
    for version in (old, new):
        for name, rule in version.scopes.items():
            for pointer in rule.placeholders:
                found.setdefault(pointer, f"the scope {name} names it")
            for pointer in _named_in(rule.needed_when):
                found.setdefault(pointer, f"whether {name} is needed depends on it")
        for argument in _arguments(version):
            said = {
                "declared": "it is declared under arguments",
                "name": "its name says so",
                "use": "its description says so",
            }
            found.setdefault(argument.pointer, f"it is a {argument.kind}: {said[argument.because]}")
    return found


def _arguments(version: VersionPolicy) -> tuple[PermissionArgument, ...]:
    try:
        return permission_arguments(version)
    except TooManyArguments:
        return ()  # what stands in the way is said of the version itself


def _named_in(needed_when: JsonValue, pointer: str = "") -> Iterator[str]:
    """The pointers of the properties that a condition speaks of, at any depth; "" where that may be any of them."""
    if isinstance(needed_when, list):
        for item in needed_when:
            yield from _named_in(item, pointer)
    if not isinstance(needed_when, dict):
        return
    for keyword, value in needed_when.items():
        if keyword == "properties" and isinstance(value, dict):
            for name, child in value.items():
                below = f"{pointer}/{escape(name)}"
                yield below
                yield from _named_in(child, below)
        elif keyword == "required" and isinstance(value, list):
            for needed in value:
                yield f"{pointer}/{escape(str(needed))}"
        elif keyword in _COMBINING:
            yield from _named_in(value, pointer)
        elif not pointer and keyword not in _SAYING_NOTHING:
            yield ""  # a reference, names by pattern, how many there are: below a pointer, that one stands for it


def _lists(schema: JsonObject, pointer: str) -> bool:
    try:
        return holding(schema, pointer, {}) != NOTHING
    except SchemaError:
        return False
