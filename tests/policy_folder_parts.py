"""A policy folder that a test can change: the shipped one, without keys."""

from __future__ import annotations

import shutil
from pathlib import Path

from broker.adapters.policyfile.folder import load_tree
from broker.app.arguments import CompiledArguments
from broker.domain.policy.tree import PolicyTree
from broker.services.policy_test import PolicyTester, TestRun

SHIPPED = Path(__file__).parents[1] / "policies"

ASKED = """\
    request:
      version: "3"
      task: report
      client: reporting-mcp
      issuer: http://127.0.0.1:8421
      claims: {groups: [analysts]}
      arguments: {query: select 1}
"""


class Folder:
    """A copy of the shipped policies."""

    def __init__(self, path: Path) -> None:
        self.path = path
        shutil.copytree(SHIPPED, path)

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.path / name).read_text()
        assert old in text, f"{name} does not hold {old!r}"
        (self.path / name).write_text(text.replace(old, new, 1))

    def cases(self, text: str, tool: str = "db.query") -> None:
        """The cases of a tool, in place of the shipped ones; all other tests are taken away."""
        shutil.rmtree(self.path / "tests")
        (self.path / "tests").mkdir()
        (self.path / "tests" / f"{tool}.yaml").write_text(f"tool: {tool}\ncases:\n{text}")

    def add_cases(self, tool: str, text: str) -> None:
        with (self.path / "tests" / f"{tool}.yaml").open("a") as file:
            file.write(text if text.endswith("\n") else text + "\n")

    def load(self) -> PolicyTree:
        return load_tree(self.path, with_keys=False)

    def run(self, *, mutations: bool = False) -> TestRun:
        return PolicyTester(CompiledArguments()).run(self.load(), mutations=mutations)
