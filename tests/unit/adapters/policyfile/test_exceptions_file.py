"""An exception is put behind what stands in the file; nothing else in it changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from broker.adapters.policyfile.exceptions_file import (
    read_exceptions_file,
    with_exception,
    write_exceptions_file,
)
from broker.domain.errors import ConfigurationError
from broker.domain.policy.exceptions import PolicyException
from broker.domain.policy.located import Located

NODE = Located(None, "exceptions.yaml", 0, 0, "")
ADDED = PolicyException(
    "scope.widened", "db.query", "4", "tasks/report", 'said "yes": agreed', ("ann", "bob"), "2027-01-31", NODE
)
WRITTEN = """\
  - rule: scope.widened
    tool: "db.query"
    version: "4"
    key: "tasks/report"
    reason: "said \\"yes\\": agreed"
    approved_by: ["ann", "bob"]
    expires: "2027-01-31"
"""
ENTRY = '- {rule: scope.dead, tool: a.b, version: "1", reason: why, approved_by: [cy], expires: "2027-01-01"}'


def test_a_new_file_holds_the_entry():
    assert with_exception("", ADDED) == f"exceptions:\n{WRITTEN}"


def test_comments_order_and_spelling_of_what_is_there_stay():
    text = f"# reviewed on Mondays\nexceptions:\n  # the oldest\n  {ENTRY}  # soon\n  # last words\n"
    assert with_exception(text, ADDED) == text + WRITTEN


def test_the_indentation_is_that_of_the_last_entry():
    made = with_exception(f"exceptions:\n{ENTRY}", ADDED)
    assert made.startswith(f"exceptions:\n{ENTRY}\n- rule: scope.widened\n  tool:")


def test_line_ends_are_those_of_the_file():
    made = with_exception(f"exceptions:\r\n  {ENTRY}\r\n", ADDED)
    assert made.count("\r\n") == made.count("\n") == 9


@pytest.mark.parametrize(
    "text", [f"exceptions: [{ENTRY[2:]}]\n", '{"exceptions": []}', f"exceptions:\n  {ENTRY}\n...\n"]
)
def test_a_list_with_no_place_behind_it_is_left_alone(text: str):
    with pytest.raises(ConfigurationError, match=r"write it yourself|cannot be read"):
        with_exception(text, ADDED)


@pytest.mark.parametrize(
    "broken",
    [
        PolicyException("no.rule", "db.query", "4", None, "why", ("ann",), "2027-01-31", NODE),
        PolicyException("scope.dead", "db.query", "4", None, "a\nb: c", ("ann",), "2027-01-31", NODE),
        PolicyException("scope.dead", "db.query", "4", None, "why", ("an n", "b"), "2027-01-31", NODE),
        PolicyException("scope.dead", "db.query", "4", None, "why", ("ann",), "soon", NODE),
    ],
)
def test_what_would_not_be_an_entry_is_not_written(broken: PolicyException):
    with pytest.raises(ConfigurationError, match="the entry is none"):
        with_exception(f"exceptions:\n  {ENTRY}\n", broken)


def test_the_file_is_exchanged_whole_with_its_rights_and_through_a_link(tmp_path: Path):
    real = tmp_path / "elsewhere.yaml"
    real.write_text("exceptions: []\n")
    real.chmod(0o640)
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "exceptions.yaml").symlink_to(real)
    write_exceptions_file(folder, "new\r\n")
    assert (folder / "exceptions.yaml").is_symlink()
    assert real.read_bytes() == b"new\r\n"
    assert real.stat().st_mode & 0o777 == 0o640
    assert read_exceptions_file(folder) == "new\r\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere.yaml", "policies"]


def test_no_file_is_no_text(tmp_path: Path):
    assert read_exceptions_file(tmp_path) == ""
