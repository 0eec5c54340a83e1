"""`broker policy test`: the policy's own tests, what they do not reach, and which changes they would not notice.

| exit | means                                                                                          |
|------|------------------------------------------------------------------------------------------------|
| 0    | every case came out as it says                                                                  |
| 1    | a case did not; with `--strict` also: a change of the policy goes unnoticed that a test could notice |
| 3    | the folder is no lawful policy, there is no case, or a case names what is not there               |
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

import click

from broker.adapters.policyfile.folder import load_tree
from broker.adapters.schemas.arithmetic import open_arithmetic
from broker.app.arguments import CompiledArguments
from broker.cli.policy_test_output import as_json, as_text
from broker.domain.ids import ToolName
from broker.domain.policy.located import PolicyInvalidError
from broker.services.policy_test import PolicyTester

FAILED: Final = 1
UNUSABLE: Final = 3
_FEW: Final = 4
_MANY: Final = 100


@click.command("test")
@click.argument("folder", type=click.Path(path_type=Path), default=Path("policies"), metavar="[DIR]")
@click.option("--tool", metavar="TOOL", help="The cases of this tool alone.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--mutations/--no-mutations", default=True, help="Change the policy, and see which changes go unnoticed.")
@click.option("--strict", is_flag=True, help="An unnoticed change is a failure.")
@click.option("-v", "--verbose", is_flag=True, help="Name every case, and propose a case for every unnoticed change.")
def policy_test(folder: Path, tool: str | None, form: str, mutations: bool, strict: bool, verbose: bool) -> None:
    """Try the cases in DIR/tests, and say what they leave untested."""
    try:
        tree = load_tree(folder, with_keys=False)
    except PolicyInvalidError as error:
        click.echo(str(error), err=True)
        sys.exit(UNUSABLE)
    if tool is not None and tool not in tree.policy.tools and tool not in tree.cases:
        click.echo(f"there is no tool {tool}; tools here: {', '.join(tree.policy.tools)}", err=True)
        sys.exit(UNUSABLE)
    arithmetic = open_arithmetic(None) if mutations else None
    try:
        tester = PolicyTester(CompiledArguments(), arithmetic, questions=_MANY if verbose else _FEW)
        run = tester.run(tree, tool=ToolName(tool) if tool is not None else None, mutations=mutations)
    finally:
        if arithmetic is not None:
            arithmetic.close()
    if form == "json":
        click.echo(json.dumps(as_json(run, tree), indent=2, ensure_ascii=False))
    else:
        click.echo(as_text(run, tree, verbose=verbose))
    if run.unusable or not run.results:
        sys.exit(UNUSABLE)
    if run.failed or (strict and run.told):
        sys.exit(FAILED)
