"""A report as SARIF 2.1.0, for code scanning.

| ours                   | SARIF                                                                                       |
|------------------------|---------------------------------------------------------------------------------------------|
| rule                   | `reportingDescriptor` with the page of the rule                                              |
| refused, undecided     | level `error`: both stop the policy                                                          |
| notice                 | level `note`                                                                                |
| excepted               | level `warning`, suppressed: `external`, `accepted`, with who and until when                 |
| rule, tool, version, key | `partialFingerprints`, so that a finding stays the same one while lines move                 |
| a place in the old tree | the file without a region: its lines are not those of the new one; the words say where it was |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from hashlib import sha256
from importlib import resources
from importlib.metadata import version
from typing import Any, Final
from urllib.parse import quote

from broker.cli.shown import page_of, shown, shown_json
from broker.domain.policy.findings import Finding, Place, Report, RuleId, Severity
from broker.domain.policy.located import Problem

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT: Final = "mayflyFinding/v1"
_RULES: Final = frozenset(rule.value for rule in RuleId)
_LEVELS: Final = {
    Severity.REFUSED: "error",
    Severity.UNDECIDED: "error",
    Severity.NOTICE: "note",
    Severity.EXCEPTED: "warning",
}


def report_as_sarif(report: Report, *, folder: str) -> dict[str, Any]:
    """The report as one run. folder: where the policy is, relative to the top of the repository."""
    rules = sorted({finding.rule.value for finding in report.findings})
    seen: Counter[str] = Counter()
    results = [_result(finding, folder, rules, seen) for finding in report.findings]
    return _log(rules, results, exit_code=report.exit_code)


def problems_as_sarif(problems: Iterable[Problem], *, folder: str, exit_code: int) -> dict[str, Any]:
    """What is wrong with the form of the files, as one run that did not get to the rules."""
    listed = tuple(problems)
    rules = sorted({problem.rule for problem in listed})
    results = [
        {
            "ruleId": one.rule,
            "ruleIndex": rules.index(one.rule),
            "level": "error",
            "message": {"text": f"{shown(one.message)}\nmend: {shown(one.mend)}"},
            "locations": [_location(Place(one.file, one.line, one.column, one.pointer, one.source), folder)],
        }
        for one in listed
    ]
    return _log(rules, results, exit_code=exit_code)


def _log(rules: list[str], results: list[dict[str, Any]], *, exit_code: int) -> dict[str, Any]:
    driver = {
        "name": "broker policy check",
        "semanticVersion": version("mayfly-broker"),
        "informationUri": page_of("policy"),
        "rules": [_rule(rule) for rule in rules],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"%SRCROOT%": {"description": {"text": "the top of the repository"}}},
        "invocations": [{"executionSuccessful": exit_code != 3, "exitCode": exit_code}],
        "results": results,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(finding: Finding, folder: str, rules: list[str], seen: Counter[str]) -> dict[str, Any]:
    name = "\0".join((finding.rule, finding.tool, finding.version or "", finding.key))
    seen[name] += 1
    made: dict[str, Any] = {
        "ruleId": finding.rule.value,
        "ruleIndex": rules.index(finding.rule.value),
        "level": _LEVELS[finding.severity],
        "message": {"text": _message(finding)},
        "locations": [_location(finding.place, folder)],
        "partialFingerprints": {FINGERPRINT: sha256(f"{name}\0{seen[name]}".encode()).hexdigest()},
        "properties": {
            "severity": finding.severity.value,
            "tool": finding.tool,
            "version": finding.version,
            "key": finding.key,
        },
    }
    if finding.has_witness:
        made["properties"]["witness"] = finding.witness
    if finding.related:
        made["relatedLocations"] = [
            {"id": index, **_location(place, folder, words)} for index, (place, words) in enumerate(finding.related)
        ]
    if finding.severity is Severity.EXCEPTED:
        made["suppressions"] = [{"kind": "external", "status": "accepted", "justification": shown(finding.excepted_by)}]
    return made


def _message(finding: Finding) -> str:
    about = f"{finding.tool}@{finding.version}" if finding.version else finding.tool
    decided = "it cannot be decided: " if finding.severity is Severity.UNDECIDED else ""
    lines = [f"{about}: {decided}{shown(finding.what)}"]
    if finding.has_witness:
        lines.append(f"witness: {shown_json(finding.witness)}{f' ({shown(finding.shows)})' if finding.shows else ''}")
    if finding.place.tree and finding.place.line:
        lines.append(f"it stands at line {finding.place.line} of the old file")
    return "\n".join([*lines, f"why: {shown(finding.why)}", f"mend: {shown(finding.mend)}"])


def _location(place: Place, folder: str, words: str = "") -> dict[str, Any]:
    path = place.file if not folder or place.file.startswith("/") else f"{folder.rstrip('/')}/{place.file}"
    if place.file.startswith("/"):
        artifact = {"uri": f"file://{quote(path)}"}
    else:
        artifact = {"uri": quote(path), "uriBaseId": "%SRCROOT%"}
    physical: dict[str, Any] = {"artifactLocation": artifact}
    if place.line and not place.tree:
        physical["region"] = {"startLine": place.line, "startColumn": max(place.column, 1)}
        if place.source:
            physical["region"]["snippet"] = {"text": place.source}
    said = [shown(words)] if words else []
    if place.tree:
        said.append(f"(in the old file, line {place.line})" if place.line else "(in the old file)")
    return {"physicalLocation": physical, **({"message": {"text": " ".join(said)}} if said else {})}


def _rule(rule: str) -> dict[str, Any]:
    """A rule with its page, which code scanning shows beside the finding; a problem with the form has none."""
    made: dict[str, Any] = {"id": rule, "name": rule, "helpUri": page_of(rule if rule in _RULES else "policy")}
    if rule not in _RULES:
        return made | {"shortDescription": {"text": rule}}
    page = (resources.files("broker.docs") / f"{rule}.md").read_text(encoding="utf-8")
    said = " ".join(page.split("\n\n")[1].split())
    return made | {"shortDescription": {"text": said}, "help": {"text": said, "markdown": page}}
