"""What is published, as a tree of policy: the side that the files to be loaded are compared with.

1. The store says what is published, and by which digests; the texts are those in force, else those to be loaded, where their
   frozen part is the published one. Access is taken from the store's record, never from a file.
2. Versions of a tool come in the order in which they were last moved, the stable one last: that is what a version is compared
   with that names no predecessor.
3. A published version of which no text has the published digests is *unread*: nothing can be compared with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from broker.domain.ids import ToolName, Version, VersionId
from broker.domain.lifecycle.states import LifecycleView, State, VersionRecord
from broker.domain.policy.document import ToolPolicy, VersionPolicy
from broker.domain.policy.frozen import Standing, as_published, standing
from broker.domain.policy.tree import PolicyTree

LABEL = "published"


@dataclass(frozen=True, slots=True)
class Published:
    """tree: everything that is published and can be read. unread: the rest, but for what is retired."""

    tree: PolicyTree
    unread: frozenset[VersionId]

    def version(self, tool: ToolName, version: Version | None) -> VersionPolicy | None:
        """A version as it was published."""
        return self.tree.version(tool, version)


def published_policy(view: LifecycleView, loading: PolicyTree, in_force: PolicyTree | None) -> Published:
    """What is published, as far as the two trees can tell it."""
    tools: dict[ToolName, ToolPolicy] = {}
    unread: set[VersionId] = set()
    texts = [tree for tree in (in_force, loading) if tree is not None]
    for name, records in view.by_tool.items():
        known: dict[Version, VersionPolicy] = {}
        for record in sorted(records, key=_order):
            found = _as_published(record, texts)
            if found is not None:
                known[record.version] = found
            elif record.state is not State.RETIRED:
                unread.add(record.id)
        if known:
            tools[name] = _tool(name, texts, known)
    shown = texts[0]
    return Published(replace(shown, policy=replace(shown.policy, tools=tools), label=LABEL), frozenset(unread))


def standing_of(record: VersionRecord, tree: PolicyTree) -> Standing:
    """How what a tree says of a published version stands to it."""
    loaded = tree.version(record.tool, record.version)
    return standing(loaded, contract=record.contract, policy=record.policy, grant=record.grant)


def out_of_service(tree: PolicyTree, view: LifecycleView) -> tuple[VersionId, ...]:
    """Published versions that cannot be served, since the loaded policy is not the published one."""
    unserved = (Standing.EDITED, Standing.MISSING)
    found = (
        record.id
        for record in view.versions.values()
        if record.state is not State.RETIRED and standing_of(record, tree) in unserved
    )
    return tuple(sorted(found))


def _order(record: VersionRecord) -> tuple[bool, int, int]:
    return record.state is State.STABLE, record.since, record.seq


def _as_published(record: VersionRecord, texts: list[PolicyTree]) -> VersionPolicy | None:
    for tree in texts:
        text = tree.version(record.tool, record.version)
        if text is not None and text.contract.digest == record.contract:
            found = as_published(text, policy=record.policy, grant=record.grant)
            if found is not None:
                return found
    return None


def _tool(name: ToolName, texts: list[PolicyTree], known: Mapping[Version, VersionPolicy]) -> ToolPolicy:
    written = next(tree.policy.tools[name] for tree in texts if name in tree.policy.tools)
    return replace(written, versions=known)
