"""The checker: what it compares with what, in which order it says it, and that it asks nothing twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from broker.adapters.schemas.arithmetic import Arithmetic, open_arithmetic
from broker.domain.canonical import JsonObject
from broker.domain.schema.answers import Answer, Related
from broker.services.checking import PolicyChecker

from rules_parts import TODAY, Rules, both_ways, inputs, needs, said, version

BOTH = inputs(["mode"], mode=["read", "write"])
SCOPES = {"files:read": True, "files:write": needs("mode", "write")}
WIDE = version(BOTH, scopes=SCOPES)
NARROW = version(inputs(["mode"], mode=["read"]), scopes={"files:read": True})


class Counting:
    """The arithmetic, and how often it was asked."""

    def __init__(self, arithmetic: Arithmetic) -> None:
        self._arithmetic = arithmetic
        self.asked = 0

    def relate(self, old: JsonObject, new: JsonObject) -> Related:
        self.asked += 1
        return self._arithmetic.relate(old, new)

    def common(self, schemas: Sequence[JsonObject]) -> Answer:
        self.asked += 1
        return self._arithmetic.common(schemas)

    def accepts(self, schema: JsonObject, value: object) -> bool:
        return self._arithmetic.accepts(schema, value)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def counting() -> Iterator[Counting]:
    arithmetic = open_arithmetic(None)
    yield Counting(arithmetic)
    arithmetic.close()


@pytest.fixture
def rules(counting: Counting, tmp_path: Path) -> Rules:
    return Rules(PolicyChecker(counting), tmp_path)


def test_without_a_base_every_step_in_the_folder_is_looked_at(rules: Rules) -> None:
    report = rules.report({"1": WIDE, "2": NARROW, "3": {**WIDE, "replaces": "2"}})
    assert {(one.version, one.rule.value) for one in report.refused} == {("3", "scope.widened")}
    assert report.counts == {"tools": 1, "versions": 3}


def test_with_a_base_only_what_is_new_is_compared(rules: Rules) -> None:
    grown = {"1": NARROW, "2": WIDE}
    assert said(rules.report(grown, grown)) == set()
    assert ("scope.widened", "work/files:write") in said(rules.report(grown, {"1": NARROW}))


def test_a_tool_that_the_base_does_not_have_starts_with_its_first_version(rules: Rules) -> None:
    assert said(rules.report({"1": WIDE, "2": NARROW})) == set()


def test_findings_have_one_order(rules: Rules) -> None:
    odd = {"files:write": needs("path"), "files:never": False}
    broken = version(inputs(path={"type": "string"}, url={"type": "string"}), scopes=odd)
    report = rules.report({"1": broken}, cases=both_ways("1")[:1])
    places = [(one.place.file, one.place.line, one.place.column, one.rule) for one in report.findings]
    assert len(places) > 3
    assert places == sorted(places)
    assert report == rules.report({"1": broken}, cases=both_ways("1")[:1])


def test_a_version_is_asked_about_once(rules: Rules, counting: Counting) -> None:
    tree = rules.tree({"1": WIDE, "2": WIDE, "3": WIDE})
    checker = PolicyChecker(counting)
    before = counting.asked
    checker.check(tree, base=None, today=TODAY)
    first = counting.asked - before
    checker.check(tree, base=None, today=TODAY)
    assert counting.asked - before - first < first
    for version_ in tree.policy.tools["files.read"].versions.values():  # type: ignore[index]
        assert checker.version(version_).version is version_
