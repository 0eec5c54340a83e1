"""`broker policy diff`: what differs between two contracts, two versions or two folders, in words that a reviewer reads.

| OLD and NEW                     | compared                                                                     |
|---------------------------------|------------------------------------------------------------------------------|
| two `.json` files               | the contracts: inputs, outputs, words; a tool that is called otherwise, too       |
| two `tool@version`              | versions of the folder under `--policies`: contracts, scopes, tasks, arguments     |
| one of each                     | the contracts                                                                 |
| two folders, or revisions of git | every version that differs; a revision is that of the folder under `--policies` |

| exit | means                                                           |
|------|-----------------------------------------------------------------|
| 0    | compared; with `--exit-code`: nothing differs                       |
| 1    | with `--exit-code`: something differs                               |
| 3    | OLD or NEW cannot be read, or they are not of one kind              |
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import click

from broker.adapters.policyfile.folder import load_tree
from broker.app.checking import default_cache, read_base
from broker.cli.policy_diff_output import as_json, as_text
from broker.domain.canonical import JsonError, parse_json
from broker.domain.contracts.contract import ContractError, parse_contract
from broker.domain.errors import ConfigurationError
from broker.domain.ids import ToolName, Version
from broker.domain.policy.differing import Appearing, ContractText, Differing, Step
from broker.domain.policy.document import VersionPolicy
from broker.domain.policy.located import PolicyInvalidError
from broker.domain.policy.tree import PolicyTree

if TYPE_CHECKING:
    from broker.services.telling import Telling

DIFFERS: Final = 1
UNUSABLE: Final = 3
_MAX_CONTRACT_BYTES: Final = 1_048_576

Operand: TypeAlias = "ContractText | VersionPolicy | PolicyTree"


@click.command("diff")
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="[NEW]", required=False)
@click.option(
    "--policies",
    type=click.Path(path_type=Path),
    default=Path("policies"),
    show_default=True,
    metavar="DIR",
    help="The folder that tool@version and revisions are of.",
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--exit-code", is_flag=True, help="Exit 1 where something differs, as git diff does.")
@click.option(
    "--cache",
    type=click.Path(path_type=Path),
    default=default_cache,
    metavar="DIR",
    help="Where answers are remembered.",
)
def policy_diff(old: str, new: str | None, policies: Path, form: str, exit_code: bool, cache: Path | None) -> None:
    """Say what differs between OLD and NEW: two contract files, two TOOL@VERSION, two policy folders or git revisions.

    Without NEW, OLD is compared with the folder under --policies.
    """
    from broker.adapters.schemas.arithmetic import open_arithmetic  # the other commands do without
    from broker.services.telling import Telling

    with ExitStack() as opened:
        try:
            reader = _Reader(policies)
            before, after = reader.read(old, "old"), reader.read(str(policies) if new is None else new, "")
            arithmetic = open_arithmetic(cache)
            opened.callback(arithmetic.close)
            told = list(_compared(Telling(arithmetic), reader, before, after))
        except (PolicyInvalidError, ConfigurationError) as error:
            click.echo(str(error), err=True)
            sys.exit(UNUSABLE)
    differs = any(isinstance(one, Appearing) or one.differs for one in told)
    click.echo(json.dumps(as_json(told), indent=2, ensure_ascii=False) if form == "json" else as_text(told))
    if exit_code and differs:
        sys.exit(DIFFERS)


def _compared(telling: Telling, reader: _Reader, old: Operand, new: Operand) -> Iterator[Differing | Appearing]:
    if isinstance(old, PolicyTree) or isinstance(new, PolicyTree):
        if not (isinstance(old, PolicyTree) and isinstance(new, PolicyTree)):
            raise ConfigurationError("a folder or revision is compared with another, not with a contract or a version")
        yield from telling.folders(old, new)
        return
    if isinstance(old, VersionPolicy) and isinstance(new, VersionPolicy):
        tree = reader.tree()
        yield telling.step(Step(old, tree, new, tree, "step"))
        return
    yield telling.contracts(reader.contract(old), reader.contract(new))


class _Reader:
    """Reads what OLD and NEW name; the folder under `--policies` once, and only where it is needed."""

    def __init__(self, policies: Path) -> None:
        self._policies = policies
        self._tree: PolicyTree | None = None

    def tree(self) -> PolicyTree:
        """The folder under `--policies`."""
        if self._tree is None:
            self._tree = load_tree(self._policies, with_keys=False)
        return self._tree

    def read(self, named: str, label: str) -> Operand:
        """What an operand names: a file, a folder, a version, else a revision."""
        path = Path(named)
        if path.is_dir():
            return load_tree(path, with_keys=False, label=label)
        if path.is_file() or named.endswith(".json"):
            return _contract(path)
        tool, at, number = named.rpartition("@")
        if at and not self._is_revision(named, tool):
            return self._version(tool, number)
        return self._at_revision(named)

    def contract(self, found: ContractText | VersionPolicy) -> ContractText:
        """The contract of a version, with the text it was read from; a contract is its own."""
        if isinstance(found, ContractText):
            return found
        place = self.tree().contract_place(found.tool, found.version)
        return ContractText(found.contract, place.file, self.tree().contracts[place.file])

    def _version(self, tool: str, number: str) -> VersionPolicy:
        found = self.tree().policy.tools.get(ToolName(tool))
        if found is None:
            raise ConfigurationError(f"there is no tool {tool}; tools here: {', '.join(self.tree().policy.tools)}")
        version = found.versions.get(Version(number))
        if version is None:
            raise ConfigurationError(f"{tool} has no version {number}; it has {', '.join(found.versions)}")
        return version

    def _is_revision(self, named: str, tool: str) -> bool:
        """`HEAD@{1}` and the like are git's."""
        return named.endswith("}") and tool not in self.tree().policy.tools

    def _at_revision(self, named: str) -> PolicyTree:
        try:
            found = read_base(self._policies, named)
        except ConfigurationError as error:
            raise ConfigurationError(f"{named} is no contract file, no folder and no TOOL@VERSION; {error}") from None
        if found.tree is None:
            raise ConfigurationError(f"{found.words.partition(',')[0]} does not have the folder {self._policies}")
        return replace(found.tree, label=named)


def _contract(path: Path) -> ContractText:
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_CONTRACT_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None
    if len(content) > _MAX_CONTRACT_BYTES:
        raise ConfigurationError(f"{path}: is larger than {_MAX_CONTRACT_BYTES} bytes")
    try:
        return ContractText(parse_contract(parse_json(content)), str(path), content.decode())
    except (JsonError, ContractError) as error:
        raise ConfigurationError(f"{path}: {error}") from None
