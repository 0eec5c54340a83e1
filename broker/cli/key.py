"""`broker key …`: the broker's signing keys, over the admin API."""

from __future__ import annotations

import json

import click

from broker.cli.admin_client import AdminClient, Answer
from broker.cli.version import admin_options, wait_option
from broker.cli.waiting import run_waiting


@click.group("key")
def key_group() -> None:
    """The keys that the broker signs with."""


@key_group.command("list")
@admin_options
def list_keys(client: AdminClient, *, as_json: bool) -> None:
    """Show which keys sign, verify or are retired."""
    answer = client.call("GET", "/admin/keys")
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    for key in answer["keys"]:
        click.echo(f"{key['kid']}  {key['state']:<8}  {key['alg'] or ''}")


@key_group.command("rotate")
@admin_options
def rotate(client: AdminClient, *, as_json: bool) -> None:
    """Make a new signing key. What was signed before stays good until it expires."""
    answer = client.call("POST", "/admin/keys/rotate")
    click.echo(json.dumps(answer, indent=2) if as_json else f"{answer['kid']} signs from now on")


@key_group.command("revoke")
@click.argument("kid")
@click.option("--reason", required=True, help="Why; it stands in the audit log.")
@wait_option
@admin_options
def revoke(client: AdminClient, kid: str, reason: str, *, wait: bool, as_json: bool) -> None:
    """Void everything that was signed with the key KID, whenever; the broker signs with another from then on."""
    known = {key["kid"]: key["state"] for key in client.call("GET", "/admin/keys")["keys"]}
    if kid not in known:
        raise click.UsageError(f"the broker has no key {kid}; `broker key list` shows them")
    body = {"kind": "key", "names": {"kid": kid}, "reason": reason}
    if wait:
        what = f"the revocation of {kid}"
        run_waiting(client, "POST", "/admin/revocations", what=what, show=_show_revoked, as_json=as_json, body=body)
        return
    answer = client.call("POST", "/admin/revocations", body=body)
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    _show_revoked(answer)


def _show_revoked(answer: Answer) -> None:
    for scope in answer["revoked"]:
        click.echo(f"{scope.removeprefix('key:')} is revoked, at gen {answer['gen']} seq {answer['seq']}")
