"""A policy folder to break: the shipped one with key files beside it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from broker.adapters.policyfile.folder import load_policy
from broker.domain.policy.document import Policy
from broker.domain.policy.located import PolicyInvalidError, Problem
from broker.engines.jwk import generate_private_key, public_jwk

SHIPPED = Path(__file__).parents[4] / "policies"
KEYS = json.dumps({"keys": [public_jwk(generate_private_key("ES256"), algorithm="ES256")]})


class PolicyTree:
    """A folder whose files a test can replace."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, content: str | bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.folder / name).read_text()
        assert text.count(old) >= 1, f"{name} does not hold {old!r}"
        self.write(name, text.replace(old, new, 1))

    def load(self) -> Policy:
        return load_policy(self.folder)

    def problems(self) -> tuple[Problem, ...]:
        with pytest.raises(PolicyInvalidError) as caught:
            load_policy(self.folder)
        return caught.value.problems

    def rules(self) -> set[str]:
        return {problem.rule for problem in self.problems()}

    def the_problem(self, rule: str) -> Problem:
        found = [problem for problem in self.problems() if problem.rule == rule]
        assert len(found) == 1, [str(problem) for problem in self.problems()]
        return found[0]

    def line_of(self, name: str, text: str) -> int:
        lines = (self.folder / name).read_text().split("\n")
        return next(number for number, line in enumerate(lines, 1) if text in line)


@pytest.fixture
def tree(tmp_path: Path) -> PolicyTree:
    folder = tmp_path / "policies"
    shutil.copytree(SHIPPED, folder)
    for name in re.findall(r"file: (keys/\S+)}", (folder / "trust.yaml").read_text()):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(KEYS)
    return PolicyTree(folder)
