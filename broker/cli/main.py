"""The `broker` command.

Exit codes: 0 done, 1 refused, 2 undecided or usage, 3 unusable configuration or input, 4 broker away, 5 done without a receipt.
"""

from __future__ import annotations

import importlib
import sys
from importlib.metadata import version as distribution_version
from typing import Final

import click

from broker.domain.errors import BrokerError, ConfigurationError
from broker.domain.policy.judgement import PolicyRefusedError
from broker.domain.policy.located import PolicyInvalidError

UNUSABLE: Final = 3
AWAY: Final = 4

COMMANDS: Final = {
    "docs": ("broker.cli.docs", "docs"),
    "key": ("broker.cli.key", "key_group"),
    "keygen": ("broker.cli.keys", "keygen"),
    "policy": ("broker.cli.policy", "policy_group"),
    "receipt": ("broker.cli.receipt", "receipt_group"),
    "revoke": ("broker.cli.revoke", "revoke"),
    "secret": ("broker.cli.keys", "secret"),
    "serve": ("broker.cli.serve", "serve"),
    "version": ("broker.cli.version", "version_group"),
}


class Commands(click.Group):
    """Loads the command that was asked for and no other: most of a command's time is importing."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name]
        found = getattr(importlib.import_module(module), name)
        assert isinstance(found, click.Command)
        return found


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(distribution_version("mayfly-broker"), prog_name="broker")
def cli() -> None:
    """Mayfly: credentials for MCP tools that live for seconds and die with the version they were minted for."""


def main() -> None:
    """Run the command; foreseeable errors are one message, never a trace."""
    try:
        cli()
    except (ConfigurationError, PolicyInvalidError) as error:
        click.echo(f"broker: {error}", err=True)
        sys.exit(UNUSABLE)
    except PolicyRefusedError as error:
        from broker.cli.report_text import report_as_text

        click.echo(report_as_text(error.report), err=True)
        sys.exit(error.report.exit_code)
    except BrokerError as error:
        click.echo(f"broker: {error or type(error).__name__}", err=True)
        sys.exit(AWAY)


if __name__ == "__main__":
    main()
