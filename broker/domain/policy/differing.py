"""What differs between two versions, two contracts, or two whole folders, ready to be told.

Two folders are compared version by version:

| a version that                    | is told as                                                            |
|-----------------------------------|-----------------------------------------------------------------------|
| the new folder alone has          | the step from its predecessor: as the old folder has it, where it does    |
| the new folder alone has, first   | new: everything that it grants                                           |
| both have, and differs            | edited in place                                                         |
| the old folder alone has          | gone                                                                    |

What is the same in both is not told.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from broker.domain.contracts.contract import ToolContract
from broker.domain.contracts.contract_changes import ChangeClass
from broker.domain.ids import ToolName, Version
from broker.domain.policy.document import VersionPolicy
from broker.domain.policy.findings import Place
from broker.domain.policy.grant_changes import GrantChange
from broker.domain.policy.tree import PolicyTree
from broker.domain.schema.answers import Related
from broker.domain.schema.changes import Change


@dataclass(frozen=True, slots=True)
class ToldChange:
    """A change of a contract, where it stands, and the sentence about it."""

    change: Change
    words: str
    place: Place


@dataclass(frozen=True, slots=True)
class ToldGrant:
    """A difference in what is granted, and where it stands."""

    grant: GrantChange
    place: Place


@dataclass(frozen=True, slots=True)
class Differing:
    """Two things compared.

    old, new: what they are called. how: `step`, `edited` (one version, changed in place), `contracts`.
    raw, closed: the relation of the inputs, open and as the gate accepts them.
    scopes:   what became of the scopes; empty where only contracts are compared.
    """

    old: str
    new: str
    how: str
    raw: Related
    closed: Related
    change_class: ChangeClass
    changes: tuple[ToldChange, ...]
    scopes: str = ""
    grants: tuple[ToldGrant, ...] = ()

    @property
    def differs(self) -> bool:
        """Whether anything is to be told."""
        return bool(self.changes or self.grants)


@dataclass(frozen=True, slots=True)
class Appearing:
    """A version that only one folder has, and no predecessor to compare it with. gone: it is the old one."""

    version: VersionPolicy
    gone: bool
    place: Place


@dataclass(frozen=True, slots=True)
class ContractText:
    """A contract and the text that it was read from."""

    contract: ToolContract
    file: str
    text: str


@dataclass(frozen=True, slots=True)
class Step:
    """Two versions to compare, and the trees that say them."""

    old: VersionPolicy
    old_tree: PolicyTree
    new: VersionPolicy
    new_tree: PolicyTree
    how: str


def steps_between(old: PolicyTree, new: PolicyTree) -> Iterator[Step | Appearing]:
    """What is to be compared between two folders, in the order of the new one; then what is gone."""
    for tool, policy in new.policy.tools.items():
        for number, version in policy.versions.items():
            published = old.version(tool, number)
            if published is not None:
                if _says(published) != _says(version):
                    yield Step(published, old, version, new, "edited")
                continue
            before = _before(old, new, tool, number)
            if before is None:
                yield Appearing(version, gone=False, place=new.place(tool, number))
            else:
                yield Step(before[0], before[1], version, new, "step")
    for tool, policy in old.policy.tools.items():
        for number, version in policy.versions.items():
            if new.version(tool, number) is None:
                yield Appearing(version, gone=True, place=old.place(tool, number))


def _says(version: VersionPolicy) -> tuple[object, ...]:
    """All that can be told of a version by itself."""
    return version.contract.digest, version.audience, version.arguments, version.scopes, version.tasks


def _before(
    old: PolicyTree, new: PolicyTree, tool: ToolName, number: Version
) -> tuple[VersionPolicy, PolicyTree] | None:
    named = new.predecessor(tool, number)
    if named is None:
        known = old.policy.tools.get(tool)
        named = list(known.versions)[-1] if known is not None and known.versions else None
    for tree in (old, new):
        found = tree.version(tool, named)
        if found is not None:
            return found, tree
    return None
