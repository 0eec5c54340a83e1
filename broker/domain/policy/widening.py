"""`scope.widened`: what is granted grows from one version to the next, or can no longer be compared.

For each task, and for what all tasks have in common:

1. a new task, or one that more principals may have, that lasts longer or may be used more often (`access`);
2. a scope that the task did not grant, unless it binds one that it did (`t` → `t:{/argument}`);
3. a template that can become scopes that it could not;
4. a condition that hands the scope to inputs that both versions accept;
5. a root that takes in more, or that is gone; an `enforced_by` that is gone, or loses a scope that is still granted;
6. another audience, where the credentials of the new version are good and those of the old one were not.

Two different people approve it, or it does not happen.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.domain.canonical import JsonValue
from broker.domain.policy.access import access_growth
from broker.domain.policy.facts import StepFacts
from broker.domain.policy.findings import Finding, Place, RuleId, Severity
from broker.domain.policy.roots import root_within
from broker.domain.policy.templates import binds
from broker.domain.policy.tree import PolicyTree
from broker.domain.policy.undecided import undecided
from broker.domain.schema.answers import Unknown, Yes
from broker.domain.schema.dialect import escape

_WHAT = {
    "task": "is new",
    "allow": "is open to more principals",
    "ttl": "lasts longer",
    "uses": "may be used more often",
    "online": "need no longer be asked about at each use",
}


def check_widening(step: StepFacts, old_tree: PolicyTree, tree: PolicyTree) -> Iterator[Finding]:
    """What grows in a step."""
    yield from _access(step, old_tree, tree)
    yield from _scopes(step, old_tree, tree)
    yield from _languages(step, tree)
    yield from _conditions(step, old_tree, tree)
    yield from _arguments(step, old_tree, tree)
    yield from _audience(step, old_tree, tree)


def _access(step: StepFacts, old_tree: PolicyTree, tree: PolicyTree) -> Iterator[Finding]:
    old, new = step.old.version, step.new.version
    for growth in access_growth(old.tasks, new.tasks):
        pointer = f"/tasks/{escape(growth.task)}" + ("" if growth.what == "task" else f"/{growth.what}")
        before = () if growth.what == "task" else (_before(old_tree, step, pointer),)
        said = f"the task {growth.task} {_WHAT[growth.what]}"
        yield _finding(
            step, tree, pointer, f"{growth.task}/{growth.what}", said, growth.before, growth.after, related=before
        )


def _scopes(step: StepFacts, old_tree: PolicyTree, tree: PolicyTree) -> Iterator[Finding]:
    old, new = step.old.version, step.new.version
    for name, task in new.tasks.items():
        before = old.tasks.get(name)
        if before is None:
            continue  # a new task is spoken of as a whole
        for scope in task.scopes:
            if scope in before.scopes or any(binds(earlier, scope) for earlier in before.scopes):
                continue
            pointer = f"/tasks/{escape(name)}/scopes/{escape(scope)}"
            reach = step.new.reach.get(scope)
            yield _finding(
                step,
                tree,
                pointer,
                f"{name}/{scope}",
                f"the task {name} grants {scope}",
                ", ".join(before.scopes) or "nothing",
                ", ".join(task.scopes),
                witness=reach.witness if isinstance(reach, Yes) else None,
                shows=f"gets {scope}" if isinstance(reach, Yes) else "",
                related=(_before(old_tree, step, f"/tasks/{escape(name)}/scopes"),),
            )


def _languages(step: StepFacts, tree: PolicyTree) -> Iterator[Finding]:
    for name, related in step.languages.items():
        pointer = f"/scopes/{escape(name)}"
        match related.gained:
            case Yes(witness):
                said = f"{name} can become scopes that it could not"
                yield _finding(
                    step, tree, pointer, name, said, "", "", witness=witness, shows="granted now, and not before"
                )
            case Unknown() as answer:
                asked = f"whether {name} can become more scopes than before"
                yield undecided(step.new.version, tree, pointer=pointer, key=name, asked=asked, answer=answer)
            case _:
                pass


def _conditions(step: StepFacts, old_tree: PolicyTree, tree: PolicyTree) -> Iterator[Finding]:
    for name, related in step.conditions.items():
        pointer = f"/scopes/{escape(name)}/needed_when"
        match related.gained:
            case Yes(witness):
                yield _finding(
                    step,
                    tree,
                    pointer,
                    name,
                    f"an input that both versions accept gets the scope {name}",
                    "",
                    "",
                    witness=witness,
                    shows=f"gets {name} now, and did not before",
                    related=(_before(old_tree, step, pointer),),
                )
            case Unknown() as answer:
                asked = f"whether inputs get the scope {name} that did not before"
                yield undecided(step.new.version, tree, pointer=pointer, key=name, asked=asked, answer=answer)
            case _:
                pass


def _arguments(step: StepFacts, old_tree: PolicyTree, tree: PolicyTree) -> Iterator[Finding]:
    old, new = step.old.version, step.new.version
    for argument, before in old.arguments.items():
        after = new.arguments.get(argument)
        pointer = f"/arguments/{escape(argument)}"
        related = (_before(old_tree, step, pointer),)
        roots = after.within if after is not None else ()
        if before.within:
            wider = [root for root in roots if not root_within(before.kind, root, before.within)]
            if not roots or wider or (after is not None and after.kind != before.kind):
                said = f"{argument} is no longer bound to its roots" if not roots else f"{argument} has a wider root"
                spelt = ", ".join(roots) or "anywhere"
                yield _finding(
                    step, tree, pointer, argument, said, ", ".join(before.within), spelt,
                    witness=_below(wider[0]) if wider else None, shows="inside now, and outside before", related=related,
                )  # fmt: skip
        elif before.enforced_by and (after is None or not (after.enforced_by or after.within)):
            said = f"nothing is said any more to enforce what {argument} may be"
            yield _finding(
                step, tree, pointer, argument, said, ", ".join(before.enforced_by), "nothing", related=related
            )
        elif before.enforced_by and after is not None and not after.within:
            gone = [name for name in before.enforced_by if name not in after.enforced_by and name in step.new.granted]
            if gone:
                said = f"{argument} is no longer enforced by {', '.join(gone)}, which is still granted"
                spelt = ", ".join(after.enforced_by)
                yield _finding(
                    step, tree, pointer, argument, said, ", ".join(before.enforced_by), spelt, related=related
                )


def _below(root: str) -> str:
    """A value that lies under a root."""
    return f"a{root[1:]}" if root.startswith("*.") else root


def _audience(step: StepFacts, old_tree: PolicyTree, tree: PolicyTree) -> Iterator[Finding]:
    old, new = step.old.version, step.new.version
    if old.audience != new.audience:
        said = "credentials are good at another audience"
        related = (_before(old_tree, step, ""),)
        yield _finding(step, tree, "", "audience", said, old.audience, new.audience, related=related)


def _before(old_tree: PolicyTree, step: StepFacts, pointer: str) -> tuple[Place, str]:
    old = step.old.version
    return old_tree.place(old.tool, old.version, pointer), f"as it was in {old.version}"


def _finding(
    step: StepFacts,
    tree: PolicyTree,
    pointer: str,
    key: str,
    said: str,
    before: str,
    after: str,
    *,
    witness: JsonValue = None,
    shows: str = "",
    related: tuple[tuple[Place, str], ...] = (),
) -> Finding:
    new = step.new.version
    change = f" (before: {before}; now: {after})" if before or after else ""
    return Finding(
        rule=RuleId.SCOPE_WIDENED,
        severity=Severity.REFUSED,
        tool=new.tool,
        version=new.version,
        key=key,
        place=tree.place(new.tool, new.version, pointer),
        what=f"{said}{change}",
        why="rights grow in small steps that each look harmless, so growing takes two people",
        mend="keep what was granted, or have two people approve it: broker policy approve "
        f"--rule scope.widened --tool {new.tool} --version {new.version} --key '{key}'",
        witness=witness,
        has_witness=witness is not None,
        shows=shows,
        related=related,
    )
