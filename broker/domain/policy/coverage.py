"""What a policy's tests reach, and what no test does.

| goal      | reached when a case                                                                    |
|-----------|----------------------------------------------------------------------------------------|
| version   | asks it for anything                                                                    |
| task      | is permitted for it                                                                     |
| allow     | is let in by it; and one is kept out by it (two goals)                                     |
| scope     | is granted it                                                                           |
| condition | gives arguments that need the scope; and one gives arguments that do not (two goals)        |
| root      | gives an accepted value under it; and one is refused by the argument's roots (two goals)      |

Only cases that came out as they say count: what fails shows nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from broker.domain.errors import Refusal
from broker.domain.policy.decide import Permit
from broker.domain.policy.document import ArgumentFacts, VersionPolicy
from broker.domain.policy.roots import within
from broker.domain.policy.trials import CaseResult, Status
from broker.domain.schema.dialect import escape
from broker.domain.schema.holding import values_at


@dataclass(frozen=True, slots=True)
class Goal:
    """One thing to reach. kind: as in the table. pointer: into the version; empty is the version itself."""

    kind: str
    pointer: str
    words: str
    reached: bool


@dataclass(frozen=True, slots=True)
class Tried:
    """A result, and the facts about the arguments of its case where it gives any."""

    result: CaseResult
    facts: ArgumentFacts | None


def goals(version: VersionPolicy, tried: Iterable[Tried]) -> Iterator[Goal]:
    """Every goal of a version. `tried` are the results of the cases that ask this version."""
    shown = [one for one in tried if one.result.status is Status.OK]
    permits = [one for one in shown if isinstance(one.result.outcome, Permit)]
    yield Goal("version", "", f"any request of version {version.version}", bool(shown))
    for name in version.tasks:
        at = f"/tasks/{escape(name)}"
        permitted = any(isinstance(one.result.outcome, Permit) and one.result.outcome.task == name for one in permits)
        kept_out = any(_refused_by(one, f"{at}/allow") for one in shown)
        yield Goal("task", at, f"a permit for the task {name}", permitted)
        yield Goal("allow", f"{at}/allow", f"somebody whom {name} lets in", permitted)
        yield Goal("allow", f"{at}/allow", f"somebody whom {name} keeps out", kept_out)
    for template, rule in version.scopes.items():
        at = f"/scopes/{escape(template)}"
        yield Goal("scope", at, f"a permit with {template}", any(_grants(one, template, version) for one in permits))
        if isinstance(rule.needed_when, dict):
            asked = [one.facts for one in shown if one.facts is not None and one.facts.valid]
            needs = any(template in facts.needed for facts in asked)
            spares = any(template not in facts.needed for facts in asked)
            yield Goal("condition", f"{at}/needed_when", f"arguments that need {template}", needs)
            yield Goal("condition", f"{at}/needed_when", f"arguments that do not need {template}", spares)
    for pointer, argument in version.arguments.items():
        at = f"/arguments/{escape(pointer)}/within"
        for root in argument.within:
            lies = any(_lies_under(one, pointer, argument.kind, root) for one in permits)
            yield Goal("root", f"{at}/{escape(root)}", f"a permit for {pointer} under {root}", lies)
        if argument.within:
            outside = any(_refused_by(one, at) for one in shown)
            yield Goal("root", at, f"a refusal of {pointer} outside its roots", outside)


def shares(found: Iterable[Goal]) -> Mapping[str, tuple[int, int]]:
    """By kind, how many goals are reached and how many there are."""
    counted: dict[str, tuple[int, int]] = {}
    for goal in found:
        reached, there = counted.get(goal.kind, (0, 0))
        counted[goal.kind] = (reached + goal.reached, there + 1)
    return counted


def _refused_by(one: Tried, pointer: str) -> bool:
    decided = one.result.decided
    return isinstance(one.result.outcome, Refusal) and decided is not None and decided.pointer == pointer


def _grants(one: Tried, template: str, version: VersionPolicy) -> bool:
    outcome = one.result.outcome
    if not isinstance(outcome, Permit) or template not in version.tasks[outcome.task].scopes:
        return False
    if one.facts is not None and template not in one.facts.needed:
        return False
    literal = template.partition("{")[0]
    return any(scope.startswith(literal) if "{" in template else scope == template for scope in outcome.scopes)


def _lies_under(one: Tried, pointer: str, kind: str, root: str) -> bool:
    arguments = one.result.case.arguments
    return arguments is not None and any(
        isinstance(value, str) and within(kind, value, (root,)) is not None for value in values_at(arguments, pointer)
    )
