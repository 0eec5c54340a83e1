"""`broker serve`: the broker, with its embedded store unless another is named."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import click

from broker.domain.errors import ConfigurationError


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
@click.option(
    "--keys",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="BROKER_KEYS",
    help="Folder for the keys, which all replicas of a broker share; by default `keys` in --data.",
)
@click.option("--host", default="127.0.0.1", show_default=True, envvar="BROKER_HOST", help="Address to listen on.")
@click.option("--port", type=click.IntRange(1, 65535), default=8420, show_default=True, envvar="BROKER_PORT")
@click.option("--issuer", default="", envvar="BROKER_ISSUER", help="Issuer URL; by default the address listened on.")
@click.option(
    "--store",
    default="embedded",
    show_default=True,
    envvar="BROKER_STORE",
    help="`embedded`, or a Redis 7 or Valkey 8 store: redis://HOST, unix://SOCKET, sentinel://HOST,…/NAME, cluster://HOST,…; "
    "over TLS rediss://, sentinels://, clusters://.",
)
@click.option(
    "--store-file",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="BROKER_STORE_FILE",
    help="File that holds the store's URL, in place of --store: a password belongs on no command line.",
)
@click.option(
    "--required-replicas",
    type=click.IntRange(0, 100),
    envvar="BROKER_REQUIRED_REPLICAS",
    help="How many replicas of the store must acknowledge a write before anything is minted; by default 1 with sentinels "
    "or a cluster, else 0.",
)
@click.option(
    "--signing-alg",
    type=click.Choice(["ES256", "RS256", "EdDSA"]),
    default="ES256",
    show_default=True,
    envvar="BROKER_SIGNING_ALG",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    envvar="BROKER_WORKERS",
    help="How many processes serve; each keeps an audit log of its own in --data.",
)
@click.option("--worker", type=int, hidden=True)
@click.option(
    "--peer",
    "peers",
    multiple=True,
    metavar="URL",
    help="Address of another replica of this broker; repeat for each. In BROKER_PEERS, separated by commas.",
)
@click.option("--claim-unknown-store", metavar="REASON", help="Claim a store that the audit log does not know.")
def serve(
    policies: Path,
    data: Path,
    keys: Path | None,
    host: str,
    port: int,
    issuer: str,
    store: str,
    store_file: Path | None,
    required_replicas: int | None,
    signing_alg: str,
    workers: int,
    worker: int | None,
    peers: tuple[str, ...],
    claim_unknown_store: str | None,
) -> None:
    """Run the broker until SIGTERM; SIGHUP loads the policy again."""
    # Until the server listens to signals: an interrupt ends the process plainly, not in the midst of an import, and a wish
    # to load the policy again is fulfilled by loading it at all.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # The server's libraries are an extra; the offline commands work without them.
    from broker.app.settings import Settings

    if worker is not None:
        from broker.app.server import serve_as_worker

        serve_as_worker(worker)
        return
    if workers > 1:
        from broker.app.workers import serve_workers as run  # which needs nothing of what its workers need
    else:
        from broker.app.server import serve as run
    run(
        Settings(
            policies=policies,
            data=data,
            keys=keys,
            host=host,
            port=port,
            issuer=issuer,
            store=store if store_file is None else _store_url(store_file),
            required_replicas=required_replicas,
            signing_algorithm=signing_alg,
            workers=workers,
            peers=peers or _split(os.environ.get("BROKER_PEERS", "")),
            claim_unknown_store=claim_unknown_store,
        )
    )


def _split(text: str) -> tuple[str, ...]:
    return tuple(part for part in (one.strip() for one in text.split(",")) if part)


def _store_url(file: Path) -> str:
    try:
        url = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigurationError(f"--store-file {file}: {why}; one line with the store's URL was expected") from None
    if not url or len(url.splitlines()) != 1:
        raise ConfigurationError(f"--store-file {file}: one line with the store's URL was expected")
    return url
