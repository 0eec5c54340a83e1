"""`broker revoke`: everything in a revocation scope at once, over the admin API."""

from __future__ import annotations

from typing import Any

import click

from broker.cli.admin_client import AdminClient
from broker.cli.version import admin_options, show_answer, wait_option
from broker.cli.waiting import run_waiting
from broker.domain.errors import Refusal
from broker.domain.revocation.request import KINDS, parse_revocation_scope


class NameParameter(click.ParamType[tuple[str, str]]):
    """`name=value`."""

    name = "name=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        name, equals, given = str(value).partition("=")
        if not (name and equals and given):
            self.fail(f"{value!r}: name=value was expected, such as account=alice", param, ctx)
        return name, given


@click.command()
@click.argument("kind", type=click.Choice(sorted(KINDS)))
@click.argument("names", nargs=-1, type=NameParameter(), metavar="[NAME=VALUE]...")
@click.option("--reason", required=True, help="Why; it stands in the audit log.")
@wait_option
@admin_options
def revoke(
    client: AdminClient, kind: str, names: tuple[tuple[str, str], ...], reason: str, *, wait: bool, as_json: bool
) -> None:
    """Void every credential of a KIND: `revoke account issuer=https://idp.example account=alice --reason …`.

    \b
    everything
    key         kid=…
    tool        tool=…
    client      client=…
    agent       issuer=… agent=…
    account     issuer=… account=…
    pair        issuer=… agent=… account=…
    chain       jti=…   (of the first credential)
    credential  jti=…

    A version is revoked by `broker version rollback` or `retire`.
    """
    given = dict(names)
    refused = parse_revocation_scope(kind, given)
    if len(given) != len(names):
        raise click.UsageError("a name is given twice")
    if isinstance(refused, Refusal):
        raise click.UsageError(refused.detail)
    body = {"kind": kind, "names": given, "reason": reason}
    if not wait:
        show_answer(client.call("POST", "/admin/revocations", body=body), as_json=as_json)
        return
    what = f"the revocation of {kind}"
    run_waiting(client, "POST", "/admin/revocations", what=what, show=show_answer, as_json=as_json, body=body)
