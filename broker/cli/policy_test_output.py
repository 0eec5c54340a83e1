"""What a run of `broker policy test` looks like: text for people, JSON for programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from broker.domain.errors import Refusal
from broker.domain.policy.case_text import spell_case
from broker.domain.policy.coverage import shares
from broker.domain.policy.decide import Permit
from broker.domain.policy.deciding import STEPS, Deciding
from broker.domain.policy.findings import Place
from broker.domain.policy.tree import PolicyTree
from broker.domain.policy.trials import CaseResult, Status
from broker.domain.scopes import spell_scopes
from broker.services.policy_test import Survivor, TestRun

_PROPOSED: Final = 5
_MISSED: Final = 20
_PLURALS: Final = {
    "version": "versions",
    "task": "tasks",
    "allow": "allow rules, both ways",
    "scope": "scopes",
    "condition": "conditions, both ways",
    "root": "roots, both ways",
}


def as_text(run: TestRun, tree: PolicyTree, *, verbose: bool) -> str:
    """For people. verbose: also what is well, and a proposed case for each unnoticed change."""
    lines: list[str] = []
    for result in run.results:
        if result.status is not Status.OK:
            lines += [*_case(result, tree), ""]
        elif verbose:
            lines.append(f"{tree.at(result.case.node)}: ok: {result.case.name}")
    lines += [*_summary(run), *_reach(run, verbose=verbose)]
    if run.mutants:
        lines += _mutants(run, tree, verbose=verbose)
    return "\n".join(lines)


def _case(result: CaseResult, tree: PolicyTree) -> Iterator[str]:
    place = tree.at(result.case.node)
    yield f"{place}: {result.status}: {result.case.name}"
    if place.source:
        number = str(place.line)
        yield f"  {number} | {place.source}"
        yield f"  {' ' * len(number)} | {' ' * (place.column - 1)}^"
    yield f"  {result.departs}"
    match result.outcome:
        case Permit():
            yield f"  got: a permit for {result.outcome.task} with {spell_scopes(result.outcome.scopes)}"
        case Refusal():
            yield f"  got: the refusal {result.outcome.reason}: {result.outcome.detail}"
            if result.outcome.why:
                yield f"  why: {result.outcome.why}"
    if result.decided is not None:
        yield f"  decided by: {result.decided.rule} (step {result.decided.step}, {STEPS[result.decided.step]})"
        yield f"  at: {decided_at(result.decided, result.case.tool, result.case.version, tree)}"
    if result.mend:
        yield f"  mend: {result.mend}"


def decided_at(decided: Deciding, tool: str, version: str, tree: PolicyTree) -> Place:
    """Where the deciding rule stands."""
    found = next((one for one in tree.policy.tools.values() if one.tool == tool), None)
    number = next((one for one in found.versions if one == version), None) if found is not None else None
    if decided.in_trust or found is None:
        return tree.trust_place(decided.pointer)
    return tree.place(found.tool, number, decided.pointer)


def _summary(run: TestRun) -> Iterator[str]:
    if not run.results:
        yield "there is no case to try: write some into tests/, one file for each tool"
        return
    ok = len(run.results) - len(run.failed) - len(run.unusable)
    said = [f"{ok} ok", f"{len(run.failed)} failed", f"{len(run.unusable)} unusable"]
    yield f"{len(run.results)} cases: {', '.join(said[: 3 if run.unusable else 2])}"
    for tool in run.untested:
        yield f"{tool} has no case at all: write tests/{tool}.yaml"


def _reach(run: TestRun, *, verbose: bool) -> Iterator[str]:
    counted = shares(one.goal for one in run.reach)
    if counted:
        said = [f"{_PLURALS[kind]} {reached}/{there}" for kind, (reached, there) in counted.items()]
        yield f"reached: {'; '.join(said)} ({_percent(run)} %)"
    missed = [one for one in run.reach if not one.goal.reached]
    if missed:
        yield "no case shows:"
    for index, one in enumerate(missed):
        if index == _MISSED and not verbose:
            yield f"  … and {len(missed) - _MISSED} more: --verbose names them"
            return
        words = one.goal.words
        yield f"  {one.place}: {words}" + ("" if one.goal.kind == "version" else f", in version {one.version}")


def _percent(run: TestRun) -> int:
    return 100 * sum(one.goal.reached for one in run.reach) // max(len(run.reach), 1)


def _mutants(run: TestRun, tree: PolicyTree, *, verbose: bool) -> Iterator[str]:
    told, untold = run.told, [one for one in run.survivors if one.telling is None]
    yield f"changes tried: {run.mutants}; noticed: {run.mutants - len(run.survivors)}; unnoticed: {len(run.survivors)}"
    if told:
        yield "a case could notice each of these; paste it into the tool's test file:"
    for index, survivor in enumerate(told):
        if index == _PROPOSED and not verbose:
            yield f"  … and {len(told) - _PROPOSED} more: --verbose shows them, and the cases"
            break
        yield from _told(survivor)
    if untold:
        yield "no request was found that tells these from the policy; they may decide alike:"
    for index, survivor in enumerate(untold):
        if index == _PROPOSED and not verbose:
            yield f"  … and {len(untold) - _PROPOSED} more"
            break
        yield f"  {survivor.place}: {survivor.mutant.words}"


def _told(survivor: Survivor) -> Iterator[str]:
    yield f"  {survivor.place}: {survivor.mutant.words}"
    assert survivor.telling is not None
    yield spell_case(survivor.telling) or ""


def as_json(run: TestRun, tree: PolicyTree) -> dict[str, object]:
    """For programs; members are only ever added."""
    return {
        "passed": not run.failed and not run.unusable and bool(run.results),
        "cases": [_case_json(result, tree) for result in run.results],
        "coverage": {
            kind: {"reached": reached, "all": there}
            for kind, (reached, there) in shares(one.goal for one in run.reach).items()
        },
        "unreached": [
            {
                "tool": one.tool,
                "version": one.version,
                "kind": one.goal.kind,
                "what": one.goal.words,
                **_place_json(one.place),
            }
            for one in run.reach
            if not one.goal.reached
        ],
        "untested": list(run.untested),
        "mutants": run.mutants,
        "survivors": [
            {
                "tool": one.mutant.version.tool,
                "version": one.mutant.version.version,
                "operator": one.mutant.operator,
                "what": one.mutant.words,
                **_place_json(one.place),
                "case": spell_case(one.telling) if one.telling is not None else None,
            }
            for one in run.survivors
        ],
    }


def _case_json(result: CaseResult, tree: PolicyTree) -> dict[str, object]:
    case, outcome = result.case, result.outcome
    made: dict[str, object] = {
        "tool": case.tool,
        "version": case.version,
        "name": case.name,
        **_place_json(tree.at(case.node)),
        "status": result.status,
        "permit": sorted(outcome.scopes) if isinstance(outcome, Permit) else None,
        "refuse": outcome.reason if isinstance(outcome, Refusal) else None,
        "rule": result.decided.rule if result.decided is not None else None,
    }
    if result.status is not Status.OK:
        made |= {"departs": result.departs, "mend": result.mend}
        if isinstance(outcome, Refusal):
            made |= {"detail": outcome.detail, "why": outcome.why}
    return made


def _place_json(place: Place) -> dict[str, object]:
    return {"file": place.file, "line": place.line, "column": place.column}
