"""A report for people.

    policies/db.query.yaml:12:5: lockstep.alone: one sentence of what is so
       12 |   "4":
          |   ^
      witness: {"mode":"write"}
        accepted before, refused now
      why:  one sentence
      see:  policies/contracts/db.query/4.json:8:7: another place that explains it
      mend: one sentence
      page: the command that prints the page of the rule

1. What stops the policy comes first, then what does not: notices, and what an exception covers.
2. Every exception there is is listed, with who approved it and until when.
3. The last lines say what becomes of the policy. Colours only where asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import click

from broker.cli.shown import caret, shown, shown_json, shown_source, wrapped
from broker.domain.policy.findings import ExceptionUse, Finding, Place, Report, Severity
from broker.domain.policy.located import Problem

_WORDS: Final = {
    Severity.REFUSED: "",
    Severity.UNDECIDED: "cannot decide: ",
    Severity.NOTICE: "notice: ",
    Severity.EXCEPTED: "excepted: ",
}
_COLOURS: Final = {
    Severity.REFUSED: "red",
    Severity.UNDECIDED: "yellow",
    Severity.NOTICE: "cyan",
    Severity.EXCEPTED: "magenta",
}
_ORDER: Final = (Severity.REFUSED, Severity.UNDECIDED, Severity.NOTICE, Severity.EXCEPTED)

Style = Callable[..., str]


def report_as_text(report: Report, *, folder: str = "", lawful: str = "", base: str = "", colours: bool = False) -> str:
    """The whole report. folder: what the places are in. lawful: what is said of a lawful policy; base: of the base tree."""
    style = _style(colours)
    blocks = [
        "\n".join(_finding(finding, folder, style))
        for severity in _ORDER
        for finding in report.findings
        if finding.severity is severity
    ]
    if report.exceptions:
        blocks.append("\n".join(_exceptions(report.exceptions, folder)))
    blocks.append(_verdict(report, lawful, base, style))
    return "\n\n".join(blocks)


def finding_as_text(finding: Finding, *, folder: str = "", colours: bool = False) -> str:
    """One finding."""
    return "\n".join(_finding(finding, folder, _style(colours)))


def problems_as_text(problems: Iterable[Problem], *, folder: str = "", colours: bool = False) -> str:
    """What is wrong with the form of the files, so that no rule could be asked."""
    style, listed = _style(colours), tuple(problems)
    blocks = []
    for one in listed:
        place = Place(one.file, one.line, one.column, one.pointer, one.source)
        lines = [f"{style(_at(place, folder), bold=True)}: {style(one.rule, fg='red')}: {shown(one.message)}"]
        blocks.append("\n".join([*lines, *_source(place), f"  mend: {shown(one.mend)}"]))
    count = f"{len(listed)} problem{'' if len(listed) == 1 else 's'} in the policy files"
    return "\n\n".join([*blocks, style(count, fg="red", bold=True)])


def _finding(finding: Finding, folder: str, style: Style) -> Iterator[str]:
    rule = style(finding.rule.value, fg=_COLOURS[finding.severity])
    yield f"{style(_at(finding.place, folder), bold=True)}: {rule}: {_WORDS[finding.severity]}{shown(finding.what)}"
    yield from _source(finding.place)
    if finding.severity is Severity.EXCEPTED:
        yield f"  by:   {shown(finding.excepted_by)}"
        return
    if finding.has_witness:
        yield f"  witness: {wrapped(shown_json(finding.witness), '    ')}"
        if finding.shows:
            yield f"    {shown(finding.shows)}"
    yield f"  why:  {shown(finding.why)}"
    for place, words in dict.fromkeys(finding.related):
        yield f"  see:  {_at(place, folder)}: {shown(words)}"
    yield f"  mend: {shown(finding.mend)}"
    if finding.severity is not Severity.NOTICE:
        yield f"  page: broker docs {finding.rule}"


def _source(place: Place) -> Iterator[str]:
    if place.source and place.line:
        number = f"{place.line:>5}"
        yield f"{number} | {shown_source(place.source)}"
        yield f"{' ' * len(number)} | {caret(place.source, place.column)}"


def _at(place: Place, folder: str) -> str:
    if place.tree or not folder or place.file.startswith("/"):
        return shown(str(place))
    return shown(f"{folder.rstrip('/')}/{place}")


def _exceptions(uses: Iterable[ExceptionUse], folder: str) -> Iterator[str]:
    yield "exceptions:"
    for use in uses:
        about = f"{use.tool}@{use.version}" + (f", {use.key}" if use.key is not None else "")
        by = " and ".join(use.approved_by) or "nobody"
        words = f"{use.rule} for {about}: approved by {by} until {use.expires}: {use.reason}"
        yield f"  {_at(use.place, folder)}: {shown(words)}{'' if use.used else ' (not used)'}"


def _verdict(report: Report, lawful: str, base: str, style: Style) -> str:
    counted = {severity: sum(one.severity is severity for one in report.findings) for severity in _ORDER}
    said = (
        (counted[Severity.REFUSED], "refused"),
        (counted[Severity.UNDECIDED], "undecided"),
        (counted[Severity.NOTICE], "notices" if counted[Severity.NOTICE] != 1 else "notice"),
        (counted[Severity.EXCEPTED], "excepted"),
    )
    counts = ", ".join(f"{count} {word}" for count, word in said if count)
    compared = f"compared with {shown(base)}\n" if base else ""
    if report.exit_code == 0:
        head = f"lawful{f' ({counts})' if counts else ''}"
        return f"{compared}{style(head, fg='green', bold=True)}{f': {lawful}' if lawful else ''}"
    head = "refused" if report.exit_code == 1 else "cannot decide"
    there = f"{report.counts.get('tools', 0)} tools, {report.counts.get('versions', 0)} versions"
    return f"{compared}{style(head, fg='red', bold=True)}: {counts}; {there}"


def _style(colours: bool) -> Style:
    return click.style if colours else lambda text, **_: text
