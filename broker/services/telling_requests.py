"""Requests that tell a changed policy from the policy: what a test would have to ask.

1. Who: those who ask in the tests, those whom a task lets in, and those who only just miss.
2. With what: the arguments in the tests and what is near them; then such as the arithmetic finds: needing a scope, not needing
   it, at a root and beside it, accepted by one contract and not by the other. It is asked a limited number of times.
3. Each is decided twice. The first whose outcomes differ, in a way that a case can say, is the one; nothing is claimed where
   none is found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final

from broker.domain.canonical import JsonObject
from broker.domain.errors import Refusal
from broker.domain.ids import TaskName
from broker.domain.policy.case_text import Telling, spell_case
from broker.domain.policy.cases import PolicyCase
from broker.domain.policy.decide import Permit
from broker.domain.policy.document import ArgumentFacts, VersionPolicy
from broker.domain.policy.mutants import Mutant, facts_under
from broker.domain.policy.nearby import nearby
from broker.domain.policy.principals import Who, claim_values, just_missed, let_in
from broker.domain.policy.tree import PolicyTree
from broker.domain.policy.trials import Request, ask
from broker.domain.schema.answers import Answer, Yes
from broker.domain.schema.closure import accepted_inputs
from broker.domain.schema.dialect import SchemaError, unescape
from broker.domain.schema.holding import holding
from broker.ports.arguments import ArgumentMatcher
from broker.ports.schemas import SchemaArithmetic

_MAX_TRIED: Final = 4_000
_ELSEWHERE: Final = {
    "path": ("/etc/passwd", "/elsewhere/file"),
    "url": ("https://elsewhere.example/", "http://elsewhere.example/"),
    "host": ("elsewhere.example", "192.0.2.1"),
}


class TellingRequests:
    """Looks for one tree; remembers what it has found out about a version."""

    def __init__(
        self, matcher: ArgumentMatcher, arithmetic: SchemaArithmetic | None, tree: PolicyTree, *, questions: int
    ) -> None:
        self._matcher = matcher
        self._arithmetic = arithmetic
        self._questions = questions
        self._tree = tree
        self._known = claim_values(tree.policy)
        self._found: dict[str, JsonObject | None] = {}

    def find(self, mutant: Mutant, cases: Sequence[PolicyCase]) -> Telling | None:
        """A request that the version and its mutant answer differently."""
        version = self._tree.version(mutant.version.tool, mutant.version.version)
        assert version is not None
        people = list(self._people(version, mutant, cases))
        tasks = sorted(version.tasks, key=lambda name: (name != mutant.task, list(version.tasks).index(name)))
        tried = 0
        for arguments in self._candidates(version, mutant, cases):
            facts = None if arguments is None else self._matcher.facts(version, arguments)
            mutated = None if facts is None or arguments is None else self._under(mutant, facts, arguments)
            for task, who in product(tasks, people):
                tried += 1
                if tried > _MAX_TRIED:
                    return None
                found = self._tells(version, mutant, _request(version, task, who, arguments), facts, mutated)
                if found is not None:
                    return found
        return None

    def accepted(self, version: VersionPolicy, *also: JsonObject) -> JsonObject | None:
        """Arguments that a version accepts, and that fit `also`; None where none are found."""
        key = f"{version.digest} {also}"
        if key not in self._found:
            answer = self._ask(version, also)
            witness = answer.witness if isinstance(answer, Yes) else None
            self._found[key] = witness if isinstance(witness, dict) else None
        return self._found[key]

    def _ask(self, version: VersionPolicy, also: Sequence[JsonObject]) -> Answer | None:
        if self._arithmetic is None or self._questions == 0:
            return None
        self._questions -= 1
        try:
            return self._arithmetic.common([accepted_inputs(version.contract.input_schema), *also])
        except SchemaError:
            return None

    def _tells(
        self,
        version: VersionPolicy,
        mutant: Mutant,
        request: Request,
        facts: ArgumentFacts | None,
        mutated: ArgumentFacts | None,
    ) -> Telling | None:
        before = ask(request, version, facts, self._tree.policy)
        after = ask(request, mutant.version, mutated, self._tree.policy)
        name = f"noticed where {mutant.words}"
        match before, after:
            case Permit(), Permit() if before.scopes == after.scopes:
                with_ttl, with_uses = before.ttl_seconds != after.ttl_seconds, before.uses != after.uses
                if not with_ttl and not with_uses:
                    return None
                found = Telling(name, request, before, with_ttl, with_uses)
            case Refusal(), Refusal() if before.reason is after.reason:
                return None
            case _:
                found = Telling(name, request, before)
        return found if spell_case(found) is not None else None

    def _under(self, mutant: Mutant, facts: ArgumentFacts, arguments: JsonObject) -> ArgumentFacts:
        return self._matcher.facts(mutant.version, arguments) if mutant.recompile else facts_under(mutant, facts)

    def _people(self, version: VersionPolicy, mutant: Mutant, cases: Sequence[PolicyCase]) -> Iterator[Who]:
        seen = set()
        for who in self._all_people(version, mutant, cases):
            if who.key not in seen:
                seen.add(who.key)
                yield who

    def _all_people(self, version: VersionPolicy, mutant: Mutant, cases: Sequence[PolicyCase]) -> Iterator[Who]:
        for case in cases:
            yield Who(case.client, case.issuer, case.claims)
        tasks = [version.tasks[mutant.task]] if mutant.task is not None else list(version.tasks.values())
        for task in tasks:
            yield from let_in(task, version, self._tree.policy)
        if mutant.operator.startswith("allow."):
            for task in tasks:
                yield from just_missed(task, version, self._tree.policy, self._known)

    def _candidates(
        self, version: VersionPolicy, mutant: Mutant, cases: Sequence[PolicyCase]
    ) -> Iterator[JsonObject | None]:
        if mutant.in_contract:
            yield from self._apart(version, mutant.version, cases)
        elif mutant.argument is None:
            yield from self._given(version, cases)
            yield None
            yield from self._sorts(version)
        else:
            yield from self._at_roots(version, mutant, mutant.argument, cases)

    def _given(self, version: VersionPolicy, cases: Sequence[PolicyCase]) -> list[JsonObject]:
        """The accepted arguments of the cases, each once."""
        found: list[JsonObject] = []
        for case in cases:
            arguments = case.arguments
            if arguments is not None and arguments not in found and self._matcher.facts(version, arguments).valid:
                found.append(arguments)
        return found

    def _sorts(self, version: VersionPolicy) -> Iterator[JsonObject]:
        """Accepted arguments, one of each sort that the conditions tell apart."""
        sorts: list[tuple[JsonObject, ...]] = [()]
        for rule in version.scopes.values():
            if isinstance(rule.needed_when, dict):
                sorts += [(rule.needed_when,), ({"not": rule.needed_when},)]
        for sort in sorts:
            found = self.accepted(version, *sort)
            if found is not None:
                yield found

    def _at_roots(
        self, version: VersionPolicy, mutant: Mutant, pointer: str, cases: Sequence[PolicyCase]
    ) -> Iterator[JsonObject]:
        values = list(dict.fromkeys(_values(mutant, pointer, version)))
        for arguments, value in product(self._given(version, cases), values):
            moved = _replaced(arguments, pointer, value)
            if moved is not None:
                yield moved
        try:
            found = self.accepted(version, holding(version.contract.input_schema, pointer, {"enum": [*values]}))
        except SchemaError:
            return
        if found is not None:
            yield found
            yield from filter(None, (_replaced(found, pointer, value) for value in values))

    def _apart(self, version: VersionPolicy, other: VersionPolicy, cases: Sequence[PolicyCase]) -> Iterator[JsonObject]:
        """Arguments that one contract accepts and the other does not."""
        schema = version.contract.input_schema
        given = self._given(version, cases) or list(filter(None, [self.accepted(version)]))
        for arguments in given:
            for near in nearby(arguments, schema):
                if self._matcher.facts(version, near).valid != self._matcher.facts(other, near).valid:
                    yield near
        if self._arithmetic is None or self._questions == 0:
            return
        self._questions -= 1
        try:
            related = self._arithmetic.relate(accepted_inputs(schema), accepted_inputs(other.contract.input_schema))
        except SchemaError:
            return
        for answer in (related.gained, related.lost):
            if isinstance(answer, Yes) and isinstance(answer.witness, dict):
                yield answer.witness


def _request(version: VersionPolicy, task: TaskName, who: Who, arguments: JsonObject | None) -> Request:
    return Request(version.version, who.client, who.issuer, task, who.claims, arguments, None)


def _values(mutant: Mutant, pointer: str, version: VersionPolicy) -> Iterator[str]:
    """Values at an argument with roots that lie where the mutant's roots differ."""
    kind = version.arguments[pointer].kind
    for rule in (mutant.version.arguments[pointer], version.arguments[pointer]):
        for root in rule.within:
            below = root.replace("*.", "elsewhere.") if kind == "host" else f"{root.rstrip('/')}/elsewhere"
            yield from (below, root, f"{root}-old/file")
    yield from _ELSEWHERE.get(kind, ())


def _replaced(arguments: JsonObject, pointer: str, value: str) -> JsonObject | None:
    """The arguments with the value at a pointer exchanged; None where nothing stands there, or a list is on the way."""
    name, slash, rest = pointer[1:].partition("/")
    key = unescape(name)
    if key not in arguments:
        return None
    if not slash:
        return {**arguments, key: value} if isinstance(arguments[key], str) else None
    inner = arguments[key]
    moved = _replaced(inner, f"/{rest}", value) if isinstance(inner, dict) else None
    return {**arguments, key: moved} if moved is not None else None
