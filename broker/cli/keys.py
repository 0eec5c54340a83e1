"""`broker keygen` and `broker secret`: what a client, a verifier or an administrator authenticates with."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from pathlib import Path

import click

from broker.domain.errors import ConfigurationError
from broker.engines.jwk import generate_private_key, private_pem, public_jwk


@click.command()
@click.argument("names", nargs=-1, required=True)
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default=Path("keys"), show_default=True, help="Folder."
)
@click.option("--alg", type=click.Choice(["ES256", "RS256", "EdDSA"]), default="ES256", show_default=True)
def keygen(names: tuple[str, ...], out: Path, alg: str) -> None:
    """Make a key pair for each NAME: NAME.pem (private, mode 0600) and NAME.json (public JWK Set for trust.yaml)."""
    try:
        out.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name in names:
            _write_pair(out, name, alg)
    except OSError as error:
        raise ConfigurationError(f"{error.filename}: {error.strerror}; name a folder that can be written") from None


def _write_pair(out: Path, name: str, alg: str) -> None:
    if Path(name).name != name or name.startswith("."):
        raise ConfigurationError(f"{name}: a plain file name was expected")
    private, public = out / f"{name}.pem", out / f"{name}.json"
    for path in (private, public):
        if path.exists():
            raise ConfigurationError(f"{path} is there already; a key is never overwritten, move it away first")
    key = generate_private_key(alg)
    with os.fdopen(os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(private_pem(key))
    public.write_text(json.dumps({"keys": [public_jwk(key, algorithm=alg)]}, indent=2) + "\n")
    click.echo(f"{private} (private)  {public} (public)")


@click.command()
def secret() -> None:
    """Make a client secret: the secret for the client, its digest for trust.yaml."""
    made = secrets.token_urlsafe(32)
    click.echo(f"secret for the client: {made}")
    click.echo(f"in trust.yaml:         secret: sha256:{hashlib.sha256(made.encode()).hexdigest()}")
