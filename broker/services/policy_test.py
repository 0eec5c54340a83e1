"""`policy test`: every case tried, what no case reaches, and which changes of the policy no case notices.

1. Cases go through the decision that an exchange goes through, with facts from the same engine.
2. A mutant is noticed where a case that came out as it says comes out otherwise. Versions that say something in one place (by
   `extends`) share its mutants: a case of any of them notices it.
3. Of a mutant that nobody notices, a request that tells it from the policy is looked for (`telling`). Where none is found, it is
   listed apart: it may well decide alike.
4. Everything in the order of the files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from broker.domain.ids import ToolName, Version
from broker.domain.policy.case_text import Telling
from broker.domain.policy.cases import PolicyCase
from broker.domain.policy.coverage import Goal, Tried, goals
from broker.domain.policy.document import ArgumentFacts, VersionPolicy
from broker.domain.policy.findings import Place
from broker.domain.policy.mutants import Mutant, facts_under, mutants
from broker.domain.policy.tested import check_tests
from broker.domain.policy.tree import PolicyTree
from broker.domain.policy.trials import CaseResult, Status, ask, departure, no_such_version, request_of, try_case
from broker.ports.arguments import ArgumentMatcher
from broker.ports.schemas import SchemaArithmetic
from broker.services.telling_requests import TellingRequests


@dataclass(frozen=True, slots=True)
class Reach:
    """A goal of a version, and where what it is about is said."""

    tool: ToolName
    version: Version
    goal: Goal
    place: Place


@dataclass(frozen=True, slots=True)
class Survivor:
    """A mutant that no case notices. telling: a case that would; None where no request was found that tells it apart."""

    mutant: Mutant
    place: Place
    telling: Telling | None


@dataclass(frozen=True, slots=True)
class TestRun:
    """All that a run found."""

    results: tuple[CaseResult, ...]
    reach: tuple[Reach, ...]
    mutants: int = 0
    survivors: tuple[Survivor, ...] = ()
    untested: tuple[ToolName, ...] = field(default=())

    @property
    def unusable(self) -> tuple[CaseResult, ...]:
        return tuple(result for result in self.results if result.status is Status.UNUSABLE)

    @property
    def failed(self) -> tuple[CaseResult, ...]:
        return tuple(result for result in self.results if result.status is Status.FAILED)

    @property
    def told(self) -> tuple[Survivor, ...]:
        """The survivors that a test could have noticed."""
        return tuple(survivor for survivor in self.survivors if survivor.telling is not None)


class PolicyTester:
    """Runs the tests of a tree.

    arithmetic: for requests that tell mutants apart; without it they are made from those of the cases alone.
    questions:  how often it may be asked, for each tool.
    """

    def __init__(
        self, matcher: ArgumentMatcher, arithmetic: SchemaArithmetic | None = None, *, questions: int = 8
    ) -> None:
        self._matcher = matcher
        self._arithmetic = arithmetic
        self._questions = questions

    def run(self, tree: PolicyTree, *, tool: ToolName | None = None, mutations: bool = True) -> TestRun:
        """Try the cases of one tool, or of all."""
        names = [name for name in dict.fromkeys((*tree.policy.tools, *tree.cases)) if tool in (None, name)]
        misnamed = _misnamed(tree)
        results: list[CaseResult] = []
        reach: list[Reach] = []
        survivors: list[Survivor] = []
        count = 0
        for name in names:
            tried = [self._try(case, tree, misnamed) for case in tree.cases.get(name, ())]
            results += [one.result for one in tried]
            reach += _reach(tree, name, tried)
            if mutations and all(one.result.status is not Status.UNUSABLE for one in tried):
                made, left = self._mutate(tree, name, tried)
                count += made
                survivors += left
        return TestRun(
            results=tuple(results),
            reach=tuple(reach),
            mutants=count,
            survivors=tuple(survivors),
            untested=tuple(name for name in names if name in tree.policy.tools and not tree.cases.get(name)),
        )

    def _try(self, case: PolicyCase, tree: PolicyTree, misnamed: Mapping[tuple[str, str], tuple[str, str]]) -> Tried:
        wrong = misnamed.get((case.node.file, case.node.pointer))
        if wrong is not None:
            return Tried(CaseResult(case, Status.UNUSABLE, None, None, *wrong), None)
        version = tree.version(case.tool, case.version)
        if version is None:
            outcome = no_such_version(case, tuple(tree.policy.tools[case.tool].versions))
            departs = departure(case, outcome, None)
            return Tried(CaseResult(case, Status.FAILED if departs else Status.OK, outcome, None, departs), None)
        facts = None if case.arguments is None else self._matcher.facts(version, case.arguments)
        return Tried(try_case(case, version, facts, tree.policy), facts)

    # Mutants

    def _mutate(self, tree: PolicyTree, tool: ToolName, tried: Sequence[Tried]) -> tuple[int, list[Survivor]]:
        policy = tree.policy.tools.get(tool)
        by_place: dict[tuple[Place, str, str], list[tuple[Mutant, Sequence[Tried]]]] = defaultdict(list)
        known = _known_claims(tree)
        for number, version in policy.versions.items() if policy is not None else ():
            own = [one for one in tried if one.result.case.version == number and one.result.status is Status.OK]
            for mutant in mutants(version, tree.policy, known):
                by_place[_place(tree, mutant), mutant.operator, mutant.words].append((mutant, own))
        telling = TellingRequests(self._matcher, self._arithmetic, tree, questions=self._questions)
        survivors = []
        for (place, _, _), group in by_place.items():
            if not any(self._notices(mutant, own, tree) for mutant, own in group):
                found = (telling.find(mutant, [one.result.case for one in own]) for mutant, own in group)
                survivors.append(Survivor(group[0][0], place, next(filter(None, found), None)))
        return len(by_place), survivors

    def _notices(self, mutant: Mutant, tried: Sequence[Tried], tree: PolicyTree) -> bool:
        for one in tried:
            case, facts = one.result.case, self._facts(mutant, one)
            if facts == one.facts and mutant.recompile:
                continue
            outcome = ask(request_of(case), mutant.version, facts, tree.policy)
            if outcome is not one.result.outcome and departure(case, outcome, None):
                return True
        return False

    def _facts(self, mutant: Mutant, one: Tried) -> ArgumentFacts | None:
        if one.facts is None:
            return None
        if mutant.recompile:
            assert one.result.case.arguments is not None
            return self._matcher.facts(mutant.version, one.result.case.arguments)
        return facts_under(mutant, one.facts)


def _misnamed(tree: PolicyTree) -> Mapping[tuple[str, str], tuple[str, str]]:
    """By file and pointer of a case, what it names that is not there, and the mend."""
    found: dict[tuple[str, str], tuple[str, str]] = {}
    cases = {(case.node.file, case.node.pointer) for listed in tree.cases.values() for case in listed}
    for tool, listed in tree.cases.items():
        if tool not in tree.policy.tools:
            known = ", ".join(tree.policy.tools)
            for case in listed:
                found[case.node.file, case.node.pointer] = (f"there is no tool {tool}", f"tools here: {known}")
    for finding in check_tests(tree):
        case_pointer = "/".join(finding.place.pointer.split("/")[:3])
        if (finding.place.file, case_pointer) in cases:
            found.setdefault((finding.place.file, case_pointer), (finding.what, finding.mend))
    return found


def _reach(tree: PolicyTree, tool: ToolName, tried: Sequence[Tried]) -> Iterator[Reach]:
    policy = tree.policy.tools.get(tool)
    for number, version in policy.versions.items() if policy is not None else ():
        for goal in goals(version, [one for one in tried if one.result.case.version == number]):
            yield Reach(tool, number, goal, tree.place(tool, number, goal.pointer))


def _place(tree: PolicyTree, mutant: Mutant) -> Place:
    version: VersionPolicy = mutant.version
    where = tree.contract_place if mutant.in_contract else tree.place
    return where(version.tool, version.version, mutant.pointer)


def _known_claims(tree: PolicyTree) -> Mapping[str, frozenset[str]]:
    """By claim, every value that policy or tests speak of."""
    found: dict[str, set[str]] = defaultdict(set)
    for tool in tree.policy.tools.values():
        for version in tool.versions.values():
            for task in version.tasks.values():
                for name, values in task.claims.items():
                    found[name].update(values)
    for listed in tree.cases.values():
        for case in listed:
            for name, said in case.claims.items():
                found[name].update(said)
    return {name: frozenset(values) for name, values in found.items()}
