"""Checking policy: the rules over one folder, over two, or over what is about to be loaded or published.

The same rules everywhere; what differs is what counts as published:

| who asks             | published is                                                                            |
|----------------------|-----------------------------------------------------------------------------------------|
| `policy check`       | nothing: every version is new, each step in the folder is looked at                       |
| `policy check --base`| every version that the base tree has: they may not change, the others are new             |
| the broker           | what the store says is published, with what it was published with                          |

Steps lead to versions that are new. One that follows an older version than the newest must not grant more than that one
either: an old right does not come back unseen. A version that is published was judged when it was published: what the rules
say of it by itself is a notice then, so that an exception that runs out, or a stricter rule, does not stop what is in service.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from broker.domain.ids import ToolName, Version
from broker.domain.policy.claims import check_claims
from broker.domain.policy.document import VersionPolicy
from broker.domain.policy.exceptions import apply_exceptions
from broker.domain.policy.facts import StepFacts, VersionFacts
from broker.domain.policy.findings import Finding, Report, Severity
from broker.domain.policy.lint import lint
from broker.domain.policy.lockstep import check_lockstep, out_of_reach
from broker.domain.policy.published import check_published, removed
from broker.domain.policy.tested import check_coverage, check_tests
from broker.domain.policy.tree import PolicyTree
from broker.domain.policy.widening import check_widening
from broker.domain.schema.answers import Related
from broker.ports.schemas import SchemaArithmetic
from broker.services.facts import Facts
from broker.services.found_before import FoundBefore, Noting, read, tool_key, written


class PolicyChecker:
    """Checks; may be used from one thread at a time, and asking takes as long as the arithmetic does."""

    def __init__(self, arithmetic: SchemaArithmetic, *, before: FoundBefore | None = None) -> None:
        """before: remembers the findings about a tool as long as nothing that they rest on changes."""
        self._arithmetic = Noting(arithmetic)
        self._facts = Facts(self._arithmetic)
        self._found_before = before

    def check(self, tree: PolicyTree, *, base: PolicyTree | None, today: str) -> Report:
        """Every finding about a folder. today: `YYYY-MM-DD`, UTC."""
        found: list[Finding] = []
        for tool in tree.policy.tools:
            found.extend(self._tool(tree, base, tool))
        if base is not None:
            for tool, policy in base.policy.tools.items():
                for number, old in policy.versions.items():
                    if tree.version(tool, number) is None:
                        found.append(removed(old, base))
        found.extend(check_tests(tree))
        return report(found, tree, today=today)

    def version(self, version: VersionPolicy) -> VersionFacts:
        """What is so of one version."""
        return self._facts.version(version)

    def step(self, old: VersionPolicy, new: VersionPolicy) -> StepFacts:
        """What becomes of one version in the next."""
        return self._facts.step(old, new)

    def open_relation(self, old: VersionPolicy, new: VersionPolicy) -> Related:
        """How the inputs relate where names that are not listed are let through; shown beside the other, never judged."""
        return self._facts.open_relation(old, new)

    def check_version(
        self, tree: PolicyTree, version: VersionPolicy, *, old: VersionPolicy | None, old_tree: PolicyTree | None = None
    ) -> Iterator[Finding]:
        """What the rules say of one new version, and of its step from `old`; without `old` it is the first of its tool."""
        step = self._facts.step(old, version) if old is not None else None
        spoken_of = out_of_reach(step) if step is not None else frozenset()
        yield from lint(self._facts.version(version), tree, out_of_reach_by_step=spoken_of)
        yield from check_coverage(version, tree)
        if step is not None:
            before = old_tree if old_tree is not None else tree
            yield from check_lockstep(step, before, tree, mode=tree.policy.lockstep)
            yield from check_widening(step, before, tree)
            yield from check_claims(step, tree)

    def check_one(
        self, tree: PolicyTree, base: PolicyTree | None, tool: ToolName, number: Version
    ) -> tuple[Finding, ...]:
        """What `check` says of one version."""
        return tuple(self._version(tree, base, tool, number))

    def _tool(self, tree: PolicyTree, base: PolicyTree | None, tool: ToolName) -> tuple[Finding, ...]:
        """The findings about the versions of a tool, made before where nothing changed since."""
        memory = self._found_before
        key = tool_key(tree, base, tool) if memory is not None else ""
        known = read(memory.get(key)) if memory is not None else None
        if known is not None:
            return known
        self._arithmetic.unknown = False
        versions = tree.policy.tools[tool].versions
        found = tuple(finding for number in versions for finding in self._version(tree, base, tool, number))
        if memory is not None and not self._arithmetic.unknown:
            memory.put(key, written(found))
        return found

    def _version(self, tree: PolicyTree, base: PolicyTree | None, tool: ToolName, number: Version) -> Iterator[Finding]:
        version = tree.version(tool, number)
        assert version is not None
        published = base.version(tool, number) if base is not None else None
        if published is not None:
            yield from check_published(published, version, base, tree)
            for finding in (*lint(self._facts.version(version), tree), *check_coverage(version, tree)):
                yield replace(finding, severity=Severity.NOTICE)
            return
        old, old_tree = self.before(tree, base, tool, number)
        found = list(self.check_version(tree, version, old=old, old_tree=old_tree))
        yield from found
        if old is not None:
            said = {(finding.rule, finding.key) for finding in found}
            for finding in self._beside(tree, base, version, old):
                if (finding.rule, finding.key) not in said:
                    yield finding

    def _beside(
        self, tree: PolicyTree, base: PolicyTree | None, version: VersionPolicy, old: VersionPolicy
    ) -> Iterator[Finding]:
        """What grows beside the newest version, where another one is followed: an old right does not come back unseen."""
        tool = version.tool
        newest = base if base is not None and tool in base.policy.tools else tree
        for number in newest.heads(tool, before=version.version if newest is tree else None):
            head = newest.version(tool, number)
            if head is not None and number not in (old.version, version.version):
                yield from check_widening(self._facts.step(head, version), newest, tree)

    def before(
        self, tree: PolicyTree, base: PolicyTree | None, tool: ToolName, number: Version
    ) -> tuple[VersionPolicy | None, PolicyTree | None]:
        """What a new version is compared with, and the tree that says it: as it was published, where it was."""
        named = tree.predecessor(tool, number)
        known = base.policy.tools[tool].versions if base is not None and tool in base.policy.tools else {}
        if named is not None:
            return (known[named], base) if named in known else (tree.version(tool, named), tree)
        last = _last(known, number)
        return (known[last], base) if last is not None else (None, None)


def report(findings: list[Finding], tree: PolicyTree, *, today: str) -> Report:
    """The findings in order, with the exceptions of the tree applied."""
    exceptions = [(exception, tree.at(exception.node)) for exception in tree.exceptions]
    made, uses = apply_exceptions(findings, exceptions, today=today)
    versions = sum(len(tool.versions) for tool in tree.policy.tools.values())
    ordered = sorted(made, key=lambda one: (one.place.file, one.place.line, one.place.column, one.rule, one.key))
    counts = {"tools": len(tree.policy.tools), "versions": versions}
    return Report(findings=tuple(ordered), exceptions=uses, counts=counts)


def _last(known: Mapping[Version, VersionPolicy], number: Version) -> Version | None:
    before = [version for version in known if version != number]
    return before[-1] if before else None
