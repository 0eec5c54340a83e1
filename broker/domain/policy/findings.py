"""What the rules say about a policy: findings, and the report that collects them.

1. A finding names its rule, its place, what is so, why it matters, a witness where there is one, and the mend.
2. `refused` stops the policy, `undecided` stops it as unknown, `notice` does not. An approved exception turns the first
   two into `excepted`, which is still listed.
3. Findings have one order: file, line, column, rule.

A rule's id is part of the wire format: it may be added, never renamed or given another meaning.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from broker.domain.canonical import JsonValue
from broker.domain.ids import ToolName, Version


class RuleId(StrEnum):
    """The rules, by the names that people and exceptions use."""

    LOCKSTEP_SCOPE_KEPT = "lockstep.scope-kept"
    LOCKSTEP_SCHEMA_KEPT = "lockstep.schema-kept"
    LOCKSTEP_ALONE = "lockstep.alone"
    SCOPE_WIDENED = "scope.widened"
    SCOPE_DEAD = "scope.dead"
    SCOPE_MISSING = "scope.missing"
    ARGUMENT_UNDECLARED = "argument.undeclared"
    ARGUMENT_SEPARATOR = "argument.separator"
    CONTRACT_ANYTHING = "contract.anything"
    VERSION_EDITED = "version.edited"
    VERSION_DIGEST = "version.digest"
    CHANGE_CLAIM = "change.claim"
    WORDS_CHANGED = "words.changed"
    RELATION_UNDECIDED = "relation.undecided"
    TEST_MISSING = "test.missing"
    EXCEPTION_INVALID = "exception.invalid"


class Severity(StrEnum):
    """What a finding does to the policy."""

    REFUSED = "refused"
    UNDECIDED = "undecided"
    NOTICE = "notice"
    EXCEPTED = "excepted"


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands: 1-based line and column (0: the whole file), the JSON pointer, and the line for the caret.

    file: relative to the policy folder. tree: `base` where it stands in the old tree (a removal), else empty.
    """

    file: str
    line: int = 0
    column: int = 0
    pointer: str = ""
    source: str = ""
    tree: str = ""

    def __str__(self) -> str:
        text = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{text} ({self.tree})" if self.tree else text


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a rule says.

    what, why, mend: one sentence each, without the place.
    witness:  an argument object, a value or a scope that shows it; None where the rule has none (`has_witness`).
    shows:    what the witness shows, such as `accepted before, refused now`.
    related:  other places that explain it, each with a few words.
    key:      what the finding is about inside the version (a scope, a task, a pointer), stable over edits: exceptions and
              SARIF fingerprints name it.
    excepted_by: who approved the exception that covers it, and until when.
    """

    rule: RuleId
    severity: Severity
    tool: ToolName
    version: Version | None
    key: str
    place: Place
    what: str
    why: str
    mend: str
    witness: JsonValue = None
    has_witness: bool = False
    shows: str = ""
    related: tuple[tuple[Place, str], ...] = ()
    excepted_by: str = ""


@dataclass(frozen=True, slots=True)
class ExceptionUse:
    """An exception that a check honoured or refused; every output lists these, and each use is a record."""

    rule: str
    tool: str
    version: str | None
    key: str | None
    reason: str
    approved_by: tuple[str, ...]
    expires: str
    place: Place
    used: bool


@dataclass(frozen=True, slots=True)
class Report:
    """All that a check found, in order, and the exceptions there are."""

    findings: tuple[Finding, ...]
    exceptions: tuple[ExceptionUse, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def refused(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity is Severity.REFUSED)

    @property
    def undecided(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity is Severity.UNDECIDED)

    @property
    def exit_code(self) -> int:
        """0 lawful, 1 refused, 2 cannot decide."""
        return 1 if self.refused else 2 if self.undecided else 0
