"""A report as JSON, from a broker to who asked it to load or publish: everything that a person is shown.

Format 1; grows only. What a reader does not know it leaves out; what it misses makes the whole unreadable.
"""

from __future__ import annotations

from typing import Any

from broker.domain.canonical import JsonObject
from broker.domain.ids import ToolName, Version
from broker.domain.policy.findings import ExceptionUse, Finding, Place, Report, RuleId, Severity

FORMAT = 1


def report_json(report: Report) -> JsonObject:
    """A report as JSON."""
    return {
        "v": FORMAT,
        "findings": [_finding(finding) for finding in report.findings],
        "exceptions": [_use(use) for use in report.exceptions],
        "counts": dict(report.counts),
    }


def read_report(value: Any) -> Report | None:
    """The report that was sent; None where it is none."""
    if not isinstance(value, dict) or value.get("v") != FORMAT:
        return None
    try:
        return Report(
            findings=tuple(_read_finding(one) for one in value["findings"]),
            exceptions=tuple(_read_use(one) for one in value["exceptions"]),
            counts={str(name): int(count) for name, count in value["counts"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _place(place: Place) -> JsonObject:
    return {
        "file": place.file,
        "line": place.line,
        "column": place.column,
        "pointer": place.pointer,
        "source": place.source,
        "tree": place.tree,
    }


def _finding(finding: Finding) -> JsonObject:
    witness: JsonObject = {"witness": finding.witness} if finding.has_witness else {}
    return {
        "rule": finding.rule.value,
        "severity": finding.severity.value,
        "tool": finding.tool,
        "version": finding.version,
        "key": finding.key,
        "place": _place(finding.place),
        "what": finding.what,
        "why": finding.why,
        "mend": finding.mend,
        **witness,
        "shows": finding.shows,
        "related": [{"place": _place(place), "says": says} for place, says in finding.related],
        "excepted_by": finding.excepted_by,
    }


def _use(use: ExceptionUse) -> JsonObject:
    return {
        "rule": use.rule,
        "tool": use.tool,
        "version": use.version,
        "key": use.key,
        "reason": use.reason,
        "approved_by": list(use.approved_by),
        "expires": use.expires,
        "place": _place(use.place),
        "used": use.used,
    }


def _read_place(value: dict[str, Any]) -> Place:
    return Place(
        file=str(value["file"]),
        line=int(value["line"]),
        column=int(value["column"]),
        pointer=str(value["pointer"]),
        source=str(value["source"]),
        tree=str(value["tree"]),
    )


def _read_finding(value: dict[str, Any]) -> Finding:
    return Finding(
        rule=RuleId(value["rule"]),
        severity=Severity(value["severity"]),
        tool=ToolName(value["tool"]),
        version=Version(value["version"]) if value["version"] is not None else None,
        key=str(value["key"]),
        place=_read_place(value["place"]),
        what=str(value["what"]),
        why=str(value["why"]),
        mend=str(value["mend"]),
        witness=value.get("witness"),
        has_witness="witness" in value,
        shows=str(value["shows"]),
        related=tuple((_read_place(one["place"]), str(one["says"])) for one in value["related"]),
        excepted_by=str(value["excepted_by"]),
    )


def _read_use(value: dict[str, Any]) -> ExceptionUse:
    return ExceptionUse(
        rule=str(value["rule"]),
        tool=str(value["tool"]),
        version=value["version"],
        key=value["key"],
        reason=str(value["reason"]),
        approved_by=tuple(map(str, value["approved_by"])),
        expires=str(value["expires"]),
        place=_read_place(value["place"]),
        used=bool(value["used"]),
    )
