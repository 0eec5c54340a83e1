"""A policy folder on disk: reads every file once, and gives a whole lawful policy or every problem.

1. `*.yaml` in the folder: `trust.yaml`, `exceptions.yaml`, and one file for each tool. `*.yml` is reported, since it
   would look like policy and not be read. Hidden files are left alone.
2. `tests/*.yaml` are read for their form, `contracts/**.json` for the tools that name them.
3. Key files that `trust.yaml` names are there and are JWK Sets of public keys.
4. Every contract and every `needed_when` compiles.

Nothing that a folder can hold makes it raise anything but `PolicyInvalidError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from broker.adapters.policyfile.document import MAX_BYTES, read_document
from broker.domain.contracts.contract import ContractError
from broker.domain.ids import ToolName
from broker.domain.policy.document import Policy, ToolPolicy
from broker.domain.policy.located import Located, PolicyInvalidError, Problem, Problems
from broker.domain.policy.parse import PolicyFiles, parse_policy
from broker.domain.policy.tree import PolicyTree
from broker.domain.schema.dialect import unescape
from broker.domain.tokens.keys import JwksError
from broker.engines.arguments import VersionMatcher
from broker.engines.jwk import parse_jwks

TRUST: Final = "trust.yaml"
EXCEPTIONS: Final = "exceptions.yaml"
MAX_FILES: Final = 10_000


def load_policy(folder: Path, *, with_keys: bool = True) -> Policy:
    """The policy of a folder. Raises `PolicyInvalidError` with every problem of every file.

    with_keys: key files must be there; where policy is only reviewed, they are not.
    """
    return load_tree(folder, with_keys=with_keys).policy


def load_tree(folder: Path, *, with_keys: bool = True, label: str = "") -> PolicyTree:
    """The folder with everything that rules and reviewers look at. Raises as `load_policy` does.

    label: `base` for the old one of two trees.
    """
    reading = _Reading(folder.absolute(), with_keys=with_keys)
    tree = reading.read(label)
    if tree is None or reading.problems.found:
        raise PolicyInvalidError(tuple(sorted(reading.shown(), key=lambda one: (one.file, one.line, one.column))))
    return tree


class PolicyFolder:
    """A `PolicySource` over a folder. Making one reads the folder and raises `PolicyInvalidError`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tree = load_tree(folder)

    def current(self) -> Policy:
        return self._tree.policy

    def tree(self) -> PolicyTree:
        return self._tree

    def read(self) -> PolicyTree:
        read = load_tree(self._folder)
        tenant = self._tree.policy.tenant
        if read.policy.tenant != tenant:
            said = f"this broker runs for the tenant {tenant}, not for {read.policy.tenant}"
            mend = "take the change back, or restart the broker"
            raise PolicyInvalidError((Problem(TRUST, 0, 0, "/tenant", "trust.tenant", said, mend),))
        return read

    def adopt(self, tree: PolicyTree) -> None:
        self._tree = tree


class _Reading:
    """One reading of one folder."""

    def __init__(self, folder: Path, *, with_keys: bool) -> None:
        self.problems = Problems()
        self._with_keys = with_keys
        self._folder = folder
        self._lines: dict[str, list[str]] = {}

    def read(self, label: str) -> PolicyTree | None:
        try:
            names = sorted(entry.name for entry in self._folder.iterdir())
        except OSError as error:
            self._report("", "file.missing", f"the folder cannot be read: {error.strerror}", "name a policy folder")
            return None
        tools = {}
        for name in names:
            if name.startswith(".") or name in (TRUST, EXCEPTIONS):
                continue
            if name.endswith(".yml"):
                self._report(name, "file.name", "files that end in .yml are not read", "let it end in .yaml")
            elif name.endswith(".yaml"):
                root = self._document(name)
                if root is not None:
                    tools[name] = root
        if TRUST not in names:
            self._report(TRUST, "file.missing", "there is no trust.yaml", "say there who may talk to the broker")
        trust = self._document(TRUST) if TRUST in names else None
        files = PolicyFiles(
            base=str(self._folder),
            trust=trust,
            tools=tools,
            tests={name: root for name in self._below("tests", ".yaml") if (root := self._document(name)) is not None},
            contracts={
                name: content
                for name in self._below("contracts", ".json")
                if (content := self._content(name)) is not None
            },
            exceptions=self._document(EXCEPTIONS) if EXCEPTIONS in names else None,
        )
        parsed = parse_policy(files, self.problems)
        self._check_key_files(parsed.key_files)
        self._check_engines(parsed.tools, tools)
        if parsed.policy is None:
            return None
        return PolicyTree(
            policy=parsed.policy,
            roots={tool: tools[f"{tool}.yaml"] for tool in parsed.tools if f"{tool}.yaml" in tools},
            tests=parsed.tests,
            cases=parsed.cases,
            exceptions=parsed.exceptions,
            contracts={name: content.decode("utf-8", "replace") for name, content in files.contracts.items()},
            lines={name: tuple(lines) for name, lines in self._lines.items()},
            label=label,
            trust=trust,
        )

    def shown(self) -> Iterator[Problem]:
        """The problems with the lines they stand on; a line that could hold a secret is not shown."""
        for problem in self.problems.found:
            lines = self._lines.get(problem.file, [])
            line = lines[problem.line - 1].rstrip("\r") if 0 < problem.line <= len(lines) else ""
            hidden = "secret" in line.lower() or "secret" in problem.pointer or len(line) > 200
            yield problem if hidden else replace(problem, source=line.replace("\t", " "))

    def _report(self, file: str, rule: str, message: str, mend: str) -> None:
        self.problems.add(Problem(file or str(self._folder), 0, 0, "", rule, message, mend))

    def _below(self, folder: str, suffix: str) -> list[str]:
        top = self._folder / folder
        found = sorted(
            path.relative_to(self._folder).as_posix()
            for path in top.rglob(f"*{suffix}")
            if not any(part.startswith(".") for part in path.relative_to(top).parts)
        )
        if len(found) > MAX_FILES:
            self._report(folder, "file.count", f"{len(found)} files, at most {MAX_FILES} are read", "split the folder")
        return found[:MAX_FILES]

    def _content(self, name: str) -> bytes | None:
        path = self._folder / name
        try:
            # Asked before the file is opened: opening a pipe would wait for a writer.
            if not path.is_file():
                self._report(name, "file.unreadable", "this is not a file", "put a file there, or take it away")
                return None
            size = path.stat().st_size
            if size > MAX_BYTES:
                self._report(name, "file.size", f"{size} bytes, at most {MAX_BYTES} are read", "split it")
                return None
            return path.read_bytes()
        except OSError as error:
            self._report(name, "file.unreadable", f"the file cannot be read: {error.strerror}", "check its rights")
            return None

    def _document(self, name: str) -> Located | None:
        content = self._content(name)
        if content is None:
            return None
        self._lines[name] = content.decode("utf-8", "replace").removeprefix("\ufeff").split("\n")
        return read_document(content, file=name, problems=self.problems)

    def _check_key_files(self, key_files: tuple[tuple[str, Located], ...]) -> None:
        for path, node in key_files if self._with_keys else ():
            content = _key_file(Path(path))
            if content is None:
                message = f"the key file {node.value} is not there or cannot be read"
                self.problems.report(node, "trust.keys", message, mend="make one with `broker keygen`")
            elif isinstance(found := parse_jwks(content), JwksError):
                message = f"{node.value} holds no public keys: {found.problem}"
                mend = "name a JWK Set, such as the .json file that `broker keygen` writes"
                self.problems.report(node, "trust.keys", message, mend=mend)

    def _check_engines(self, tools: Mapping[ToolName, ToolPolicy], roots: Mapping[str, Located]) -> None:
        for tool in tools.values():
            root = roots.get(f"{tool.tool}.yaml")
            for version in tool.versions.values():
                try:
                    VersionMatcher(version)
                except ContractError as error:
                    place = _place_of(root, str(version.version), str(error).partition(": ")[0])
                    if place is not None:
                        mend = "mend the contract" if place.pointer.endswith("contract") else "mend the condition"
                        self.problems.report(place, "schema.unusable", str(error), mend=mend)
                    else:
                        self._report(f"{tool.tool}.yaml", "schema.unusable", str(error), "mend it")


def _key_file(path: Path) -> bytes | None:
    try:
        if not path.is_file():  # asked before it is opened: opening a pipe would wait for a writer
            return None
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError:
        return None


def _place_of(root: Located | None, version: str, pointer: str) -> Located | None:
    """Where a version says what could not be compiled: as far along the pointer as it is said there, not taken over."""
    versions = root.get("versions") if root is not None else None
    node = versions.get(version) if versions is not None else None
    if node is None or pointer.startswith("/inputSchema"):
        return None if node is None else node.get("contract") or node
    for step in pointer.split("/")[1:]:
        items = node.items()
        name = unescape(step)
        below = items[int(step)] if step.isdecimal() and int(step) < len(items) else node.get(name)
        if below is None:
            break
        node = below
    return node
