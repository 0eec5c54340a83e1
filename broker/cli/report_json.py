"""A report for programs. Members are only ever added; `v` counts changed meanings.

| member        | holds                                                                                           |
|---------------|-------------------------------------------------------------------------------------------------|
| `v`           | 1                                                                                               |
| `verdict`     | `lawful`, `refused`, `undecided`, `unusable`; `lawful` beside it as a flag                       |
| `findings`    | what the rules say, with place, witness where there is one, and the page of the rule              |
| `exceptions`  | every exception there is: what it is for, who approved it, until when, and whether it was used    |
| `problems`    | what is wrong with the form of the files; then no rule was asked                                  |
| `counts`      | tools and versions                                                                              |
| `base`        | null, or what was compared with, and whether it has the folder at all                            |
| `tenant` `digest` `tools` | of the policy, where it could be read                                               |

A place's `file` is relative to the policy folder, `folder` says which that is. A place with `tree: base` is in the old tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Final

from broker.cli.shown import page_of
from broker.domain.policy.document import Policy
from broker.domain.policy.findings import Report
from broker.domain.policy.located import Problem
from broker.domain.policy.report_wire import report_json

_VERDICTS: Final = ("lawful", "refused", "undecided", "unusable")


def report_as_json(
    report: Report, policy: Policy, *, folder: str, base: Mapping[str, object] | None
) -> dict[str, object]:
    """The whole report."""
    said = report_json(report)
    findings = said["findings"]
    assert isinstance(findings, list)
    return {
        **said,
        "verdict": _VERDICTS[report.exit_code],
        "lawful": report.exit_code == 0,
        "folder": folder,
        "base": base,
        "findings": [
            {**shown, "page": page_of(finding.rule)}
            for shown, finding in zip(findings, report.findings, strict=True)
            if isinstance(shown, dict)
        ],
        "problems": [],
        "tenant": policy.tenant,
        "digest": policy.digest,
        "tools": {tool.tool: sorted(tool.versions) for tool in policy.tools.values()},
    }


def problems_as_json(problems: Iterable[Problem], *, folder: str, exit_code: int) -> dict[str, object]:
    """What is wrong with the form of the files."""
    return {
        "v": 1,
        "verdict": _VERDICTS[exit_code],
        "lawful": False,
        "folder": folder,
        "base": None,
        "findings": [],
        "exceptions": [],
        "problems": [asdict(problem) for problem in problems],
        "counts": {},
    }
