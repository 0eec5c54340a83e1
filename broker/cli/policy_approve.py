"""`broker policy approve`: departs from a rule for a while, after showing what for.

1. The folder is checked; there must be a finding of this rule, tool and version (and key), not covered yet.
2. The exception must hold: a reason, approvers (two different ones where the rule needs them), at most 90 days.
3. Shown: the findings that it covers, what changed in the version, and what is put into `exceptions.yaml`.
4. After a yes the file is exchanged and the folder checked again. Were it not lawful in form then, the file is put back.

| exit | means                                                            |
|------|------------------------------------------------------------------|
| 0    | written                                                          |
| 1    | no such finding, an exception that would not hold, or no yes      |
| 3    | the folder, the base or the file cannot be used                   |
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Final

import click

from broker.adapters.policyfile.exceptions_file import read_exceptions_file, with_exception, write_exceptions_file
from broker.adapters.policyfile.folder import EXCEPTIONS, load_tree
from broker.adapters.schemas.arithmetic import open_arithmetic
from broker.app.checking import Base, default_cache, read_base, today
from broker.cli.policy_check import colours_wanted
from broker.cli.policy_diff_output import as_text as differences_as_text
from broker.cli.report_text import finding_as_text, problems_as_text
from broker.cli.shown import shown
from broker.domain.errors import ConfigurationError
from broker.domain.policy.differing import Step
from broker.domain.policy.exceptions import MAX_DAYS, PolicyException, what_is_wrong
from broker.domain.policy.findings import Finding, Report, RuleId, Severity
from broker.domain.policy.located import Located, PolicyInvalidError
from broker.domain.policy.tree import PolicyTree
from broker.services.checking import PolicyChecker
from broker.services.telling import Telling

REFUSED: Final = 1
UNUSABLE: Final = 3
_DAYS: Final = 30
_STOPPING: Final = (Severity.REFUSED, Severity.UNDECIDED)


@click.command("approve")
@click.argument("folder", type=click.Path(path_type=Path), default=Path("policies"), metavar="[DIR]")
@click.option("--rule", type=click.Choice([rule.value for rule in RuleId]), required=True)
@click.option("--tool", required=True)
@click.option("--version", "number", required=True)
@click.option("--key", help="The one scope, task or argument it is about; else all that the rule says of the version.")
@click.option("--reason", required=True, help="Why the rule should not hold here.")
@click.option(
    "--by", "by", multiple=True, required=True, metavar="NAME", help="Who approves; some rules need two people."
)
@click.option("--expires", metavar="YYYY-MM-DD", help=f"The last day, at most {MAX_DAYS} days away.")
@click.option("--days", type=click.IntRange(1), help=f"Instead of --expires; {_DAYS} where neither is given.")
@click.option("--base", metavar="REF|DIR", help="What the folder is compared with, as in `policy check`.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def policy_approve(
    folder: Path,
    rule: str,
    tool: str,
    number: str,
    key: str | None,
    reason: str,
    by: tuple[str, ...],
    expires: str | None,
    days: int | None,
    base: str | None,
    yes: bool,
) -> None:
    """Write an exception into DIR/exceptions.yaml, after showing what it covers."""
    if expires is not None and days is not None:
        raise click.UsageError("--expires and --days say the same: give one of them")
    last = expires or _in_days(days if days is not None else _DAYS)
    node = Located(None, EXCEPTIONS, 0, 0, "")
    wanted = PolicyException(rule, tool, number, key, reason.strip(), _people(by), last, node)
    _shown_and_written(folder, wanted, base, yes=yes)


def _shown_and_written(folder: Path, wanted: PolicyException, base: str | None, *, yes: bool) -> None:
    colours = colours_wanted()
    arithmetic = open_arithmetic(default_cache())
    try:
        tree = load_tree(folder, with_keys=False)
        old = read_base(folder, base) if base is not None else None
        checker = PolicyChecker(arithmetic)
        report = checker.check(tree, base=old.tree if old is not None else None, today=today())
        covered = [one for one in report.findings if one.severity in _STOPPING and wanted.covers(one)]
        why_not = _why_not(report, wanted, covered)
        if why_not:
            click.echo(f"broker: {why_not}", err=True)
            sys.exit(REFUSED)
        text = read_exceptions_file(folder)
        made = with_exception(text, wanted)
        for finding in covered:
            click.echo(finding_as_text(finding, folder=folder.as_posix(), colours=colours) + "\n")
        step = _step(checker, tree, old, covered[0])
        if step is not None:
            click.echo(differences_as_text([Telling(arithmetic).step(step)]) + "\n")
    except PolicyInvalidError as error:
        click.echo(problems_as_text(error.problems, folder=folder.as_posix(), colours=colours), err=True)
        sys.exit(UNUSABLE)
    finally:
        arithmetic.close()
    name = f"{folder.as_posix()}/{EXCEPTIONS}"
    click.echo("".join(_difference(text, made, name)))
    for left in _run_out(tree):
        click.echo(f"{name}: {left}", err=True)
    if not yes:
        click.confirm(f"Write this into {name}?", abort=True)
    _write(folder, text, made)
    click.echo(f"{len(covered)} covered until {wanted.expires}, by {' and '.join(wanted.approved_by)}: {name}")


def _why_not(report: Report, wanted: PolicyException, covered: Sequence[Finding]) -> str:
    """Why no exception is written; empty where it can be."""
    wrong = what_is_wrong(wanted, today())
    if wrong is not None:
        return f"{wrong[0]}; {wrong[1]}"
    if covered:
        return ""
    about = f"{wanted.tool}@{wanted.version}" + (f", {wanted.key}" if wanted.key is not None else "")
    for one in report.findings:
        if one.severity is Severity.EXCEPTED and wanted.covers(one):
            return f"{wanted.rule} of {about} is excepted already, by {shown(one.excepted_by)}"
    stopping = [one for one in report.findings if one.severity in _STOPPING and one.tool == wanted.tool]
    near = ", ".join(f"{one.rule} of {one.tool}@{one.version}, {one.key}" for one in stopping[:5])
    there = f"what stops it: {shown(near)}" if near else f"nothing stops {wanted.tool}; is --base missing?"
    return f"{wanted.rule} says nothing of {about}, so there is nothing to approve; {there}"


def _step(checker: PolicyChecker, tree: PolicyTree, base: Base | None, finding: Finding) -> Step | None:
    """The step that the finding is about, for its differences to be shown."""
    new = tree.version(finding.tool, finding.version)
    if new is None:
        return None
    old_tree = base.tree if base is not None else None
    published = old_tree.version(new.tool, new.version) if old_tree is not None else None
    if published is not None and old_tree is not None:
        return Step(published, old_tree, new, tree, "step")
    old, where = checker.before(tree, old_tree, new.tool, new.version)
    return Step(old, where, new, tree, "step") if old is not None and where is not None else None


def _write(folder: Path, before: str, made: str) -> None:
    if read_exceptions_file(folder) != before:
        raise ConfigurationError(f"{EXCEPTIONS} was changed meanwhile; nothing was written")
    write_exceptions_file(folder, made)
    try:
        load_tree(folder, with_keys=False)
    except PolicyInvalidError as error:
        if before:
            write_exceptions_file(folder, before)
        else:
            (folder / EXCEPTIONS).unlink(missing_ok=True)
        click.echo(problems_as_text(error.problems, folder=folder.as_posix()), err=True)
        sys.exit(UNUSABLE)


def _run_out(tree: PolicyTree) -> list[str]:
    """What is left of exceptions that no longer hold; `check` refuses them."""
    made = []
    for one in tree.exceptions:
        wrong = what_is_wrong(one, today())
        if wrong is not None:
            made.append(shown(f"line {one.node.line}, {one.rule} for {one.tool}@{one.version}: {wrong[0]}; {wrong[1]}"))
    return made


def _difference(before: str, made: str, name: str) -> list[str]:
    old, new = before.splitlines(keepends=True), made.splitlines(keepends=True)
    lines = difflib.unified_diff(old, new, name, name, n=2)
    return [line if line.endswith("\n") else f"{line}\n" for line in lines]


def _in_days(days: int) -> str:
    return (date.fromisoformat(today()) + timedelta(days=days)).isoformat()


def _people(by: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in by if name.strip()))
