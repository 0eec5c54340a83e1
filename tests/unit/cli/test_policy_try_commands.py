"""`broker policy test` and `explain`: what they print, and how they exit."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from broker.adapters.mcpclient import listing
from broker.cli.policy import policy_group
from broker.domain.errors import ConfigurationError
from click.testing import CliRunner

from policy_folder_parts import ASKED, Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "policies")


def run(*arguments: str | Path, stdin: str = ""):
    return CliRunner().invoke(policy_group, [str(one) for one in arguments], input=stdin)


PERMIT = f"  - name: an analyst reads\n{ASKED}    permit: [db:read]\n"
WRONG = f"  - name: an analyst writes\n{ASKED}    permit: [db:write]\n"
NOWHERE = PERMIT.replace("task: report", "task: reprot")


@pytest.mark.parametrize(("cases", "exit_code"), [(PERMIT, 0), (PERMIT + WRONG, 1), (WRONG + NOWHERE, 3)])
def test_the_exit_says_whether_cases_passed_failed_or_cannot_be_tried(folder, cases, exit_code):
    folder.cases(cases)
    assert run("test", folder.path, "--no-mutations").exit_code == exit_code


def test_no_case_at_all_does_not_pass(folder):
    for path in (folder.path / "tests").iterdir():
        path.unlink()
    result = run("test", folder.path, "--no-mutations")
    assert result.exit_code == 3
    assert "there is no case to try" in result.output


def test_a_tool_without_cases_is_named(folder):
    folder.cases(PERMIT)
    assert "files.read has no case at all" in run("test", folder.path, "--no-mutations").output
    result = run("test", folder.path, "--no-mutations", "--tool", "files.read")
    assert result.exit_code == 3


def test_a_tool_that_is_not_there_is_unusable(folder):
    result = run("test", folder.path, "--tool", "db.qurey")
    assert result.exit_code == 3
    assert "there is no tool db.qurey; tools here: db.query" in result.output


def test_a_folder_that_is_no_policy_is_unusable(folder):
    folder.edit("db.query.yaml", "tool: db.query", "tool: db.query\ncolour: red")
    result = run("test", folder.path)
    assert result.exit_code == 3
    assert "db.query.yaml:3" in result.output


def test_a_failure_shows_what_was_expected_what_came_why_and_where(folder):
    asked = ASKED.replace("query: select 1", "query: select 1, mode: write")
    folder.cases(f"  - name: an analyst writes\n{asked}    permit: [db:write]\n")
    said = run("test", folder.path, "--no-mutations").output
    assert said.startswith(
        "tests/db.query.yaml:3:5: failed: an analyst writes\n"
        "  3 |   - name: an analyst writes\n"
        "    |     ^\n"
        "  expected a permit with db:write\n"
        "  got: the refusal scope_not_in_task: these arguments need db:write, which the task report does not grant;"
    )
    assert "  why: db.query@3/tasks/report/scopes lacks db:write\n" in said
    assert "  at: db.query.yaml:22:9\n" in said
    assert "  mend: " in said


def test_strict_fails_where_a_change_goes_unnoticed(folder):
    folder.cases(PERMIT)
    assert run("test", folder.path, "--tool", "db.query").exit_code == 0
    result = run("test", folder.path, "--tool", "db.query", "--strict")
    assert result.exit_code == 1
    assert "report is open to everybody" in result.output


def test_a_long_list_of_what_no_case_shows_is_cut_short_unless_it_is_asked_for(folder):
    folder.cases(PERMIT)
    said = run("test", folder.path, "--no-mutations").output
    assert "more: --verbose names them" in said
    assert len(said.split("\n")) < 40
    assert "somebody whom fraud keeps out" not in said
    assert "somebody whom fraud keeps out" in run("test", folder.path, "--no-mutations", "--verbose").output


def test_what_is_proposed_can_be_pasted(folder):
    folder.cases(PERMIT)
    said = run("test", folder.path, "--tool", "db.query", "--verbose").output
    pasted = [line for line in said.split("\n") if line.startswith(("  - name: ", "    "))]
    assert pasted
    folder.add_cases("db.query", "\n".join(pasted))
    again = run("test", folder.path, "--tool", "db.query", "--strict")
    assert again.exit_code == 0, again.output


def test_programs_get_json(folder):
    folder.cases(PERMIT)
    said = json.loads(run("test", folder.path, "--format", "json", "--no-mutations").output)
    assert said["passed"] is True
    assert said["coverage"]["version"] == {"reached": 1, "all": 9}
    assert said["untested"][0] == "files.read"


ASK = ("--tool", "db.query", "--version", "3")
WHO = ("--client", "reporting-mcp", "--claim", "groups=analysts")


def test_explain_exits_by_the_outcome(folder):
    def explain(*arguments: str | Path, stdin: str = ""):
        return run("explain", "--policies", folder.path, *ASK, *arguments, stdin=stdin)

    assert explain(*WHO, "--task", "report", "--args", '{"query": "x"}').exit_code == 0
    assert explain(*WHO, "--task", "migrate", "--args", '{"query": "x"}').exit_code == 1
    opened = explain("--args", '{"query": "x"}')
    assert opened.exit_code == 0
    assert "such as the client reporting-mcp, groups dba: permit for migrate with db:read" in opened.output


def test_arguments_come_from_a_file_or_from_standard_input(folder, tmp_path):
    (tmp_path / "arguments.json").write_text('{"query": "x", "mode": "write"}')
    ask = ("explain", "--policies", folder.path, *ASK, *WHO, "--task", "report", "--args")
    assert "refused, scope_not_in_task" in run(*ask, f"@{tmp_path / 'arguments.json'}").output
    assert "refused, scope_not_in_task" in run(*ask, "-", stdin='{"query": "x", "mode": "write"}').output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--tool", "db.qurey"), "there is no tool db.qurey; tools here: db.query"),
        (("--tool", "db.query"), "name a --version; db.query has 3, 4"),
        (("--tool", "db.query", "--version", "9"), "db.query has no version 9; it has 3, 4"),
        ((*ASK, "--args", "{"), "--args: "),
        ((*ASK, "--args", '{"query": "a", "query": "b"}'), "twice"),
        ((*ASK, "--args", "[]"), "--args: "),
        ((*ASK, "--args", "@nowhere.json"), "No such file"),
        ((*ASK, "--claim", "group=a"), "claims here: groups"),
        ((*ASK, "--claim", "groups"), "NAME=VALUE was expected"),
    ],
)
def test_a_question_about_what_is_not_there_is_unusable(folder, arguments, said):
    result = run("explain", "--policies", folder.path, *arguments)
    assert result.exit_code == 3
    assert said in result.output


def test_without_the_client_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp.client.stdio", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'mayfly-broker\[fastmcp\]'"):
        listing.list_over_stdio(["server"])
