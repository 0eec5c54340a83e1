"""Exceptions: reviewed departures from a rule, each for one version and for a time.

1. An exception names the rule, the tool, the version, a reason, who approved it, and the last day it holds. `key` narrows it
   to one thing inside the version; without it, it covers all that the rule says of that version.
2. `scope.widened`, and what rights could grow behind (`version.edited`, `relation.undecided`), need two different people.
   `version.digest` and `exception.invalid` have no exception.
3. The last day is at most `MAX_DAYS` away. After it, the exception is itself refused.
4. They stand in `exceptions.yaml` alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from broker.domain.policy.findings import ExceptionUse, Finding, Place, RuleId, Severity
from broker.domain.policy.located import Located

MAX_DAYS: Final = 90
NO_EXCEPTION: Final = (RuleId.VERSION_DIGEST, RuleId.EXCEPTION_INVALID)
TWO_APPROVALS: Final = (RuleId.SCOPE_WIDENED, RuleId.VERSION_EDITED, RuleId.RELATION_UNDECIDED)
_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


@dataclass(frozen=True, slots=True)
class PolicyException:
    """One entry of `exceptions.yaml`. expires: the last day it holds, `YYYY-MM-DD`."""

    rule: str
    tool: str
    version: str
    key: str | None
    reason: str
    approved_by: tuple[str, ...]
    expires: str
    node: Located

    def covers(self, finding: Finding) -> bool:
        """Whether the exception speaks of what the finding says."""
        return (
            (self.rule, self.tool, self.version) == (finding.rule, finding.tool, finding.version)
            and finding.rule not in NO_EXCEPTION
            and (self.key is None or self.key == finding.key)
        )


def parse_exceptions(root: Located) -> tuple[PolicyException, ...]:
    """The entries of an exceptions file whose form has been checked."""
    listed = root.get("exceptions")
    return tuple(
        PolicyException(
            rule=node.text("rule") or "",
            tool=node.text("tool") or "",
            version=node.text("version") or "",
            key=node.text("key"),
            reason=node.text("reason") or "",
            approved_by=node.texts("approved_by"),
            expires=node.text("expires") or "",
            node=node,
        )
        for node in (listed.items() if listed is not None else ())
        if node.readable
    )


def day_number(day: str) -> int | None:
    """A `YYYY-MM-DD` day of the Gregorian calendar as a count of days; None where there is no such day."""
    parts = day.split("-")
    if [len(part) for part in parts] != [4, 2, 2] or not all(part.isdecimal() and part.isascii() for part in parts):
        return None
    year, month, date = map(int, parts)
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if year < 1 or not 1 <= month <= 12 or not 1 <= date <= _DAYS[month - 1] + (leap and month == 2):
        return None
    before = year - 1
    elapsed = before * 365 + before // 4 - before // 100 + before // 400
    return elapsed + sum(_DAYS[: month - 1]) + (leap and month > 2) + date


def what_is_wrong(exception: PolicyException, today: str) -> tuple[str, str] | None:
    """Why an exception does not hold, and how to mend it; None where it holds."""
    if exception.rule in NO_EXCEPTION:
        return f"{exception.rule} has no exception", "take it out and mend what the rule says"
    if not exception.reason.strip():
        return "the exception has no reason", "say why the rule should not hold here"
    people = {name.strip().casefold() for name in exception.approved_by} - {""}
    if not people:
        return "nobody has approved the exception", "name who did under approved_by"
    if exception.rule in TWO_APPROVALS and len(people) < 2:
        return f"{exception.rule} needs two different people, {len(people)} approved", "have another one approve it"
    last, now = day_number(exception.expires), day_number(today)
    if last is None or now is None:
        return f"{exception.expires!r} is no day", 'write the last day as "YYYY-MM-DD"'
    if last < now:
        return f"the exception ran out on {exception.expires}", "take it out, or have it approved again"
    if last - now > MAX_DAYS:
        return f"the exception reaches {last - now} days ahead, at most {MAX_DAYS} are accepted", "set a nearer day"
    return None


def apply_exceptions(
    findings: Iterable[Finding], exceptions: Iterable[tuple[PolicyException, Place]], *, today: str
) -> tuple[tuple[Finding, ...], tuple[ExceptionUse, ...]]:
    """Turn what is covered into `excepted`, and report what does not hold."""
    listed = list(exceptions)
    used: set[int] = set()
    made = [
        _covered(finding, listed, used, today) if finding.severity in _STOPPING else finding for finding in findings
    ]
    made.extend(_about_exceptions(listed, used, today))
    uses = tuple(
        ExceptionUse(
            rule=entry.rule,
            tool=entry.tool,
            version=entry.version,
            key=entry.key,
            reason=entry.reason,
            approved_by=entry.approved_by,
            expires=entry.expires,
            place=place,
            used=index in used,
        )
        for index, (entry, place) in enumerate(listed)
    )
    return tuple(made), uses


_STOPPING: Final = (Severity.REFUSED, Severity.UNDECIDED)


def _covered(finding: Finding, listed: list[tuple[PolicyException, Place]], used: set[int], today: str) -> Finding:
    for index, (entry, _) in enumerate(listed):
        if entry.covers(finding) and what_is_wrong(entry, today) is None:
            used.add(index)
            by = f"{' and '.join(entry.approved_by)} until {entry.expires}: {entry.reason}"
            return replace(finding, severity=Severity.EXCEPTED, excepted_by=by)
    return finding


def _about_exceptions(listed: list[tuple[PolicyException, Place]], used: set[int], today: str) -> Iterator[Finding]:
    for index, (entry, place) in enumerate(listed):
        wrong = what_is_wrong(entry, today)
        if wrong is None and index in used:
            continue
        what, mend = wrong or (
            f"nothing in {entry.tool}@{entry.version} needs the exception from {entry.rule}",
            "take it out",
        )
        yield Finding(
            rule=RuleId.EXCEPTION_INVALID,
            severity=Severity.REFUSED if wrong else Severity.NOTICE,
            tool=entry.tool,  # type: ignore[arg-type]  # as it is written; it may name no tool
            version=entry.version,  # type: ignore[arg-type]
            key=f"{entry.rule}/{entry.key or ''}",
            place=place,
            what=what,
            why="an exception is for a while, for a reason, and somebody answers for it",
            mend=mend,
        )
