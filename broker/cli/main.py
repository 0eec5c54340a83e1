"""The `broker` command. Exit codes: 0 done, 1 refused, 2 usage, 3 unusable configuration or input, 4 broker away."""

from __future__ import annotations

import sys
from importlib.metadata import version as distribution_version
from typing import Final

import click

from broker.cli.keys import keygen, secret
from broker.cli.policy import policy_group
from broker.cli.serve import serve
from broker.cli.version import policy_reload, version_group
from broker.domain.errors import BrokerError, ConfigurationError

UNUSABLE: Final = 3
AWAY: Final = 4


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(distribution_version("mayfly-broker"), prog_name="broker")
def cli() -> None:
    """Mayfly: credentials for MCP tools that live for seconds and die with the version they were minted for."""


cli.add_command(serve)
cli.add_command(version_group)
cli.add_command(policy_group)
cli.add_command(keygen)
cli.add_command(secret)
policy_group.add_command(policy_reload)


def main() -> None:
    """Run the command; foreseeable errors are one message, never a trace."""
    try:
        cli()
    except ConfigurationError as error:
        click.echo(f"broker: {error}", err=True)
        sys.exit(UNUSABLE)
    except BrokerError as error:
        click.echo(f"broker: {error or type(error).__name__}", err=True)
        sys.exit(AWAY)


if __name__ == "__main__":
    main()
