"""A policy folder as it was read: the policy, and where everything in it is said.

1. A place is where an entry is really said: what a version takes over by `extends` stands in the version it comes from.
2. What is not said anywhere is shown at the nearest thing above it that is.
3. A line that may hold a secret is not shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker.domain.contracts.json_places import line_and_column
from broker.domain.ids import ToolName, Version
from broker.domain.policy.cases import PolicyCase
from broker.domain.policy.document import Policy, VersionPolicy
from broker.domain.policy.exceptions import PolicyException
from broker.domain.policy.findings import Place
from broker.domain.policy.located import Entry, Located
from broker.domain.schema.dialect import unescape

_TAKEN_OVER = ("contract", "digest", "arguments", "scopes", "tasks")


@dataclass(frozen=True, slots=True)
class PolicyTree:
    """One folder. label: `base` for the old one of two, else empty; it goes into every place.

    roots:     by tool, the root of its file. tests: by tool, the root of its test file. trust: the root of `trust.yaml`.
    contracts: by file name relative to the folder, the text of the contract.
    """

    policy: Policy
    roots: Mapping[ToolName, Located]
    tests: Mapping[ToolName, Located]
    cases: Mapping[ToolName, tuple[PolicyCase, ...]]
    exceptions: tuple[PolicyException, ...]
    contracts: Mapping[str, str]
    lines: Mapping[str, tuple[str, ...]]
    label: str = ""
    trust: Located | None = None

    def version(self, tool: ToolName, version: Version | None) -> VersionPolicy | None:
        """A version of a tool, where the folder has it."""
        found = self.policy.tools.get(tool)
        return found.versions.get(version) if found is not None and version is not None else None

    def predecessor(self, tool: ToolName, version: Version) -> Version | None:
        """The version that another one of the same file follows: what it replaces, else extends, else what stands before.

        Two that name each other follow neither: what leads back to the version itself is passed over.
        """
        if self._written(tool, version) is None:
            return None
        named = self._named(tool, version)
        if named is not None and version not in self._chain(tool, named):
            return named
        found = list(self.policy.tools[tool].versions)
        before = found[: found.index(version)] if version in found else []
        return next((one for one in reversed(before) if version not in self._chain(tool, one)), None)

    def heads(self, tool: ToolName, *, before: Version | None = None) -> tuple[Version, ...]:
        """The versions that no other one follows: what is newest on each line. before: only of those that stand above it."""
        tool_policy = self.policy.tools.get(tool)
        found = list(tool_policy.versions) if tool_policy is not None else []
        if before is not None:
            found = found[: found.index(before)] if before in found else []
        followed = {self.predecessor(tool, one) for one in found}
        return tuple(one for one in found if one not in followed)

    def _named(self, tool: ToolName, version: Version) -> Version | None:
        written = self._written(tool, version)
        named = (written.text("replaces") or written.text("extends")) if written is not None else None
        return Version(named) if named is not None and named in self.policy.tools[tool].versions else None

    def _chain(self, tool: ToolName, version: Version) -> set[Version]:
        """The version and all that it names, and those name."""
        seen: set[Version] = set()
        at: Version | None = version
        while at is not None and at not in seen:
            seen.add(at)
            at = self._named(tool, at)
        return seen

    def place(self, tool: ToolName, version: Version | None, pointer: str = "") -> Place:
        """Where a version says something; `pointer` is relative to the version, such as `/tasks/report/ttl`."""
        root = self.roots.get(tool)
        if root is None:
            return Place(f"{tool}.yaml", tree=self.label)
        if version is None:
            return self.at(root)
        found = self._find(tool, version, tuple(pointer.split("/")[1:]), ())
        return self.at(found[0] if found is not None else root)

    def trust_place(self, pointer: str = "") -> Place:
        """Where `trust.yaml` says something; `pointer` is relative to the file, such as `/clients/reporting-mcp/tools`."""
        if self.trust is None:
            return Place("trust.yaml", tree=self.label)
        steps = tuple(pointer.split("/")[1:])
        return self.at(_deepest(Entry(self.trust, self.trust), steps)[0])

    def contract_place(self, tool: ToolName, version: Version, pointer: str = "") -> Place:
        """Where the contract of a version says something; `pointer` is relative to the contract."""
        at = self.place(tool, version, "/contract")
        name = self.contract_name(tool, version)
        text = self.contracts.get(name or "")
        if name is None or text is None:
            return at
        line, column = line_and_column(text, pointer)
        return Place(name, line, column, pointer, self.source(name, line), self.label)

    def at(self, node: Located) -> Place:
        """The place of a node."""
        source = self.source(node.file, node.line, node.pointer)
        return Place(node.file, node.line, node.column, node.pointer, source, self.label)

    def source(self, file: str, line: int, pointer: str = "") -> str:
        """The text of a line, as far as it may be shown."""
        lines = self.lines.get(file, ())
        text = lines[line - 1].rstrip("\r").replace("\t", " ") if 0 < line <= len(lines) else ""
        return "" if "secret" in text.lower() or "secret" in pointer or len(text) > 200 else text

    def _written(self, tool: ToolName, version: Version) -> Located | None:
        root = self.roots.get(tool)
        versions = root.get("versions") if root is not None else None
        return versions.get(version) if versions is not None else None

    def contract_name(self, tool: ToolName, version: Version) -> str | None:
        """The file of a version's contract, as the version or one that it extends names it."""
        seen: set[str] = set()
        name: str | None = version
        while name is not None and name not in seen:
            seen.add(name)
            written = self._written(tool, Version(name))
            if written is None:
                return None
            stated = written.text("contract")
            if stated is not None:
                return stated
            name = written.text("extends")
        return None

    def _find(
        self, tool: ToolName, version: Version, steps: tuple[str, ...], seen: tuple[Version, ...]
    ) -> tuple[Located, int] | None:
        root = self.roots.get(tool)
        versions = root.get("versions") if root is not None else None
        entry = versions.entries().get(version) if versions is not None else None
        if entry is None:
            return None
        found = _deepest(entry, steps)
        parent = entry.value.text("extends")
        if found[1] < min(len(steps), 2) and steps[0] in _TAKEN_OVER and parent is not None and version not in seen:
            above = self._find(tool, Version(parent), steps, (*seen, version))
            if above is not None and above[1] > found[1]:
                return above
        return found


def _deepest(entry: Entry, steps: tuple[str, ...]) -> tuple[Located, int]:
    """The key, or list member, that lies furthest along the steps, and how many steps that is."""
    found, node, depth = entry.key, entry.value, 0
    for step in steps:
        name = unescape(step)
        below = node.entries().get(name)
        items = node.items()
        if below is not None:
            found, node = below.key, below.value
        elif name.isdecimal() and int(name) < len(items):
            found = node = items[int(name)]
        else:
            member = next((item for item in items if item.value == name), None)
            if member is None:
                break
            found = node = member
        depth += 1
    return found, depth
