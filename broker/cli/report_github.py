"""A report as annotations of GitHub Actions: one command a line, which the runner shows at the line of the change.

1. In a message `%`, CR and LF are escaped; in a property `:` and `,` too. Everything else that cannot be seen is shown as an
   escape, so that nothing out of a policy file begins a command of its own.
2. Refused and undecided are errors, notices and what an exception covers are notices.
3. A place in the old tree has no line in the new one: the words say where it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from broker.cli.shown import page_of, shown, shown_json
from broker.domain.policy.findings import Finding, Place, Report, Severity
from broker.domain.policy.located import Problem

VERDICTS: Final = ("lawful", "refused", "cannot decide")


def report_as_github(report: Report, *, folder: str) -> str:
    """An annotation for each finding. folder: where the policy is, relative to the top of the repository."""
    annotations = [_finding(finding, folder) for finding in report.findings]
    return "\n".join([*annotations, *_exceptions(report), f"{VERDICTS[report.exit_code]}: {len(annotations)} findings"])


def problems_as_github(problems: Iterable[Problem], *, folder: str) -> str:
    """An annotation for each problem with the form of the files."""
    return "\n".join(
        _command("error", Place(one.file, one.line, one.column), folder, one.rule, [one.message, f"mend: {one.mend}"])
        for one in problems
    )


def _finding(finding: Finding, folder: str) -> str:
    stops = finding.severity in (Severity.REFUSED, Severity.UNDECIDED)
    about = f"{finding.tool}@{finding.version}" if finding.version else finding.tool
    title = f"{finding.rule}{' (cannot decide)' if finding.severity is Severity.UNDECIDED else ''} {about}"
    lines = [finding.what]
    if finding.excepted_by:
        lines.append(f"excepted by {finding.excepted_by}")
    if finding.place.tree and finding.place.line:
        lines.append(f"it stands at line {finding.place.line} of the old file")
    if finding.has_witness:
        lines.append(f"witness: {shown_json(finding.witness)}{f' ({finding.shows})' if finding.shows else ''}")
    lines += [f"why: {finding.why}", f"mend: {finding.mend}", page_of(finding.rule)]
    return _command("error" if stops else "notice", finding.place, folder, title, lines)


def _exceptions(report: Report) -> Iterator[str]:
    for use in report.exceptions:
        about = f"{use.tool}@{use.version}" + (f", {use.key}" if use.key is not None else "")
        by = " and ".join(use.approved_by)
        yield f"exception: {shown(f'{use.rule} for {about}: approved by {by} until {use.expires}: {use.reason}')}"


def _command(level: str, place: Place, folder: str, title: str, lines: list[str]) -> str:
    path = place.file if not folder or place.file.startswith("/") else f"{folder.rstrip('/')}/{place.file}"
    where = {"file": path}
    if place.line and not place.tree:
        where |= {"line": str(place.line), "col": str(max(place.column, 1))}
    properties = ",".join(f"{name}={_property(value)}" for name, value in {**where, "title": title}.items())
    return f"::{level} {properties}::{_data(lines)}"


def _data(lines: list[str]) -> str:
    return "%0A".join(shown(line).replace("%", "%25") for line in lines)


def _property(text: str) -> str:
    return shown(text).replace("%", "%25").replace(":", "%3A").replace(",", "%2C")
