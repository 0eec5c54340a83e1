"""What a broker makes of the findings about policy that it is to load.

| a finding about …                                                       | at a reload        | at the start       |
|-------------------------------------------------------------------------|--------------------|--------------------|
| a version that is not published                                           | stands             | stands             |
| an edit of a published version                                           | stands             | notice, version out of service |
| an edit that is in force already, since the broker started with it         | notice             | –                  |
| a published version that no text is at hand for (*unread*)                | an edit, as above  | an edit, as above  |
| a new version that follows an unread one                                   | undecided          | undecided          |
| anything else about a published version                                  | notice: it was judged when it was published | notice |

A reload refuses what it would change for the worse, and nothing else: an emergency cut of access must not wait for old troubles.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import replace

from broker.domain.errors import BrokerError
from broker.domain.ids import ToolName, Version, VersionId, version_id
from broker.domain.policy.findings import Finding, Report, RuleId, Severity
from broker.domain.policy.tree import PolicyTree

SHOWN = 20


class PolicyRefusedError(BrokerError):
    """The rules refuse a policy, or cannot decide about it.

    Raised: where policy is loaded, by the start as well; `report` holds every finding. The policy in force stays.
    Wire:   409 `policy_refused`; no `Retry-After`. A broker that was to start with it exits with 1, or 2 if it is undecided.
    Retry:  no; mend the files.
    """

    def __init__(self, report: Report) -> None:
        super().__init__(spell_report(report))
        self.report = report


def judge(
    findings: Iterable[Finding],
    tree: PolicyTree,
    *,
    published: Container[VersionId],
    unread: Container[VersionId],
    tolerated: Container[VersionId],
) -> Iterator[Finding]:
    """The findings as they weigh here. tolerated: published versions of which an edit stops nothing."""
    for finding in findings:
        identity = version_id(finding.tool, finding.version) if finding.version is not None else None
        if identity is None or identity not in published:
            yield finding
        elif identity in unread and finding.rule is not RuleId.EXCEPTION_INVALID:
            continue  # what was said of it compares it with nothing, or with itself
        elif finding.rule is RuleId.VERSION_EDITED and identity not in tolerated:
            yield finding
        elif finding.severity in (Severity.REFUSED, Severity.UNDECIDED):
            yield replace(finding, severity=Severity.NOTICE)
        else:
            yield finding
    for tool, policy in tree.policy.tools.items():
        for number in policy.versions:
            identity = version_id(tool, number)
            if identity in unread:
                severity = Severity.NOTICE if identity in tolerated else Severity.REFUSED
                yield _edited(tree, tool, number, severity)


def follows_unread(tree: PolicyTree, tool: ToolName, version: Version, before: Version) -> Finding:
    """A new version whose predecessor is published with a text that nobody has."""
    return Finding(
        rule=RuleId.RELATION_UNDECIDED,
        severity=Severity.UNDECIDED,
        tool=tool,
        version=version,
        key="step",
        place=tree.place(tool, version),
        what=f"{tool}@{version} follows {tool}@{before}, and the files no longer say what that was published with",
        why="a step can only be judged between what is in force and what is to come",
        mend=f"put back what {tool}@{before} was published with, then load both",
    )


def spell_report(report: Report) -> str:
    """What stops a policy, a few lines for each finding."""
    stopping = [*report.refused, *report.undecided]
    lines = [_spell(finding) for finding in stopping[:SHOWN]]
    if len(stopping) > SHOWN:
        lines.append(f"and {len(stopping) - SHOWN} more")
    return "\n".join(lines)


def _spell(finding: Finding) -> str:
    return f"{finding.place}: {finding.rule.value}: {finding.what}\n  {finding.mend}"


def _edited(tree: PolicyTree, tool: ToolName, version: Version, severity: Severity) -> Finding:
    return Finding(
        rule=RuleId.VERSION_EDITED,
        severity=severity,
        tool=tool,
        version=version,
        key="version",
        place=tree.place(tool, version),
        what=f"{tool}@{version} is published, and is not what it was published with",
        why="a version is what callers, credentials and records refer to; if it could change, none of them would say anything",
        mend="put back what it was published with, and write a new version for what is to change",
    )
