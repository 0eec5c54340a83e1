"""`policy explain`: which rule decides a request, which scopes it needs and why, and what would change the answer.

1. The answer is that of the decision itself. Nothing is said about a change that was not decided again with the change made.
2. For a refusal the changes are those that lead to a permit, or, where none does, those that a later step refuses; for a permit
   those that lead to a refusal, one for each reason and aspect.
3. Who asks may be left open: then it is said who could.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from broker.domain.canonical import JsonObject
from broker.domain.errors import Reason, Refusal
from broker.domain.ids import TaskName, ToolName, Version
from broker.domain.policy.access import spell_allow
from broker.domain.policy.decide import Permit
from broker.domain.policy.deciding import Deciding, deciding
from broker.domain.policy.document import ArgumentFacts, VersionPolicy
from broker.domain.policy.findings import Place
from broker.domain.policy.nearby import nearby
from broker.domain.policy.principals import let_in
from broker.domain.policy.tree import PolicyTree
from broker.domain.policy.trials import Request, ask
from broker.domain.policy.variations import Variation, difference, shown, spell_who, variations
from broker.domain.schema.answers import Yes
from broker.domain.schema.closure import accepted_inputs
from broker.domain.schema.dialect import SchemaError, escape
from broker.ports.arguments import ArgumentMatcher
from broker.ports.schemas import SchemaArithmetic

_EACH: Final = 3
_WHO: Final = 2  # the last step of the decision that looks at who asks
_MAX_TRIED: Final = 4_000


@dataclass(frozen=True, slots=True)
class ScopeNeed:
    """A scope of the version: whether these arguments need it, why, and whether the task grants it.

    needed: None where no arguments are given, or they do not fit. granted: None where no task is settled.
    """

    template: str
    needed: bool | None
    because: str
    granted: bool | None
    place: Place


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the request, and what it leads to."""

    aspect: str
    words: str
    outcome: Permit | Refusal


@dataclass(frozen=True, slots=True)
class Opening:
    """A task, whom it lets in, and what such a principal would get for these arguments."""

    task: TaskName
    allow: str
    place: Place
    who: str
    outcome: Permit | Refusal | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """outcome: None where the principal was left open."""

    tool: ToolName
    version: Version
    outcome: Permit | Refusal | None
    decided: Deciding | None
    place: Place | None
    needs: tuple[ScopeNeed, ...]
    changes: tuple[Change, ...]
    openings: tuple[Opening, ...]


class Explainer:
    """Explains one tree."""

    def __init__(self, tree: PolicyTree, matcher: ArgumentMatcher, arithmetic: SchemaArithmetic | None = None) -> None:
        self._tree = tree
        self._matcher = matcher
        self._arithmetic = arithmetic

    def explain(self, version: VersionPolicy, request: Request, *, principal_known: bool = True) -> Explanation:
        """Why a request comes out as it does. principal_known: client and issuer are those who ask."""
        facts = self._facts(version, request.arguments)
        outcome = ask(request, version, facts, self._tree.policy) if principal_known else None
        decided = place = None
        if outcome is not None:
            decided = deciding(outcome, version, principal=request.principal, task=request.task)
            place = self._tree.trust_place(decided.pointer) if decided.in_trust else self._at(version, decided.pointer)
        task = outcome.task if isinstance(outcome, Permit) else request.task
        return Explanation(
            tool=version.tool,
            version=version.version,
            outcome=outcome,
            decided=decided,
            place=place,
            needs=tuple(self._need(name, version, request, facts, task) for name in version.scopes),
            changes=tuple(self._changes(version, request, outcome)) if outcome is not None else (),
            # where it is not who asks that decided, others would fare no better
            openings=tuple(self._openings(version, request)) if decided is None or decided.step <= _WHO else (),
        )

    def _at(self, version: VersionPolicy, pointer: str) -> Place:
        return self._tree.place(version.tool, version.version, pointer)

    def _facts(self, version: VersionPolicy, arguments: JsonObject | None) -> ArgumentFacts | None:
        return None if arguments is None else self._matcher.facts(version, arguments)

    # Scopes

    def _need(
        self, name: str, version: VersionPolicy, request: Request, facts: ArgumentFacts | None, task: TaskName | None
    ) -> ScopeNeed:
        rule = version.tasks.get(task) if task is not None else None
        needed = name in facts.needed if facts is not None and facts.valid else None
        return ScopeNeed(
            template=name,
            needed=needed,
            because=self._because(name, version, request.arguments, needed=needed),
            granted=name in rule.scopes if rule is not None else None,
            place=self._at(version, f"/scopes/{escape(name)}/needed_when"),
        )

    def _because(self, name: str, version: VersionPolicy, arguments: JsonObject | None, *, needed: bool | None) -> str:
        condition = version.scopes[name].needed_when
        if needed is None and arguments is not None:
            return "the arguments do not fit the contract"
        if condition is True:
            return "every input needs it"
        if condition is False:
            return "no input needs it"
        if needed is None or arguments is None:
            return f"needed where the arguments fit {shown(condition)}"
        for near in nearby(arguments, version.contract.input_schema):
            facts = self._matcher.facts(version, near)
            if facts.valid and (name in facts.needed) is not needed:
                return f"{'not ' if needed else ''}needed {difference(arguments, near)}"
        return f"{'they fit' if needed else 'they do not fit'} {shown(condition)}"

    # What would change the answer

    def _changes(self, version: VersionPolicy, request: Request, outcome: Permit | Refusal) -> list[Change]:
        told: list[Change] = []
        further: list[Change] = []
        step = _step(outcome, version, request)
        for one in islice(self._variations(version, request), _MAX_TRIED):
            aspects = {change.aspect for change in told}
            like = [change for change in told if change.aspect == one.aspect]
            if len(like) == _EACH or (one.aspect == "both" and {"principal", "task"} & aspects):
                continue
            after = ask(one.request, version, self._facts(version, one.request.arguments), self._tree.policy)
            change = Change(one.aspect, one.words, after)
            if isinstance(outcome, Permit) is not isinstance(after, Permit):
                # that nonsense is refused says nothing about this request
                nonsense = isinstance(after, Refusal) and after.reason is Reason.ARGUMENTS_INVALID
                if isinstance(after, Permit) or not (nonsense or _said(after, like)):
                    told.append(change)
            elif isinstance(after, Refusal) and _step(after, version, one.request) > step and not _said(after, further):
                further.append(change)
        return told or further[:_EACH]

    def _variations(self, version: VersionPolicy, request: Request) -> Iterator[Variation]:
        yield from variations(request, version, self._tree.policy)
        if self._arithmetic is None or (request.arguments is not None and self._fits(version, request.arguments)):
            return
        # no single change may do: an object that the contract accepts at all
        try:
            answer = self._arithmetic.common([accepted_inputs(version.contract.input_schema)])
        except SchemaError:
            return
        if isinstance(answer, Yes) and isinstance(answer.witness, dict):
            words = f"with arguments such as {shown(answer.witness)}"
            yield Variation("arguments", words, replace(request, arguments=answer.witness))

    def _fits(self, version: VersionPolicy, arguments: JsonObject) -> bool:
        return self._matcher.facts(version, arguments).valid

    # Who could

    def _openings(self, version: VersionPolicy, request: Request) -> Iterator[Opening]:
        facts = self._facts(version, request.arguments)
        for task in version.tasks.values():
            if request.task in version.tasks and request.task != task.task:
                continue
            place = self._at(version, f"/tasks/{escape(task.task)}/allow")
            who = next(let_in(task, version, self._tree.policy), None)
            if who is None:
                yield Opening(task.task, spell_allow(task), place, "", None)
                continue
            asked = replace(request, task=task.task, client=who.client, issuer=who.issuer, claims=who.claims)
            after = ask(asked, version, facts, self._tree.policy)
            yield Opening(task.task, spell_allow(task), place, spell_who(who), after)


def _step(outcome: Permit | Refusal, version: VersionPolicy, request: Request) -> int:
    return deciding(outcome, version, principal=request.principal, task=request.task).step


def _said(refusal: Refusal, told: Sequence[Change]) -> bool:
    return any(isinstance(change.outcome, Refusal) and change.outcome.reason is refusal.reason for change in told)
