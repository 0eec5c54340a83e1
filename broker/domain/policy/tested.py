"""`test.missing`: every version is tested both ways, and no test asks for what is not there.

1. A version has at least one case that is permitted and one that is refused.
2. A case names a tool, version, task and arguments of the policy, unless the refusal that it expects is just that.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.domain.errors import Reason
from broker.domain.ids import ToolName, Version
from broker.domain.policy.cases import PolicyCase
from broker.domain.policy.document import VersionPolicy
from broker.domain.policy.findings import Finding, RuleId, Severity
from broker.domain.policy.located import Located
from broker.domain.policy.tree import PolicyTree
from broker.domain.schema.dialect import SchemaError, escape
from broker.domain.schema.holding import NOTHING, holding

_WHY = "a test that passes because it matches nothing is worse than none"


def check_tests(tree: PolicyTree) -> Iterator[Finding]:
    """What is wrong with the tests of a tree, for all of its tools."""
    for tool, node in sorted(tree.tests.items()):
        if tool not in tree.policy.tools:
            said = node.get("tool") or node
            yield _finding(tree, tool, None, "tool", said, f"there is no tool {tool}", "name a tool of this policy")
    for tool, cases in sorted(tree.cases.items()):
        for case in cases if tool in tree.policy.tools else ():
            yield from _case(case, tree)


def check_coverage(version: VersionPolicy, tree: PolicyTree) -> Iterator[Finding]:
    """What a version lacks."""
    cases = [case for case in tree.cases.get(version.tool, ()) if case.version == version.version]
    ways = (
        ("permit", [case for case in cases if case.permit is not None]),
        ("refuse", [case for case in cases if case.refuse]),
    )
    for key, found in ways:
        if found:
            continue
        noun = "permitted" if key == "permit" else "refused"
        yield Finding(
            rule=RuleId.TEST_MISSING,
            severity=Severity.REFUSED,
            tool=version.tool,
            version=version.version,
            key=key,
            place=tree.place(version.tool, version.version),
            what=f"no test asks {version.version} for something that is {noun}",
            why="what is not tested both ways is believed, not known",
            mend=f"add a case to tests/{version.tool}.yaml that expects {key}:",
        )


def _case(case: PolicyCase, tree: PolicyTree) -> Iterator[Finding]:
    request = case.node.get("request") or case.node
    version = tree.version(case.tool, case.version)
    if version is None:
        if case.refuse != Reason.VERSION_UNKNOWN:
            known = ", ".join(tree.policy.tools[case.tool].versions)
            place = request.get("version") or case.node
            what = f'"{case.name}" asks for the version {case.version}, which {case.tool} does not have'
            yield _finding(
                tree, case.tool, case.version, f"{case.name}/version", place, what, f"versions here: {known}"
            )
        return
    if case.task is not None and case.task not in version.tasks and case.refuse != Reason.TASK_UNKNOWN:
        place = request.get("task") or case.node
        what = f'"{case.name}" names the task {case.task}, which {case.version} does not have'
        mend = f"tasks here: {', '.join(version.tasks) or 'none'}; or expect refuse: task_unknown"
        yield _finding(tree, case.tool, case.version, f"{case.name}/task", place, what, mend)
    if case.arguments is not None and case.refuse != Reason.ARGUMENTS_INVALID:
        for name in case.arguments:
            if not _known(version, name):
                place = (request.get("arguments") or case.node).get(name) or request
                what = f'"{case.name}" gives the argument {name[:80]}, which {case.version} does not have'
                mend = "mend the name; or expect refuse: arguments_invalid"
                yield _finding(tree, case.tool, case.version, f"{case.name}/{name}", place, what, mend)


def _known(version: VersionPolicy, name: str) -> bool:
    schema = version.contract.input_schema
    if (
        "patternProperties" in schema
        or isinstance(schema.get("additionalProperties"), dict)
        or "properties" not in schema
    ):
        return True
    try:
        return holding(schema, f"/{escape(name)}", {}) != NOTHING
    except SchemaError:
        return True


def _finding(
    tree: PolicyTree, tool: ToolName, version: Version | None, key: str, place: Located, what: str, mend: str
) -> Finding:
    return Finding(
        rule=RuleId.TEST_MISSING,
        severity=Severity.REFUSED,
        tool=tool,
        version=version,
        key=key,
        place=tree.at(place),
        what=what,
        why=_WHY,
        mend=mend,
    )
