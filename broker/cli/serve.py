"""`broker serve`: the broker, with its embedded store unless another is named."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option(
    "--policies",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("policies"),
    show_default=True,
    envvar="BROKER_POLICIES",
    help="Policy folder.",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".broker"),
    show_default=True,
    envvar="BROKER_DATA",
    help="Folder for signing keys, audit log and embedded store.",
)
@click.option("--host", default="127.0.0.1", show_default=True, envvar="BROKER_HOST", help="Address to listen on.")
@click.option("--port", type=click.IntRange(1, 65535), default=8420, show_default=True, envvar="BROKER_PORT")
@click.option("--issuer", default="", envvar="BROKER_ISSUER", help="Issuer URL; by default the address listened on.")
@click.option(
    "--store",
    default="embedded",
    show_default=True,
    envvar="BROKER_STORE",
    help="`embedded`, or redis://, rediss:// or unix:// of a Redis 7 or Valkey 8 server.",
)
@click.option(
    "--signing-alg",
    type=click.Choice(["ES256", "RS256", "EdDSA"]),
    default="ES256",
    show_default=True,
    envvar="BROKER_SIGNING_ALG",
)
@click.option("--claim-unknown-store", metavar="REASON", help="Claim a store that the audit log does not know.")
def serve(
    policies: Path,
    data: Path,
    host: str,
    port: int,
    issuer: str,
    store: str,
    signing_alg: str,
    claim_unknown_store: str | None,
) -> None:
    """Run the broker until SIGTERM; SIGHUP loads the policy again."""
    # The server's libraries are an extra; the offline commands work without them.
    from broker.app.server import serve as run
    from broker.app.settings import Settings

    run(
        Settings(
            policies=policies,
            data=data,
            host=host,
            port=port,
            issuer=issuer,
            store=store,
            signing_algorithm=signing_alg,
            claim_unknown_store=claim_unknown_store,
        )
    )
