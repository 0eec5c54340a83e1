"""`broker policy`: what can be said about policy files without a broker.

| command  | exit 0                                 | exit 3                          |
|----------|----------------------------------------|---------------------------------|
| `check`  | the folder is a lawful policy          | it is not; every problem is printed |
| `schema` | the JSON Schema of a file was printed  |                                 |
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click

from broker.adapters.policyfile.folder import load_policy
from broker.cli.policy_explain import policy_explain
from broker.cli.policy_init import policy_init
from broker.cli.policy_test import policy_test
from broker.cli.version import policy_reload
from broker.domain.policy.document import Policy
from broker.domain.policy.formschema import FILES, file_schema
from broker.domain.policy.located import PolicyInvalidError

UNUSABLE: Final = 3


@click.group("policy")
def policy_group() -> None:
    """Check policy files, and print their JSON Schema."""


@policy_group.command("check")
@click.argument("folder", type=click.Path(path_type=Path), default=Path("policies"), metavar="[DIR]")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--without-keys", is_flag=True, help="Key files need not be there: they are where the broker runs.")
def check(folder: Path, form: str, without_keys: bool) -> None:
    """Check the policy in DIR (default: policies) and print every problem with its place and how to mend it."""
    try:
        policy = load_policy(folder, with_keys=not without_keys)
    except PolicyInvalidError as error:
        if form == "json":
            problems = [asdict(problem) for problem in error.problems]
            click.echo(json.dumps({"lawful": False, "problems": problems}, indent=2))
        else:
            click.echo(str(error), err=True)
        sys.exit(UNUSABLE)
    if form == "json":
        click.echo(json.dumps({"lawful": True, "problems": [], **_summary(policy)}, indent=2))
    else:
        versions = sum(len(tool.versions) for tool in policy.tools.values())
        click.echo(
            f"lawful: {len(policy.tools)} tools, {versions} versions, {len(policy.clients)} clients, "
            f"{len(policy.issuers)} issuers\n{policy.digest}"
        )


@policy_group.command("schema")
@click.argument("kind", type=click.Choice(sorted(FILES)), default="policy")
def schema(kind: str) -> None:
    """Print the JSON Schema of a tool file, of trust.yaml, or of a test file."""
    click.echo(spell_schema(kind), nl=False)


def spell_schema(kind: str) -> str:
    """The JSON Schema of one kind of file, as it is printed and shipped."""
    return json.dumps(file_schema(kind), indent=2, ensure_ascii=False) + "\n"


def _summary(policy: Policy) -> dict[str, object]:
    return {
        "tenant": policy.tenant,
        "digest": policy.digest,
        "tools": {tool.tool: sorted(tool.versions) for tool in policy.tools.values()},
    }


policy_group.add_command(policy_reload)
policy_group.add_command(policy_test)
policy_group.add_command(policy_explain)
policy_group.add_command(policy_init)
