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
from typing import Final

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.contracts.contract_changes import classify, contract_changes
from broker.domain.policy.document import VersionPolicy
from broker.domain.policy.facts import CarriedValue, Exposed, Moved, StepFacts, VersionFacts
from broker.domain.policy.permissions import ATTACKS, DANGER, PermissionArgument, permission_arguments
from broker.domain.policy.templates import SAFE_PATH_PATTERN, SAFE_PATTERN, binds
from broker.domain.schema.answers import Answer, Blocker, No, Related, Unknown, Yes
from broker.domain.schema.closure import accepted_inputs, open_inputs
from broker.domain.schema.dialect import SchemaError
from broker.domain.schema.holding import holding, values_at
from broker.domain.schema.patterns import Unportable, parse_pattern
from broker.domain.schema.positions import property_schema
from broker.domain.schema.regular import difference, intersection, matches, member
from broker.domain.schema.strings import Bounds, spelled_language
from broker.ports.schemas import SchemaArithmetic
from broker.services.scope_languages import ScopeLanguages

NOTHING: Final[JsonObject] = {"not": {}}
EVERY_OBJECT: Final[JsonObject] = {"type": "object"}


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
        return found

    def step(self, old: VersionPolicy, new: VersionPolicy) -> StepFacts:
        """The facts of the step from one version to another."""
        before, after = self.version(old), self.version(new)
        raw, closed = self._inputs(old, new)
        changes = contract_changes(old.contract, new.contract)
        gone = before.granted - after.granted
        bound = {scope: tuple(term for term in sorted(after.granted) if binds(scope, term)) for scope in sorted(gone)}
        both = sorted(before.granted & after.granted)
        return StepFacts(
            old=before,
            new=after,
            raw=raw,
            closed=closed,
            changes=changes,
            change_class=classify(changes, closed),
            cut={scope: self._still_needed(scope, before, after) for scope, terms in bound.items() if not terms},
            bound={scope: self._unbound(scope, terms, before, after) for scope, terms in bound.items() if terms},
            conditions={scope: self._condition(scope, before, after) for scope in both},
            languages={
                scope: self._languages.related(scope, before, after) for scope in both if new.scopes[scope].placeholders
            },
            moved=tuple(self._moved(before, after)),
        )

    # one version

    def _about(self, version: VersionPolicy) -> VersionFacts:
        try:
            accepted = accepted_inputs(version.contract.input_schema)
        except SchemaError as error:
            why = Unknown((Blocker("", "", str(error)),))
            return VersionFacts(version, None, dict.fromkeys(version.scopes, why), False, (), (), ())
        reach = {name: self._common(accepted, condition(rule.needed_when)) for name, rule in version.scopes.items()}
        exposed, undecided = self._exposure(version, accepted)
        return VersionFacts(
            version=version,
            accepted=accepted,
            reach=reach,
            anything=self._accepts_anything(version.contract.input_schema),
            exposed=exposed,
            undecided_exposure=undecided,
            carried=tuple(self._carried(version, accepted)),
        )

    def _accepts_anything(self, schema: JsonObject) -> bool:
        if "properties" in schema:
            return False
        return isinstance(self._arithmetic.relate(EVERY_OBJECT, open_inputs(schema)).lost, No)

    def _exposure(
        self, version: VersionPolicy, accepted: JsonObject
    ) -> tuple[tuple[Exposed, ...], tuple[tuple[str, Answer], ...]]:
        named = {pointer for rule in version.scopes.values() for pointer in rule.placeholders}
        found: list[Exposed] = []
        undecided: list[tuple[str, Answer]] = []
        for argument in permission_arguments(version):
            rule = version.arguments.get(argument.pointer)
            if argument.pointer in named or (rule is not None and (rule.within or rule.enforced_by)):
                continue
            attack = self._attack(version, accepted, argument)
            if isinstance(attack, Exposed):
                found.append(attack)
            elif isinstance(attack, Unknown):
                undecided.append((argument.pointer, attack))
        return tuple(found), tuple(undecided)

    def _attack(self, version: VersionPolicy, accepted: JsonObject, argument: PermissionArgument) -> Exposed | Answer:
        """An attack that the argument takes: a well-known one, else any that its own schema lets through."""
        values = self._values(version, argument.pointer)
        for value in ATTACKS[argument.kind]:
            if values is None or matches(values.upper, value):
                answer = self._common(
                    accepted, holding(version.contract.input_schema, argument.pointer, {"const": value})
                )
                if isinstance(answer, Yes) and isinstance(answer.witness, dict):
                    return Exposed(argument.pointer, argument.kind, argument.because, value, answer.witness)
        danger = parse_pattern(DANGER[argument.kind])
        assert not isinstance(danger, Unportable)
        if values is not None and isinstance(member(intersection(values.upper, danger)), No):
            return No("languages")
        some = member(intersection(values.lower, danger)) if values is not None else None
        leaf: JsonObject = {"type": "string", "pattern": DANGER[argument.kind]}
        if isinstance(some, Yes):
            leaf = {"const": some.witness}
        answer = self._common(accepted, holding(version.contract.input_schema, argument.pointer, leaf))
        if not isinstance(answer, Yes) or not isinstance(answer.witness, dict):
            return answer
        held = (value for value in values_at(answer.witness, argument.pointer) if isinstance(value, str))
        value = next((value for value in held if self._arithmetic.accepts(leaf, value)), "")
        return Exposed(argument.pointer, argument.kind, argument.because, value, answer.witness)

    def _values(self, version: VersionPolicy, pointer: str) -> Bounds | None:
        """What may stand at a pointer, spelled as text; None where no one schema says it."""
        schema = property_schema(version.contract.input_schema, pointer)
        return spelled_language(schema, schema) if schema is not None else None

    def _carried(self, version: VersionPolicy, accepted: JsonObject) -> Iterator[CarriedValue]:
        for name, rule in version.scopes.items():
            for pointer in rule.placeholders:
                argument = version.arguments.get(pointer)
                safe = SAFE_PATH_PATTERN if argument is not None and argument.kind == "path" else SAFE_PATTERN
                yield CarriedValue(name, pointer, self._unsafe(version, accepted, rule.needed_when, pointer, safe))

    def _unsafe(
        self, version: VersionPolicy, accepted: JsonObject, needed_when: bool | JsonObject, pointer: str, safe: str
    ) -> Answer:
        """Whether an accepted input that needs the scope holds a value there that no scope can carry."""
        values = self._values(version, pointer)
        leaf: JsonObject = {"type": "string", "not": {"pattern": safe}}
        language = parse_pattern(safe)
        assert not isinstance(language, Unportable)
        if values is not None:
            if isinstance(difference(values.upper, language), No):
                return No("languages")
            some = difference(values.lower, language)
            if isinstance(some, Yes):
                leaf = {"const": some.witness}
        return self._common(accepted, condition(needed_when), holding(version.contract.input_schema, pointer, leaf))

    # a step

    def _inputs(self, old: VersionPolicy, new: VersionPolicy) -> tuple[Related, Related]:
        made = []
        for view in (open_inputs, accepted_inputs):
            try:
                before, after = view(old.contract.input_schema), view(new.contract.input_schema)
            except SchemaError as error:
                unknown = Unknown((Blocker("", "", str(error)),))
                made.append(Related(unknown, unknown))
            else:
                made.append(self._arithmetic.relate(before, after))
        return made[0], made[1]

    def _still_needed(self, scope: str, old: VersionFacts, new: VersionFacts) -> Answer:
        return self._common(new.accepted, condition(old.version.scopes[scope].needed_when))

    def _unbound(self, scope: str, terms: tuple[str, ...], old: VersionFacts, new: VersionFacts) -> Answer:
        """Whether an accepted input that needed the scope needs none of the terms that take its place."""
        others = [refused_by(condition(new.version.scopes[term].needed_when)) for term in terms]
        return self._common(new.accepted, condition(old.version.scopes[scope].needed_when), *others)

    def _condition(self, scope: str, old: VersionFacts, new: VersionFacts) -> Related:
        before, after = old.version.scopes[scope].needed_when, new.version.scopes[scope].needed_when
        if before == after:
            return Related(No("same text"), No("same text"))
        needed, needs = condition(before), condition(after)
        return Related(
            lost=self._common(old.accepted, new.accepted, needed, refused_by(needs)),
            gained=self._common(old.accepted, new.accepted, needs, refused_by(needed)),
        )

    def _moved(self, old: VersionFacts, new: VersionFacts) -> Iterator[Moved]:
        for pointer, because in sorted(_permissions(old.version, new.version).items()):
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
        absent = [refused_by(holding(facts.version.contract.input_schema, pointer, {})) for facts in (old, new)]
        can_miss = [self._common(facts.accepted, gone) for facts, gone in zip((old, new), absent, strict=True)]
        if isinstance(can_miss[0], Yes) and not isinstance(can_miss[1], Yes):
            yield Moved(
                pointer, because, "is required now", can_miss[0] if isinstance(can_miss[1], No) else can_miss[1]
            )
        elif isinstance(can_miss[1], Yes) and not isinstance(can_miss[0], Yes):
            yield Moved(pointer, because, "may be left out now", can_miss[1])

    def _common(self, *schemas: JsonObject | None) -> Answer:
        asked: list[JsonObject] = []
        for schema in schemas:
            if schema is None:
                return Unknown((Blocker("", "", "a contract has no one reading"),))
            if schema == NOTHING:
                return No("nothing is accepted")
            if schema and schema not in asked:
                asked.append(schema)
        return self._arithmetic.common(asked)


def condition(needed_when: bool | JsonObject) -> JsonObject:
    """A `needed_when` as a schema."""
    if needed_when is True:
        return {}
    return NOTHING if needed_when is False else needed_when


def refused_by(schema: JsonObject) -> JsonObject:
    """What a schema refuses."""
    if not schema:
        return NOTHING
    return {} if schema == NOTHING else {"not": schema}


def _permissions(old: VersionPolicy, new: VersionPolicy) -> Mapping[str, str]:
    """By pointer, why an argument of either version is a permission."""
    found: dict[str, str] = {}
    for version in (old, new):
        for name, rule in version.scopes.items():
            for pointer in rule.placeholders:
                found.setdefault(pointer, f"the scope {name} names it")
            for pointer in _named_in(rule.needed_when):
                found.setdefault(pointer, f"whether {name} is needed depends on it")
        for argument in permission_arguments(version):
            said = {
                "declared": "it is declared under arguments",
                "name": "its name says so",
                "use": "its description says so",
            }
            found.setdefault(argument.pointer, f"it is a {argument.kind}: {said[argument.because]}")
    return found


def _named_in(needed_when: JsonValue, pointer: str = "") -> Iterator[str]:
    """The pointers of the properties that a condition speaks of, at any depth."""
    if isinstance(needed_when, list):
        for item in needed_when:
            yield from _named_in(item, pointer)
    if not isinstance(needed_when, dict):
        return
    for keyword, value in needed_when.items():
        if keyword == "properties" and isinstance(value, dict):
            for name, child in value.items():
                below = f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"
                yield below
                yield from _named_in(child, below)
        elif keyword == "required" and isinstance(value, list):
            for needed in value:
                yield f"{pointer}/{str(needed).replace('~', '~0').replace('/', '~1')}"
        elif keyword in ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "items", "contains", "prefixItems"):
            yield from _named_in(value, pointer)


def _lists(schema: JsonObject, pointer: str) -> bool:
    try:
        return holding(schema, pointer, {}) != NOTHING
    except SchemaError:
        return False
