"""What was found before is said again only where nothing that it rests on has changed, and never what stayed unknown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from broker.adapters.policyfile.folder import load_tree
from broker.adapters.schemas.arithmetic import Arithmetic, open_arithmetic
from broker.domain.canonical import JsonValue
from broker.domain.policy.findings import Report
from broker.services.checking import PolicyChecker

from rules_parts import TODAY, TOOL, excepted, inputs, needs, said, task, version, write_folder

BOTH = inputs(["mode"], mode=["read", "write"])
SCOPES = {"files:read": True, "files:write": needs("mode", "write")}
VERSIONS = {
    "1": version(BOTH, scopes=SCOPES),
    "2": version(inputs(["mode"], mode=["read"]), scopes=SCOPES),
}


class Memory:
    """Remembers, and counts what it was asked for and could give."""

    def __init__(self) -> None:
        self.held: dict[str, JsonValue] = {}
        self.given = 0

    def get(self, key: str) -> JsonValue:
        self.given += key in self.held
        return self.held.get(key)

    def put(self, key: str, answer: JsonValue) -> None:
        self.held[key] = answer


@pytest.fixture(scope="module")
def arithmetic() -> Iterator[Arithmetic]:
    made = open_arithmetic(None)
    yield made
    made.close()


@pytest.fixture
def memory() -> Memory:
    return Memory()


def check(folder: Path, arithmetic: Arithmetic, memory: Memory | None, *, base: Path | None = None) -> Report:
    old = load_tree(base, with_keys=False, label="base") if base is not None else None
    checker = PolicyChecker(arithmetic, before=memory)
    return checker.check(load_tree(folder, with_keys=False), base=old, today=TODAY)


def test_the_same_folder_gives_the_same_report_without_another_look(
    tmp_path: Path, arithmetic: Arithmetic, memory: Memory
) -> None:
    folder = write_folder(tmp_path / "policy", VERSIONS)
    first = check(folder, arithmetic, memory)
    assert ("lockstep.scope-kept", "files:write") in said(first)
    assert memory.given == 0
    assert check(folder, arithmetic, memory) == first == check(folder, arithmetic, None)
    assert memory.given == 1


@pytest.mark.parametrize("name", [f"{TOOL}.yaml", f"tests/{TOOL}.yaml", f"contracts/{TOOL}/2.json", "base"])
def test_any_change_of_text_is_looked_at_again(
    tmp_path: Path, arithmetic: Arithmetic, memory: Memory, name: str
) -> None:
    folder = write_folder(tmp_path / "policy", VERSIONS)
    check(folder, arithmetic, memory)
    base = write_folder(tmp_path / "base", {"1": VERSIONS["1"]}) if name == "base" else None
    if base is None:
        (folder / name).write_text("\n" + (folder / name).read_text())
    after = check(folder, arithmetic, memory, base=base)
    assert memory.given == 0
    assert after == check(folder, arithmetic, None, base=base)


@pytest.mark.parametrize(
    ("before", "after"), [("strict", "reach"), ("tenant: default", "tenant: default\ndefaults: {ttl: 90s}")]
)
def test_what_trust_says_of_it_is_part_of_what_was_found(
    tmp_path: Path, arithmetic: Arithmetic, memory: Memory, before: str, after: str
) -> None:
    folder = write_folder(tmp_path / "policy", VERSIONS)
    check(folder, arithmetic, memory)
    trust = folder / "trust.yaml"
    trust.write_text(trust.read_text().replace(before, after))
    check(folder, arithmetic, memory)
    assert memory.given == 0


def test_exceptions_are_read_each_time(tmp_path: Path, arithmetic: Arithmetic, memory: Memory) -> None:
    old = version(BOTH, scopes=SCOPES, tasks={"work": task("files:read", "files:write", ttl="60s")})
    new = version(BOTH, scopes=SCOPES, tasks={"work": task("files:read", "files:write", ttl="90s")})
    folder = write_folder(tmp_path / "policy", {"1": old, "2": new})
    assert said(check(folder, arithmetic, memory)) == {("scope.widened", "work/ttl")}
    approved = [excepted("scope.widened", "2", "ann", "bob")]
    write_folder(tmp_path / "other", {"1": old, "2": new}, exceptions=approved)
    (tmp_path / "other" / "exceptions.yaml").rename(folder / "exceptions.yaml")
    assert said(check(folder, arithmetic, memory)) == set()
    assert memory.given == 1


def test_what_stayed_unknown_is_asked_again(tmp_path: Path, arithmetic: Arithmetic, memory: Memory) -> None:
    hard = [
        {"type": "string", "pattern": pattern}
        for pattern in ("^(?=[a-z]*q)[a-z]{1,30}$", "^(?=[a-z]*z)[a-z]{1,29}(?<!qq)$")
    ]
    versions = {str(n): version(inputs(["note"], note=one), scopes={"a:b": True}) for n, one in enumerate(hard, 1)}
    folder = write_folder(tmp_path / "policy", versions)
    assert check(folder, arithmetic, memory).undecided
    assert memory.held == {}


@pytest.mark.parametrize("rubbish", [[], {"v": 2}, {"v": 1, "findings": [{}], "exceptions": [], "counts": {}}, "x"])
def test_what_cannot_be_read_is_found_again(
    tmp_path: Path, arithmetic: Arithmetic, memory: Memory, rubbish: JsonValue
) -> None:
    folder = write_folder(tmp_path / "policy", VERSIONS)
    first = check(folder, arithmetic, memory)
    memory.held = dict.fromkeys(memory.held, rubbish)
    assert check(folder, arithmetic, memory) == first
