"""The texts of refusals, byte by byte: one file a case in `tests/vectors/refusals`, with the policy folder and what is printed.

A case is an archive of small files: `-- policy/… --` is the folder, `-- base/… --` the one it is compared with, `-- expected --`
the text. `UPDATE_REFUSALS=1` writes the texts anew; read the difference before it is kept.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker.adapters.policyfile.folder import load_tree
from broker.adapters.schemas.arithmetic import Arithmetic, open_arithmetic
from broker.cli.report_text import finding_as_text, problems_as_text, report_as_text
from broker.domain.policy.findings import Report, RuleId, Severity
from broker.domain.policy.located import PolicyInvalidError
from broker.services.checking import PolicyChecker

from rules_parts import TODAY, TRUST

FOLDER = Path(__file__).parents[2] / "vectors" / "refusals"
CASES = sorted(FOLDER.glob("*.txt"))
UPDATE = os.environ.get("UPDATE_REFUSALS") == "1"
EXPECTED = "expected"
# What these rules say is shown by an input, a value or a scope. The others are about text that is there or is not.
WITNESSED = {
    RuleId.LOCKSTEP_SCOPE_KEPT,
    RuleId.LOCKSTEP_SCHEMA_KEPT,
    RuleId.SCOPE_MISSING,
    RuleId.ARGUMENT_UNDECLARED,
    RuleId.ARGUMENT_SEPARATOR,
    RuleId.CONTRACT_ANYTHING,
}


@pytest.fixture(scope="module")
def arithmetic() -> Iterator[Arithmetic]:
    made = open_arithmetic(None)
    yield made
    made.close()


def read(case: Path) -> dict[str, str]:
    """The files of an archive; what stands before the first is for people."""
    parts = re.split(r"^-- (\S+) --\n", case.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def unpack(files: dict[str, str], folder: Path) -> None:
    for name, text in files.items():
        if name != EXPECTED:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    for tree in folder.iterdir():
        if not (tree / "trust.yaml").exists():
            (tree / "trust.yaml").write_text(TRUST.format(lockstep="strict"))


def check(case: Path, folder: Path, arithmetic: Arithmetic) -> tuple[str, Report | None]:
    unpack(read(case), folder)
    base = folder / "base"
    try:
        old = load_tree(base, with_keys=False, label="base") if base.exists() else None
        tree = load_tree(folder / "policy", with_keys=False)
    except PolicyInvalidError as error:
        return problems_as_text(error.problems, folder="policy"), None
    report = PolicyChecker(arithmetic).check(tree, base=old, today=TODAY)
    return report_as_text(report, folder="policy", base="base" if old is not None else ""), report


@pytest.mark.parametrize("case", CASES, ids=[case.stem for case in CASES])
def test_a_refusal_says_what_it_said(case: Path, tmp_path: Path, arithmetic: Arithmetic) -> None:
    files = read(case)
    text, report = check(case, tmp_path, arithmetic)
    if UPDATE:
        head = case.read_text().split(f"-- {EXPECTED} --\n")[0]
        case.write_text(f"{head}-- {EXPECTED} --\n{text}\n")
    else:
        assert text + "\n" == files[EXPECTED]
    rule = case.stem.split("--")[0]
    assert rule in text
    for finding in report.findings if report is not None else ():
        said = finding_as_text(finding, folder="policy")
        assert re.match(rf"\S+:\d+:\d+( \(base\))?: {re.escape(finding.rule)}: ", said), said
        assert len(finding.what) > 10
        if finding.severity is Severity.EXCEPTED:
            continue
        assert f"\n  mend: {finding.mend}" in said
        assert f"\n  why:  {finding.why}" in said
        assert finding.has_witness or finding.rule not in WITNESSED
        assert finding.has_witness == ("\n  witness: " in said)


def test_there_is_a_case_for_every_rule() -> None:
    assert {case.stem.split("--")[0] for case in CASES} == {rule.value for rule in RuleId}


def test_an_archive_that_is_changed_is_noticed(tmp_path: Path, arithmetic: Arithmetic) -> None:
    text, _ = check(CASES[0], tmp_path, arithmetic)
    assert text.replace("mend", "fix") + "\n" != read(CASES[0])[EXPECTED]
