"""`broker policy init`: skeleton policies for a running MCP server, which let nobody in until a person has decided.

| exit | means                                                                               |
|------|-------------------------------------------------------------------------------------|
| 0    | the files are written and load                                                       |
| 1    | they are, but some tools got none; each is named with the reason                       |
| 3    | nothing was written: the server could not be asked, or a file would be overwritten    |
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from broker.adapters.mcpclient.listing import MAX_BYTES, MAX_TOOLS, list_over_http, list_over_stdio
from broker.adapters.policyfile.beginning import existing_trust, existing_versions, write_files
from broker.adapters.policyfile.folder import load_tree
from broker.domain.canonical import JsonError, JsonValue, parse_json
from broker.domain.contracts.contract import ContractError, ToolContract
from broker.domain.errors import ConfigurationError
from broker.domain.policy.form import RESOURCE
from broker.domain.policy.located import PolicyInvalidError
from broker.domain.policy.skeleton import parse_listing
from broker.engines.arguments import ArgumentValidator
from broker.services.beginning import Beginning, Folder, Wanted, begin

PARTLY: Final = 1
UNUSABLE: Final = 3
_MAX_TOKEN_BYTES: Final = 65_536
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")


@click.command("init")
@click.option(
    "--from", "source", metavar="URL|FILE", help="The server's URL, or a saved tools/list result (- reads it)."
)
@click.option("--stdio", is_flag=True, help="Start the server as a process: --stdio -- COMMAND ….")
@click.option("--out", type=click.Path(path_type=Path), default=Path("policies"), show_default=True, metavar="DIR")
@click.option("--tool", "patterns", multiple=True, metavar="PATTERN", help="Only these tools; * stands for anything.")
@click.option("--audience", metavar="URI", help="The resource that credentials are good for (RFC 8707).")
@click.option("--token-file", type=click.Path(path_type=Path), metavar="FILE", help="Holds a token for the server.")
@click.option("--force", is_flag=True, help="Overwrite what is there; trust.yaml is left alone all the same.")
@click.argument("command", nargs=-1)
def policy_init(
    source: str | None,
    stdio: bool,
    out: Path,
    patterns: tuple[str, ...],
    audience: str | None,
    token_file: Path | None,
    force: bool,
    command: tuple[str, ...],
) -> None:
    """Begin a policy with what a server lists: its contracts as served, and everything else for a person to decide."""
    if stdio is not bool(command) or (source is None) is not stdio:
        raise click.UsageError("either --from URL|FILE, or --stdio -- COMMAND …")
    if audience is not None and not re.fullmatch(RESOURCE.pattern, audience):
        raise click.UsageError(f"--audience: {RESOURCE.expected} was expected")
    try:
        listed = list_over_stdio(command) if source is None else _listed(source, token_file)
        if len(listed) > MAX_TOOLS:
            raise ConfigurationError(f"{len(listed)} tools, at most {MAX_TOOLS} are read; save a list with fewer")
        folder = Folder(existing_trust(out), existing_versions(out))
        is_url = source is not None and source.startswith(("http://", "https://"))
        wanted = Wanted(patterns, audience, source if is_url else None, force)
        made = begin(listed, folder, wanted, unusable=_unusable)
        write_files(out, made.files, force=force)
    except (ConfigurationError, PolicyInvalidError) as error:
        click.echo(f"broker: {error}", err=True)
        sys.exit(UNUSABLE)
    for line in _said(made, out):
        click.echo(line)
    if made.files or made.unchanged:
        try:
            load_tree(out, with_keys=False)
        except PolicyInvalidError as error:
            click.echo(f"the folder does not load yet\n{error}", err=True)
            sys.exit(UNUSABLE)
    if made.passed or not (made.files or made.unchanged):
        sys.exit(PARTLY)


def _listed(source: str, token_file: Path | None) -> list[JsonValue]:
    if source.startswith(("http://", "https://")):
        return list_over_http(source, token=_token(token_file) if token_file is not None else None)
    if token_file is not None:
        raise ConfigurationError("--token-file is for a URL")
    try:
        if source == "-":
            content = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with Path(source).open("rb") as file:
                content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ConfigurationError(f"{source}: more than {MAX_BYTES} bytes")
        found = parse_listing(parse_json(content))
    except OSError as error:
        raise ConfigurationError(f"{source}: {error.strerror}") from None
    except JsonError as error:
        raise ConfigurationError(f"{source}: {error}") from None
    if isinstance(found, str):
        raise ConfigurationError(f"{source}: {found}")
    return found


def _token(path: Path) -> str:
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_TOKEN_BYTES).decode("ascii", "replace").strip()
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from None
    if not _TOKEN.fullmatch(text):
        raise ConfigurationError(f"{path}: one token was expected, and nothing else")
    return text


def _unusable(contract: ToolContract) -> str | None:
    try:
        ArgumentValidator(contract)
    except ContractError as error:
        return str(error)
    return None


def _said(made: Beginning, out: Path) -> Iterator[str]:
    if made.begun:
        yield f"{len(made.begun)} tools begun in {out}; they let nobody in yet"
    for tool in made.unchanged:
        yield f"{tool}: its file has this contract already"
    for one in made.passed:
        yield f"{one.name}: no files: {one.why}"
    for addition in made.stanzas:
        yield f"{addition.file} is there already; its new contract was written. Add under versions, and decide:"
        yield addition.text
    if made.uncovered:
        shown = ", ".join(made.uncovered[:5]) + (", …" if len(made.uncovered) > 5 else "")
        yield f"trust.yaml: no client may act for {shown}; add them to the tools of one, and to an issuer's ceiling"
    if made.begun:
        yield "next:"
        if "trust.yaml" in made.files:
            yield f"  broker keygen --out {out}/keys mcp-server"
        yield f"  grep -rn 'decide:' {out}"
        yield f"  broker policy check --without-keys {out}"
        yield "  check asks for decisions alone: argument.undeclared where an argument can be a permission,"
        yield "  argument.separator, contract.anything, and test.missing until a case is permitted"
