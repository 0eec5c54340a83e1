"""`broker policy explain`: why a request comes out as it does, without a broker.

| exit | means                                                              |
|------|--------------------------------------------------------------------|
| 0    | a permit; or the principal was left open, and it was said who could   |
| 1    | a refusal                                                          |
| 3    | the folder is no lawful policy, or the question names what is not there |
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

import click

from broker.adapters.policyfile.folder import load_tree
from broker.adapters.schemas.arithmetic import open_arithmetic
from broker.app.arguments import CompiledArguments
from broker.cli.policy_explain_output import as_json, as_text
from broker.domain.canonical import JsonError, JsonObject, parse_json_object
from broker.domain.errors import ConfigurationError, Refusal
from broker.domain.ids import ClientId, TaskName, ToolName, Version
from broker.domain.policy.document import VersionPolicy
from broker.domain.policy.located import PolicyInvalidError
from broker.domain.policy.principals import clients_for, issuers_for
from broker.domain.policy.tree import PolicyTree
from broker.domain.policy.trials import Request
from broker.services.explaining import Explainer

REFUSED: Final = 1
UNUSABLE: Final = 3
_MAX_ARGUMENTS_BYTES: Final = 1_048_576


@click.command("explain")
@click.option("--tool", required=True, metavar="TOOL", help="The tool that is called.")
@click.option("--version", "number", metavar="VERSION", help="Its version; may be left out where there is one.")
@click.option("--task", metavar="TASK", help="What the caller intends; left out where it names none.")
@click.option("--args", "arguments", metavar="JSON|@FILE|-", help="The arguments; - reads them from standard input.")
@click.option("--client", metavar="CLIENT", help="The exchanging client; left out: who could is said.")
@click.option("--issuer", metavar="URL", help="The issuer of the subject token; may be left out where there is one.")
@click.option("--claim", "claims", multiple=True, metavar="NAME=VALUE", help="What the subject token says.")
@click.option("--scope", "scopes", multiple=True, metavar="SCOPE", help="A scope that is asked for.")
@click.option("--policies", type=click.Path(path_type=Path), default=Path("policies"), show_default=True, metavar="DIR")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def policy_explain(
    tool: str,
    number: str | None,
    task: str | None,
    arguments: str | None,
    client: str | None,
    issuer: str | None,
    claims: tuple[str, ...],
    scopes: tuple[str, ...],
    policies: Path,
    form: str,
) -> None:
    """Say which rule decides a request, which scopes it needs and why, and what would change the answer."""
    try:
        tree = load_tree(policies, with_keys=False)
        version = _version(tree, tool, number)
        asked = _request(tree, version, task, arguments, client, issuer, claims, scopes)
    except (PolicyInvalidError, ConfigurationError) as error:
        click.echo(str(error), err=True)
        sys.exit(UNUSABLE)
    arithmetic = open_arithmetic(None)
    try:
        explainer = Explainer(tree, CompiledArguments(), arithmetic)
        said = explainer.explain(version, asked, principal_known=asked.client != "" and asked.issuer != "")
    finally:
        arithmetic.close()
    click.echo(json.dumps(as_json(said), indent=2, ensure_ascii=False) if form == "json" else as_text(said))
    if isinstance(said.outcome, Refusal):
        sys.exit(REFUSED)


def _version(tree: PolicyTree, tool: str, number: str | None) -> VersionPolicy:
    found = tree.policy.tools.get(ToolName(tool))
    if found is None:
        raise ConfigurationError(f"there is no tool {tool}; tools here: {', '.join(tree.policy.tools)}")
    known = ", ".join(found.versions)
    if number is None:
        if len(found.versions) != 1:
            raise ConfigurationError(f"name a --version; {tool} has {known}")
        return next(iter(found.versions.values()))
    version = found.versions.get(Version(number))
    if version is None:
        raise ConfigurationError(f"{tool} has no version {number}; it has {known}")
    return version


def _request(
    tree: PolicyTree,
    version: VersionPolicy,
    task: str | None,
    arguments: str | None,
    client: str | None,
    issuer: str | None,
    claims: tuple[str, ...],
    scopes: tuple[str, ...],
) -> Request:
    said = _claims(tree, claims)
    clients = clients_for(version, tree.policy)
    issuers = issuers_for(version, tree.policy, frozenset(said))
    # one who says nothing of a principal wants to know who could; one who says something means the only one there is
    only_client = clients[0] if len(clients) == 1 and claims else ""
    return Request(
        version=version.version,
        client=ClientId(client if client is not None else only_client),
        issuer=issuer if issuer is not None else issuers[0] if len(issuers) == 1 else "",
        task=TaskName(task) if task is not None else None,
        claims=said,
        arguments=_arguments(arguments) if arguments is not None else None,
        requested=frozenset(scopes) if scopes else None,
    )


def _claims(tree: PolicyTree, claims: tuple[str, ...]) -> dict[str, frozenset[str]]:
    known = sorted({name for issuer in tree.policy.issuers.values() for name in issuer.claims.others})
    found: dict[str, frozenset[str]] = {}
    for claim in claims:
        name, equals, value = claim.partition("=")
        if not equals or name not in known:
            raise ConfigurationError(f"--claim {claim}: NAME=VALUE was expected; claims here: {', '.join(known)}")
        found[name] = found.get(name, frozenset()) | {value}
    return found


def _arguments(said: str) -> JsonObject:
    try:
        if said == "-":
            return parse_json_object(sys.stdin.buffer.read(_MAX_ARGUMENTS_BYTES))
        if said.startswith("@"):
            return parse_json_object(Path(said[1:]).read_bytes())
        return parse_json_object(said)
    except JsonError as error:
        raise ConfigurationError(f"--args: {error}") from None
    except OSError as error:
        raise ConfigurationError(f"--args {said}: {error.strerror}") from None
