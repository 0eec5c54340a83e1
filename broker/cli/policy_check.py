"""`broker policy check`: the rules over a folder, alone or against what it was.

| exit | means                                                                                                |
|------|------------------------------------------------------------------------------------------------------|
| 0    | lawful; notices and what exceptions cover do not change that                                           |
| 1    | refused by a rule                                                                                    |
| 2    | a rule cannot be decided, and none refuses                                                            |
| 3    | the folder cannot be read as a policy, or the base cannot be compared with; usage                        |
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from broker.adapters.policyfile.git import place_in_repository
from broker.app.checking import Checked, check_folder, default_cache
from broker.cli.report_github import problems_as_github, report_as_github
from broker.cli.report_json import problems_as_json, report_as_json
from broker.cli.report_sarif import problems_as_sarif, report_as_sarif
from broker.cli.report_text import problems_as_text, report_as_text
from broker.domain.errors import ConfigurationError
from broker.domain.policy.findings import RuleId
from broker.domain.policy.located import PolicyInvalidError, Problem

REFUSED: Final = 1
UNUSABLE: Final = 3
FORMATS: Final = ("text", "json", "sarif", "github")
_RULES: Final = frozenset(rule.value for rule in RuleId)


class _MisusedError(click.UsageError):
    exit_code = UNUSABLE


class CheckCommand(click.Command):
    """A misspelt option must not end as 2 does: that one says that a rule cannot be decided."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise _MisusedError(error.format_message(), error.ctx) from None


@click.command("check", cls=CheckCommand)
@click.argument("folder", type=click.Path(path_type=Path), default=Path("policies"), metavar="[DIR]")
@click.option(
    "--base",
    metavar="REF|DIR",
    help="Compare with the folder at a git commit, or with another folder. REF...: where HEAD parted from REF.",
)
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("--without-keys", is_flag=True, help="Key files need not be there: they are where the broker runs.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the report there.")
@click.option("--cache", type=click.Path(file_okay=False, path_type=Path), help="Where answers are remembered.")
@click.option("--no-cache", is_flag=True, help="Remember nothing, and believe nothing remembered.")
def policy_check(
    folder: Path,
    base: str | None,
    form: str,
    without_keys: bool,
    output: Path | None,
    cache: Path | None,
    no_cache: bool,
) -> None:
    """Check the policy in DIR (default: policies), and print each finding with its place, a witness and the mend."""
    remembered = None if no_cache else cache or default_cache()
    colours = output is None and form == "text" and colours_wanted()
    try:
        with progress() as asked:
            checked = check_folder(folder, base=base, with_keys=not without_keys, cache=remembered, asked=asked)
    except PolicyInvalidError as error:
        code = REFUSED if all(one.rule in _RULES for one in error.problems) else UNUSABLE
        _write(output, _problems(error.problems, folder, form, code=code, colours=colours))
        sys.exit(code)
    except ConfigurationError as error:
        mend = "name a commit or a folder that holds a lawful policy"
        problem = Problem(str(base), 0, 0, "", "base.unusable", str(error), mend)
        _write(output, _problems((problem,), Path(), form, code=UNUSABLE, colours=colours))
        sys.exit(UNUSABLE)
    _write(output, _report(checked, folder, form, colours=colours))
    sys.exit(checked.report.exit_code)


def colours_wanted() -> bool:
    """Colours are for a terminal whose owner did not say no (no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def in_repository(folder: Path) -> str:
    """The folder as others find it: from the top of its repository, else as it was named."""
    found = place_in_repository(folder)
    return folder.as_posix() if found is None else found


@contextmanager
def progress() -> Iterator[Callable[[], None] | None]:
    """What shows on a terminal that work is going on; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # half of the start's time, and only for a terminal

    questions = 0
    with Console(stderr=True).status("reading") as status:

        def asked() -> None:
            nonlocal questions
            questions += 1
            status.update(f"comparing schemas: {questions}")

        yield asked


def _report(checked: Checked, folder: Path, form: str, *, colours: bool) -> str:
    report, policy, base = checked.report, checked.tree.policy, checked.base
    if form == "json":
        compared = None if base is None else {"name": base.words, "has_folder": base.tree is not None}
        return _spelled(report_as_json(report, policy, folder=folder.as_posix(), base=compared))
    if form == "sarif":
        return _spelled(report_as_sarif(report, folder=in_repository(folder)))
    if form == "github":
        return report_as_github(report, folder=in_repository(folder))
    versions = sum(len(tool.versions) for tool in policy.tools.values())
    lawful = (
        f"{len(policy.tools)} tools, {versions} versions, {len(policy.clients)} clients, "
        f"{len(policy.issuers)} issuers\n{policy.digest}"
    )
    words = base.words if base is not None else ""
    return report_as_text(report, folder=folder.as_posix(), lawful=lawful, base=words, colours=colours)


def _problems(problems: tuple[Problem, ...], folder: Path, form: str, *, code: int, colours: bool) -> str:
    if form == "json":
        return _spelled(problems_as_json(problems, folder=folder.as_posix(), exit_code=code))
    if form == "sarif":
        return _spelled(problems_as_sarif(problems, folder=in_repository(folder), exit_code=code))
    if form == "github":
        return problems_as_github(problems, folder=in_repository(folder))
    return problems_as_text(problems, folder="" if folder == Path() else folder.as_posix(), colours=colours)


def _spelled(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2)


def _write(output: Path | None, text: str) -> None:
    if output is None:
        click.echo(text)
        return
    try:
        output.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"the report cannot be written to {output}: {error.strerror}") from None
