"""`broker docs` prints the pages that come with the package."""

from __future__ import annotations

from pathlib import Path

import pytest
from broker.cli.main import cli
from broker.domain.policy.findings import RuleId
from click.testing import CliRunner

DOCS = Path(__file__).parents[3] / "broker" / "docs"


@pytest.mark.parametrize("name", ["errors", *(rule.value for rule in RuleId)])
def test_a_page_is_printed_as_it_stands(name: str):
    done = CliRunner().invoke(cli, ["docs", name])
    assert (done.exit_code, done.output) == (0, (DOCS / f"{name}.md").read_text())


def test_without_a_name_all_are_listed():
    listed = CliRunner().invoke(cli, ["docs"]).output.split()
    assert listed == sorted(path.stem for path in DOCS.glob("*.md"))


@pytest.mark.parametrize("name", ["lockstep.alon", "../../pyproject", "/etc/passwd", ""])
def test_what_is_no_page_is_refused(name: str):
    done = CliRunner().invoke(cli, ["docs", name])
    assert done.exit_code == 3
    assert done.output.startswith("there is no page")
