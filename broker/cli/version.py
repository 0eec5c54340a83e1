"""`broker version …`: the life of versions, over the admin API."""

from __future__ import annotations

import datetime
import functools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from broker.cli.admin_client import AdminClient, RefusedError
from broker.cli.report_text import finding_as_text
from broker.cli.waiting import run_waiting
from broker.domain.ids import split_version_id
from broker.domain.policy.report_wire import read_report

Command = TypeVar("Command", bound=Callable[..., None])
REFUSED: Final = 1


def admin_options(command: Command) -> Command:
    """Options with which every command reaches the admin API; the command gets a client."""

    @click.option("--url", default="http://127.0.0.1:8420", show_default=True, envvar="BROKER_URL", help="Broker.")
    @click.option("--issuer", envvar="BROKER_ISSUER", help="The broker's issuer, where --url is one replica's address.")
    @click.option("--admin", required=True, envvar="BROKER_ADMIN", help="Administrator in trust.yaml.")
    @click.option(
        "--key",
        required=True,
        envvar="BROKER_ADMIN_KEY",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Private key (PEM).",
    )
    @click.option("--json", "as_json", is_flag=True, help="Answer as JSON.")
    @functools.wraps(command)
    def wrapped(*args: Any, url: str, issuer: str | None, admin: str, key: Path, **options: Any) -> None:
        try:
            command(AdminClient(url.rstrip("/"), admin, key, issuer), *args, **options)
        except RefusedError as error:
            click.echo(f"broker: {error}", err=True)
            raise SystemExit(REFUSED) from None

    return wrapped  # type: ignore[return-value]


class VersionParameter(click.ParamType[tuple[str, str]]):
    """`tool@version`."""

    name = "tool@version"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        found = split_version_id(value) if isinstance(value, str) else None
        if found is None:
            self.fail(f"{value!r}: tool@version was expected, such as db.query@4", param, ctx)
        return found


VERSION: Final = VersionParameter()


class PercentParameter(click.ParamType[float]):
    """A share in percent, to two decimals."""

    name = "percent"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value).removesuffix("%")
        if not re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,2})?", text) or float(text) > 100:
            self.fail(f"{value!r}: a number from 0 to 100 with at most two decimals was expected", param, ctx)
        return float(text)


PERCENT: Final = PercentParameter()


@click.group("version")
def version_group() -> None:
    """Publish, roll out, roll back and retire versions of tools."""


def wait_option(command: Command) -> Command:
    """`--wait`, of a command that revokes."""
    return click.option("--wait", is_flag=True, help="Until no verifier can accept any more what is revoked.")(command)


def show_answer(answer: dict[str, Any], *, as_json: bool = False) -> None:
    """What a command did."""
    if as_json:
        click.echo(json.dumps(answer, indent=2, ensure_ascii=False))
        return
    if not answer["changed"]:
        click.echo("nothing to change")
    for record in answer["versions"]:
        click.echo(describe_version(record))
    for scope in answer["revoked"]:
        which = "signed with it" if scope.startswith("key:") else f"with rseq below {answer['seq']}"
        click.echo(f"revoked {scope}: every credential {which} is dead")
    if answer.get("replicas"):
        click.echo(f"replicas of the store that have it: {answer['replicas']}")
    recorded = answer.get("recorded_by")
    if recorded and 2 * recorded["replicas"] <= recorded["of"]:
        click.echo(
            f"on record at {recorded['replicas']} of {recorded['of']} replicas so far; should the store be lost before a majority "
            "has it, and this replica with it, repeat the command"
        )
    if answer.get("replicas") == 0:
        click.echo("no replica of the store has it yet; if the primary is lost now, it is replayed from the audit log")


def describe_version(record: dict[str, Any]) -> str:
    """One line for one version."""
    parts = [f"{record['tool']}@{record['version']}", record["state"]]
    cohort = record["cohort"]
    if record["state"] == "canary":
        shares = [*cohort["principals"], *([f"{cohort['weight'] / 100:g} %"] if cohort["weight"] else [])]
        parts.append(f"for {', '.join(shares) or 'nobody'}")
    if record["sunset"]:
        parts.append(f"sunset {datetime.datetime.fromtimestamp(record['sunset'], datetime.UTC):%Y-%m-%d}")
    if record["advisory"]:
        parts.append(f"advisory {record['advisory']}")
    return "  ".join(parts)


def _run(
    client: AdminClient, version: tuple[str, str], command: str, *, as_json: bool, wait: bool = False, **body: Any
) -> None:
    tool, number = version
    given = {name: value for name, value in body.items() if value not in (None, (), False)}
    path = f"/admin/versions/{tool}/{number}/{command}"
    if not wait:
        show_answer(client.call("POST", path, body=given), as_json=as_json)
        return
    run_waiting(
        client, "POST", path, what=f"{command} of {tool}@{number}", show=show_answer, as_json=as_json, body=given
    )


@version_group.command()
@click.argument("version", type=VERSION)
@admin_options
def publish(client: AdminClient, version: tuple[str, str], as_json: bool) -> None:
    """Publish a version of the loaded policy; its contract and policy are frozen with it."""
    _run(client, version, "publish", as_json=as_json)


@version_group.command()
@click.argument("version", type=VERSION)
@click.option("--principal", "principals", multiple=True, help="Account or agent that gets the canary; repeatable.")
@click.option("--weight", "weight_percent", type=PERCENT, help="Share of all others, in percent.")
@admin_options
def canary(
    client: AdminClient,
    version: tuple[str, str],
    principals: tuple[str, ...],
    weight_percent: float | None,
    as_json: bool,
) -> None:
    """Serve a version to some principals; again after a rollback, with the same contract."""
    _run(client, version, "canary", as_json=as_json, principals=principals, weight_percent=weight_percent)


@version_group.command()
@click.argument("version", type=VERSION)
@admin_options
def promote(client: AdminClient, version: tuple[str, str], as_json: bool) -> None:
    """Make a version the stable one; its predecessor becomes deprecated."""
    _run(client, version, "promote", as_json=as_json)


@version_group.command()
@click.argument("version", type=VERSION)
@click.option("--force", is_flag=True, help="Even if no version is left to serve.")
@wait_option
@admin_options
def rollback(client: AdminClient, version: tuple[str, str], *, force: bool, wait: bool, as_json: bool) -> None:
    """Take a version back: every credential tied to it is dead at once."""
    _run(client, version, "rollback", as_json=as_json, wait=wait, force=force)


@version_group.command()
@click.argument("version", type=VERSION)
@click.option("--sunset", help="Date after which it may be retired, at least 12 months away.")
@click.option("--advisory", help="Security advisory; the sunset may then be 90 days away.")
@admin_options
def deprecate(
    client: AdminClient, version: tuple[str, str], sunset: str | None, advisory: str | None, as_json: bool
) -> None:
    """Announce the end of a version; it is served until it is retired."""
    _run(client, version, "deprecate", as_json=as_json, sunset=sunset, advisory=advisory)


@version_group.command()
@click.argument("version", type=VERSION)
@click.option("--emergency", metavar="REASON", help="At once, from any served state.")
@wait_option
@admin_options
def retire(client: AdminClient, version: tuple[str, str], emergency: str | None, *, wait: bool, as_json: bool) -> None:
    """End a version after its sunset, or at once: every credential tied to it is dead."""
    _run(client, version, "retire", as_json=as_json, wait=wait, emergency=emergency)


@version_group.command("list")
@click.option("--tool", help="Only this tool.")
@admin_options
def list_versions(client: AdminClient, tool: str | None, as_json: bool) -> None:
    """All versions and their states."""
    answer = client.call("GET", "/admin/versions", query={"tool": tool} if tool else None)
    if as_json:
        click.echo(json.dumps(answer, indent=2, ensure_ascii=False))
        return
    for record in answer["versions"]:
        click.echo(describe_version(record))
    if not answer["versions"]:
        of_tool = f" of {tool}" if tool else ""
        click.echo(f"no version{of_tool} was published yet; `broker version publish tool@version` does it")


@version_group.command()
@click.argument("version", type=VERSION)
@admin_options
def show(client: AdminClient, version: tuple[str, str], as_json: bool) -> None:
    """One version: state, digests, contract."""
    tool, number = version
    answer = client.call("GET", f"/admin/versions/{tool}/{number}")
    if as_json:
        click.echo(json.dumps(answer, indent=2, ensure_ascii=False))
        return
    click.echo(describe_version(answer))
    click.echo(f"contract  {answer['contract']}")
    click.echo(f"policy    {answer['policy']}")
    if not answer["loaded"]:
        click.echo("the loaded policy is not the one that this version was published with: the version is refused")
    if answer["members"] is not None:
        click.echo(json.dumps(answer["members"], indent=2, ensure_ascii=False))


@click.command("reload")
@admin_options
def policy_reload(client: AdminClient, as_json: bool) -> None:
    """Have a running broker load its policy folder again; if the rules refuse it, the policy in force stays."""
    answer = client.call("POST", "/admin/policy/reload")
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    click.echo(f"policy {answer['policy']} is in force")
    for version in answer["narrowed"]:
        click.echo(f"{version} lost access; what was granted before is dead")
    for version in answer["edited"]:
        click.echo(f"{version} is refused: the loaded policy is not the one it was published with")
    report = read_report(answer["report"])
    for finding in report.findings if report is not None else ():
        click.echo("\n" + finding_as_text(finding))
