"""`broker receipt …`: receipts of earlier revocations, and checking one without a broker."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, Final

import click

from broker.cli.admin_client import AdminClient
from broker.cli.receipt_text import conclusion_of, progress_line, receipt_lines
from broker.cli.shown import shown
from broker.cli.version import admin_options
from broker.cli.waiting import WITHOUT_RECEIPT, run_waiting, show_receipt
from broker.domain.errors import ConfigurationError, Refusal
from broker.domain.revocation.feed import parse_point, spell_point
from broker.domain.tokens.keys import JwksError, KeySet
from broker.engines.jwk import parse_jwks
from broker.engines.receipt import MAX_RECEIPT_BYTES, VerifiedReceipt, verify_receipt

REFUSED: Final = 1
_MAX_FILE_BYTES: Final = 1_048_576


@click.group("receipt")
def receipt_group() -> None:
    """Receipts: proof that no verifier accepts any more what was revoked."""


class PointParameter(click.ParamType[tuple[int, int]]):
    """`gen:seq`."""

    name = "gen:seq"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        found = parse_point(value) if isinstance(value, str) else None
        if found is None:
            self.fail(f"{value!r}: gen:seq was expected, as the revocation answered them", param, ctx)
        return found.gen, found.seq


@receipt_group.command()
@click.argument("point", type=PointParameter(), metavar="GEN:SEQ")
@click.option("--wait", is_flag=True, help="Until it is complete.")
@admin_options
def show(client: AdminClient, point: tuple[int, int], *, wait: bool, as_json: bool) -> None:
    """The receipt of an earlier revocation; exit code 5 while it is not complete."""
    gen, seq = point
    path = f"/admin/receipts/{gen}/{seq}"
    if wait:
        what = "the revocation"
        run_waiting(client, "GET", path, what=what, show=lambda _: None, as_json=as_json, is_earlier=True)
        return
    answer = client.call("GET", path)
    if as_json:
        click.echo(json.dumps(answer, indent=2, ensure_ascii=False))
    elif "receipt" in answer:
        show_receipt(answer["receipt"], is_earlier=True)
    if "receipt" not in answer:
        click.echo(f"not complete: {progress_line(answer)}", err=True)
        sys.exit(WITHOUT_RECEIPT)


@receipt_group.command()
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
@click.option("--jwks", required=True, metavar="FILE|URL", help="The broker's public keys, such as its /jwks.json.")
@click.option("--issuer", metavar="URL", help="The broker that it must be of.")
@click.option("--json", "as_json", is_flag=True, help="What it says, as JSON.")
def verify(file: Path, jwks: str, issuer: str | None, *, as_json: bool) -> None:
    """Check a signed receipt, or an answer that holds one, against the broker's public keys; needs no broker."""
    text = _statement_in(_read(file), file)
    found = verify_receipt(text, _keys(jwks))
    if isinstance(found, Refusal):
        click.echo(f"broker: no receipt of these keys: {found.wire.says}: {shown(found.detail)}", err=True)
        sys.exit(REFUSED)
    if issuer is not None and found.statement.issuer != issuer:
        click.echo(f"broker: a receipt of another broker, {shown(found.statement.issuer)}", err=True)
        sys.exit(REFUSED)
    _print(found, text, as_json=as_json)


def _print(found: VerifiedReceipt, text: str, *, as_json: bool) -> None:
    statement = found.statement
    if as_json:
        from broker.domain.revocation.statement import statement_claims

        click.echo(json.dumps({**statement_claims(statement), "statement": text}, indent=2, ensure_ascii=False))
        return
    told = statement.revocation
    click.echo(f"signed by {shown(statement.issuer)} with the key {shown(found.kid)}")
    who = f" by {shown(told.by)}" if told.by else ""
    at = f" at {shown(told.at)}" if told.at else ""
    click.echo(f"revoked {', '.join(map(shown, told.revoked))}{at}{who}, at {spell_point(told.point)}")
    for line in (*receipt_lines(statement), *conclusion_of(statement)):
        click.echo(line)


def _read(file: Path) -> str:
    try:
        raw = sys.stdin.buffer.read(_MAX_FILE_BYTES + 1) if str(file) == "-" else _bytes(file)
        if len(raw) > _MAX_FILE_BYTES:
            raise ConfigurationError(f"{file}: over {_MAX_FILE_BYTES} bytes; a receipt was expected")
        return raw.decode("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigurationError(f"{file}: {why}; a file with a receipt was expected") from None


def _bytes(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(_MAX_FILE_BYTES + 1)


def _statement_in(text: str, file: Path) -> str:
    """The signed statement: the text itself, or a member of the answer of a command that waited."""
    if not text.startswith("{"):
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise ConfigurationError(f"{file}: not JSON; a receipt, or an answer that holds one, was expected") from None
    receipt = value.get("receipt", value)
    found = receipt.get("statement") if isinstance(receipt, dict) else None
    if not isinstance(found, str) or len(found) > MAX_RECEIPT_BYTES:
        raise ConfigurationError(f"{file}: holds no receipt; was it answered to a command with --wait --json?")
    return found


def _keys(source: str) -> KeySet:
    raw = _fetch(source) if source.startswith(("http://", "https://")) else _read(Path(source)).encode()
    found = parse_jwks(raw)
    if isinstance(found, JwksError):
        raise ConfigurationError(f"--jwks {source}: {found.problem}")
    return found


def _fetch(url: str) -> bytes:
    from broker.adapters.jwks.fetch import fetch_jwks, open_client
    from broker.engines.key_cache import KeysUnreadableError

    async def get() -> bytes:
        async with open_client() as client:
            return await fetch_jwks(client, url)

    try:
        return asyncio.run(get())
    except KeysUnreadableError as error:
        raise ConfigurationError(f"--jwks {url}: {error}") from None
