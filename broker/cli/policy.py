"""`broker policy`: what can be said about policy files without a broker. Each command's own file says its exit codes."""

from __future__ import annotations

import json

import click

from broker.cli.policy_check import policy_check
from broker.cli.policy_diff import policy_diff
from broker.cli.policy_explain import policy_explain
from broker.cli.policy_init import policy_init
from broker.cli.policy_test import policy_test
from broker.cli.version import policy_reload
from broker.domain.policy.formschema import FILES, file_schema


@click.group("policy")
def policy_group() -> None:
    """Check policy files, and print their JSON Schema."""


@policy_group.command("schema")
@click.argument("kind", type=click.Choice(sorted(FILES)), default="policy")
def schema(kind: str) -> None:
    """Print the JSON Schema of a tool file, of trust.yaml, or of a test file."""
    click.echo(spell_schema(kind), nl=False)


def spell_schema(kind: str) -> str:
    """The JSON Schema of one kind of file, as it is printed and shipped."""
    return json.dumps(file_schema(kind), indent=2, ensure_ascii=False) + "\n"


policy_group.add_command(policy_check)
policy_group.add_command(policy_reload)
policy_group.add_command(policy_test)
policy_group.add_command(policy_explain)
policy_group.add_command(policy_init)
policy_group.add_command(policy_diff)
