"""Lockstep: a version whose inputs tighten takes its scopes down with it, and the reverse.

| rule                   | refused when                                                                                |
|------------------------|---------------------------------------------------------------------------------------------|
| `lockstep.scope-kept`  | the step puts a scope out of reach, and the new version still grants it                        |
| `lockstep.schema-kept` | a scope is cut, or its condition narrowed, and inputs that need it are still accepted           |
| `lockstep.alone`       | inputs are lost and no scope is reduced, or a scope is reduced and no input is lost             |

1. Inputs are those of the closed view. A scope is reduced where it is cut, bound to an argument, or where a template can become
   fewer scopes.
2. `unrelated: reason` excuses `lockstep.alone` where it is proved that no scope's reach moved and that no argument that is a
   permission changed. With `lockstep: reach`, it is a notice where no such argument changed.
3. Unknown is `relation.undecided`, wherever a rule would have needed the answer.
4. One step may break several of them: each says what to do about its own side.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from broker.domain.policy.facts import Moved, StepFacts
from broker.domain.policy.findings import Finding, Place, RuleId, Severity
from broker.domain.policy.tree import PolicyTree
from broker.domain.policy.undecided import undecided
from broker.domain.schema.answers import Answer, No, Unknown, Yes
from broker.domain.schema.change_words import words
from broker.domain.schema.changes import Change, Effect
from broker.domain.schema.dialect import escape

_SHOWN: Final = 3
_TELLING: Final = (Effect.NARROWS, Effect.EITHER)
_WHY_ALONE: Final = "what was too wide in the inputs was too wide in the credentials that went with them"


def out_of_reach(step: StepFacts) -> frozenset[str]:
    """The scopes that are still granted and that the step has put out of reach."""
    return frozenset(
        name
        for name, answer in step.new.reach.items()
        if isinstance(answer, No) and name in step.new.granted and isinstance(step.old.reach.get(name), Yes)
    )


def check_lockstep(step: StepFacts, old_tree: PolicyTree, tree: PolicyTree, *, mode: str) -> Iterator[Finding]:
    """What is wrong with a step. mode: `strict` or `reach`, as trust.yaml says."""
    yield from _scope_kept(step, tree)
    yield from _schema_kept(step, old_tree, tree)
    yield from _alone(step, old_tree, tree, mode)


# lockstep.scope-kept


def _scope_kept(step: StepFacts, tree: PolicyTree) -> Iterator[Finding]:
    version = step.new.version
    for name in sorted(out_of_reach(step)):
        before = step.old.reach[name]
        tasks = sorted(task.task for task in version.tasks.values() if name in task.scopes)
        granted = tuple(
            (
                tree.place(version.tool, version.version, f"/tasks/{escape(task)}/scopes/{escape(name)}"),
                f"{task} grants it",
            )
            for task in tasks
        )
        yield Finding(
            rule=RuleId.LOCKSTEP_SCOPE_KEPT,
            severity=Severity.REFUSED,
            tool=version.tool,
            version=version.version,
            key=name,
            place=tree.place(version.tool, version.version, f"/scopes/{escape(name)}"),
            what=f"no input of {version.version} needs the scope {name} any more, and {', '.join(tasks)} still grants it",
            why="inputs were tightened and the right that went with them was kept: only a forged call can use it now",
            mend=f'cut it with the inputs: scopes: {{"{name}": null}}, and take it out of {", ".join(tasks)}',
            witness=before.witness if isinstance(before, Yes) else None,
            has_witness=isinstance(before, Yes),
            shows=f"needed it in {step.old.version.version}, and is refused now",
            related=(*granted, *_changed(step, tree)),
        )


# lockstep.schema-kept


def _schema_kept(step: StepFacts, old_tree: PolicyTree, tree: PolicyTree) -> Iterator[Finding]:
    old, new = step.old.version, step.new.version
    for name, answer in step.cut.items():
        yield from _needed(step, name, answer, old_tree, tree, how=f"the scope {name} was cut")
    for name, answer in step.bound.items():
        yield from _needed(
            step, name, answer, old_tree, tree, how=f"the scope {name} was bound to arguments, not for all"
        )
    for name, related in step.conditions.items():
        match related.lost:
            case Yes(witness):
                pointer = f"/scopes/{escape(name)}/needed_when"
                yield Finding(
                    rule=RuleId.LOCKSTEP_SCHEMA_KEPT,
                    severity=Severity.REFUSED,
                    tool=new.tool,
                    version=new.version,
                    key=name,
                    place=tree.place(new.tool, new.version, pointer),
                    what=f"the condition of {name} no longer holds for an input that is accepted as before",
                    why="the right is cut for calls that go on: they get a credential that does not reach",
                    mend="tighten the contract so that this input is refused, or let the condition hold for it",
                    witness=witness,
                    has_witness=True,
                    shows=f"needed {name} in {old.version}; accepted now, without it",
                    related=((old_tree.place(old.tool, old.version, pointer), f"the condition in {old.version}"),),
                )
            case Unknown() as answer:
                asked = f"whether an accepted input loses the scope {name}"
                pointer = f"/scopes/{escape(name)}"
                yield undecided(new, tree, pointer=pointer, key=name, asked=asked, answer=answer)
            case _:
                pass


def _needed(
    step: StepFacts, name: str, answer: Answer, old_tree: PolicyTree, tree: PolicyTree, *, how: str
) -> Iterator[Finding]:
    old, new = step.old.version, step.new.version
    removed = old_tree.place(old.tool, old.version, f"/scopes/{escape(name)}")
    here = tree.place(new.tool, new.version, f"/scopes/{escape(name)}")
    match answer:
        case Yes(witness):
            yield Finding(
                rule=RuleId.LOCKSTEP_SCHEMA_KEPT,
                severity=Severity.REFUSED,
                tool=new.tool,
                version=new.version,
                key=name,
                place=here,
                what=f"{how}, and inputs that need it are still accepted",
                why="such a call passes the gate and fails at what is behind the tool, or nobody looks and it does not",
                mend="tighten the contract so that this input is refused, or keep the scope",
                witness=witness,
                has_witness=True,
                shows="accepted, and then denied",
                related=((removed, f"it was here in {old.version}"),),
            )
        case Unknown():
            asked = f"whether an accepted input still needs the scope {name}, which was cut"
            yield undecided(
                new,
                tree,
                pointer=f"/scopes/{escape(name)}",
                key=name,
                asked=asked,
                answer=answer,
                related=((removed, f"it was here in {old.version}"),),
            )
        case _:
            pass


# lockstep.alone


def reductions(step: StepFacts) -> tuple[list[str], list[tuple[str, Unknown]]]:
    """What of the scopes is reduced, in words; and the templates of which that is unknown."""
    said = [f"{name} was cut" for name in step.cut]
    said += [f"{name} was bound to arguments" for name in step.bound]
    unknown = []
    for name, related in step.languages.items():
        if isinstance(related.lost, Yes):
            said.append(f"{name} can become fewer scopes")
        elif isinstance(related.lost, Unknown):
            unknown.append((name, related.lost))
    return said, unknown


def moved_apart(step: StepFacts) -> bool:
    """Whether only one side moved, or that may be so: the arguments that moved are looked at then."""
    reduced, _ = reductions(step)
    lost = step.closed.lost
    return isinstance(lost, Unknown) or isinstance(lost, Yes) != bool(reduced)


def _alone(step: StepFacts, old_tree: PolicyTree, tree: PolicyTree, mode: str) -> Iterator[Finding]:
    new = step.new.version
    reduced, unknown = reductions(step)
    lost = step.closed.lost
    changed = _changed(step, tree)
    if isinstance(lost, Unknown):
        yield undecided(
            new, tree, pointer="/contract", key="inputs", asked="whether inputs are lost", answer=lost, related=changed
        )
        return
    if isinstance(lost, No) and unknown and not reduced:
        for name, answer in unknown:
            asked = f"whether {name} can become fewer scopes while no input is lost"
            yield undecided(new, tree, pointer=f"/scopes/{escape(name)}", key=name, asked=asked, answer=answer)
        return
    alone = (isinstance(lost, Yes) and not reduced) or (isinstance(lost, No) and bool(reduced))
    if not alone:
        yield from _unrelated_needless(step, tree)
        return
    if isinstance(lost, Yes) and unknown:
        for name, answer in unknown:
            asked = f"whether {name} became smaller with the inputs"
            yield undecided(new, tree, pointer=f"/scopes/{escape(name)}", key=name, asked=asked, answer=answer)
        return
    in_the_way = _in_the_way(step, reduced)
    if new.unrelated is not None and not in_the_way:
        return
    yield _alone_finding(step, old_tree, tree, reduced, in_the_way, mode)


def _alone_finding(
    step: StepFacts, old_tree: PolicyTree, tree: PolicyTree, reduced: list[str], in_the_way: list[str], mode: str
) -> Finding:
    old, new = step.old.version, step.new.version
    lost = step.closed.lost
    if isinstance(lost, Yes):
        place = tree.place(new.tool, new.version, "/unrelated" if new.unrelated is not None else "/contract")
        what = f"{new.version} accepts less than {old.version}, and no scope is reduced"
        mend = "cut the scopes that went with what is refused now, or bind the argument: a scope with …:{/argument}"
        related = _changed(step, tree)
        why = _WHY_ALONE
    else:
        place = tree.place(new.tool, new.version, "/unrelated" if new.unrelated is not None else "/scopes")
        what = (
            f"scopes are reduced ({'; '.join(reduced[:_SHOWN])}), and {new.version} accepts all that {old.version} did"
        )
        mend = "tighten the contract so that it refuses what the scope was for, or keep the scope"
        names = [*step.cut, *step.bound]
        related = tuple(
            (old_tree.place(old.tool, old.version, f"/scopes/{escape(name)}"), f"{name} was here")
            for name in names[:_SHOWN]
        )
        why = "a right that goes while the calls that it was for go on is missed where it hurts"
    if new.unrelated is not None:
        what += f"; unrelated does not excuse it: {in_the_way[0]}"
    elif not in_the_way:
        mend += "; or, since no permission moved, say why they have nothing to do with each other: unrelated: reason"
    notice = mode == "reach" and isinstance(lost, Yes) and not in_the_way
    return Finding(
        rule=RuleId.LOCKSTEP_ALONE,
        severity=Severity.NOTICE if notice else Severity.REFUSED,
        tool=new.tool,
        version=new.version,
        key="inputs" if isinstance(lost, Yes) else "scopes",
        place=place,
        what=what,
        why=why,
        mend=mend,
        witness=lost.witness if isinstance(lost, Yes) else None,
        has_witness=isinstance(lost, Yes),
        shows=f"accepted by {old.version}, refused by {new.version}",
        related=related,
    )


def _in_the_way(step: StepFacts, reduced: list[str]) -> list[str]:
    """Why inputs and scopes cannot be said to be unrelated: what moved, and what is not proved to have stayed."""
    said = list(reduced)
    for name, related in step.languages.items():
        if not isinstance(related.lost, No) or not isinstance(related.gained, No):
            said.append(f"it is not proved that {name} can become the same scopes as before")
    for name, answer in step.new.reach.items():
        before = step.old.reach.get(name)
        if before is None or type(before) is not type(answer) or isinstance(answer, Unknown):
            said.append(f"the reach of {name} moved")
    for name, related in step.conditions.items():
        if not isinstance(related.lost, No) or not isinstance(related.gained, No):
            said.append(f"other inputs need {name} than before")
    said.extend(_spell_moved(moved) for moved in step.moved)
    return said


def _spell_moved(moved: Moved) -> str:
    if isinstance(moved.answer, Unknown):
        return f"it is not proved that {moved.pointer} stayed as it was ({moved.because})"
    return f"{moved.pointer} {moved.what}, and it is a permission: {moved.because}"


def _unrelated_needless(step: StepFacts, tree: PolicyTree) -> Iterator[Finding]:
    new = step.new.version
    if new.unrelated is None:
        return
    yield Finding(
        rule=RuleId.LOCKSTEP_ALONE,
        severity=Severity.NOTICE,
        tool=new.tool,
        version=new.version,
        key="unrelated",
        place=tree.place(new.tool, new.version, "/unrelated"),
        what="unrelated is stated, and inputs and scopes did not move apart",
        why="a reason that excuses nothing is read as if it did",
        mend="take it out",
    )


def _changed(step: StepFacts, tree: PolicyTree) -> tuple[tuple[Place, str], ...]:
    """The changes of the contract that tell most, where they stand in the new one."""
    new = step.new.version
    telling: list[Change] = [change for change in step.changes if change.effect in _TELLING]
    return tuple(
        (tree.contract_place(new.tool, new.version, change.pointer_new or change.pointer_old or ""), words(change))
        for change in telling[:_SHOWN]
    )
