"""`broker policy`: what can be said about policy files without a broker. Each command's own file says its exit codes."""

from __future__ import annotations

import json
from typing import Final

import click

from broker.cli.lazy import LazyGroup
from broker.domain.policy.formschema import FILES, file_schema

COMMANDS: Final = {
    "approve": ("broker.cli.policy_approve", "policy_approve"),
    "check": ("broker.cli.policy_check", "policy_check"),
    "diff": ("broker.cli.policy_diff", "policy_diff"),
    "explain": ("broker.cli.policy_explain", "policy_explain"),
    "init": ("broker.cli.policy_init", "policy_init"),
    "reload": ("broker.cli.version", "policy_reload"),
    "test": ("broker.cli.policy_test", "policy_test"),
}


@click.group("policy", cls=LazyGroup, lazily=COMMANDS)
def policy_group() -> None:
    """Check policy files, test them, see what they change, and begin them."""


@policy_group.command("schema")
@click.argument("kind", type=click.Choice(sorted(FILES)), default="policy")
def schema(kind: str) -> None:
    """Print the JSON Schema of a tool file, of trust.yaml, or of a test file."""
    click.echo(spell_schema(kind), nl=False)


def spell_schema(kind: str) -> str:
    """The JSON Schema of one kind of file, as it is printed and shipped."""
    return json.dumps(file_schema(kind), indent=2, ensure_ascii=False) + "\n"
