"""`version.edited`: what is published stays as it is; who may have it may shrink.

1. Contract, audience, arguments, scopes, and which scopes each task grants are frozen.
2. `allow`, `ttl`, `uses` may shrink, `online` may be asked for, and a task may go.
3. A version that is gone from the files is a notice: it is out of service, and what refers to it can no longer be read.

`old` is what is published; from a base tree, every version that it has counts as published.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.domain.policy.access import access_growth
from broker.domain.policy.document import VersionPolicy
from broker.domain.policy.findings import Finding, Place, RuleId, Severity
from broker.domain.policy.tree import PolicyTree
from broker.domain.schema.dialect import escape
from broker.domain.schema.fits import same

_WHY = (
    "a version is what callers, credentials and records refer to; if it could change, none of them would say anything"
)
_MEND = "take the edit back and write a new version that extends this one"


def check_published(
    old: VersionPolicy, new: VersionPolicy, old_tree: PolicyTree | None, tree: PolicyTree
) -> Iterator[Finding]:
    """What of a published version was edited. old_tree: None where its text is not at hand."""
    for pointer, what in edits(old, new):
        yield _finding(old, new, old_tree, tree, pointer, what)
    for growth in access_growth(old.tasks, new.tasks):
        pointer = f"/tasks/{escape(growth.task)}" + ("" if growth.what == "task" else f"/{growth.what}")
        said = "is new" if growth.what == "task" else f"has a wider {growth.what}"
        what = f"the task {growth.task} {said} (before: {growth.before}; now: {growth.after})"
        yield _finding(old, new, old_tree, tree, pointer, what)


def edits(old: VersionPolicy, new: VersionPolicy) -> Iterator[tuple[str, str]]:
    """What of the frozen part differs: where, and in words."""
    if old.contract.digest != new.contract.digest:
        yield "/contract", "the contract changed"
    if old.audience != new.audience:
        yield "", f"the audience changed from {old.audience} to {new.audience}"
    for name in sorted({*old.arguments, *new.arguments}):
        before, after = old.arguments.get(name), new.arguments.get(name)
        unchanged = (
            before is not None
            and after is not None
            and before.kind == after.kind
            and set(before.within) == set(after.within)
            and set(before.enforced_by) == set(after.enforced_by)
        )
        if not unchanged:
            yield f"/arguments/{escape(name)}", f"the argument {name} {_became(before, after)}"
    for name in sorted({*old.scopes, *new.scopes}):
        was, is_ = old.scopes.get(name), new.scopes.get(name)
        if was is None or is_ is None or not same(was.needed_when, is_.needed_when):
            yield f"/scopes/{escape(name)}", f"the scope {name} {_became(was, is_)}"
    for name, task in sorted(new.tasks.items()):
        granted = old.tasks.get(name)
        if granted is not None and set(granted.scopes) != set(task.scopes):
            yield f"/tasks/{escape(name)}/scopes", f"the task {name} grants other scopes"


def removed(old: VersionPolicy, old_tree: PolicyTree) -> Finding:
    """A published version that the files no longer have, shown where it was."""
    return Finding(
        rule=RuleId.VERSION_EDITED,
        severity=Severity.NOTICE,
        tool=old.tool,
        version=old.version,
        key="version",
        place=old_tree.place(old.tool, old.version),
        what=f"{old.tool}@{old.version} is gone from the files",
        why="a published version that is not loaded is out of service, retired or not",
        mend="keep it until it is retired and nobody asks for it; then this is as it should be",
    )


def _became(before: object, after: object) -> str:
    return "is new" if before is None else "is gone" if after is None else "changed"


def _finding(
    old: VersionPolicy, new: VersionPolicy, old_tree: PolicyTree | None, tree: PolicyTree, pointer: str, what: str
) -> Finding:
    related: tuple[tuple[Place, str], ...] = ()
    if old_tree is not None:
        related = ((old_tree.place(old.tool, old.version, pointer), "as it was published"),)
    return Finding(
        rule=RuleId.VERSION_EDITED,
        severity=Severity.REFUSED,
        tool=new.tool,
        version=new.version,
        key=pointer.removeprefix("/") or "audience",
        place=tree.place(new.tool, new.version, pointer),
        what=f"{new.tool}@{new.version} is published, and {what}",
        why=_WHY,
        mend=_MEND,
        related=related,
    )
