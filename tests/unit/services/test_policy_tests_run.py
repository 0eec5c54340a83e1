"""The policy's own tests: a case passes for the right reason or not at all, and what no case shows is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from broker.app.arguments import CompiledArguments
from broker.cli.policy_test_output import as_json, as_text
from broker.domain.policy.case_text import spell_case
from broker.domain.policy.mutants import mutants
from broker.domain.policy.trials import Status
from broker.services.policy_test import PolicyTester

from policy_folder_parts import ASKED, Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "policies")


def the_result(folder: Folder, text: str, tool: str = "db.query"):
    folder.cases(text, tool)
    (result,) = folder.run().results
    return result


def test_a_case_that_comes_out_as_it_says_is_ok(folder):
    result = the_result(folder, f"  - name: an analyst reads\n{ASKED}    permit: [db:read]\n")
    assert result.status is Status.OK
    assert result.decided is not None
    assert result.decided.rule == "tasks/report"


@pytest.mark.parametrize(
    ("expected", "departs"),
    [
        ("permit: [db:read, db:write]", "expected the scopes db:read db:write; what is granted lacks db:write"),
        ("permit: [db:write]", "expected the scopes db:write; what is granted lacks db:write and has db:read too"),
        ("refuse: task_not_allowed", "expected the refusal task_not_allowed"),
        ("permit: [db:read]\n    ttl: 30s", "expected a life of 30 seconds, it is 60"),
        ("permit: [db:read]\n    uses: 1", "expected 1 uses, there are any number"),
        (
            "permit: [db:read]\n    rule: tasks/migrate",
            "expected the rule tasks/migrate to decide, it was tasks/report",
        ),
    ],
)
def test_a_case_that_comes_out_otherwise_fails_and_says_how(folder, expected, departs):
    result = the_result(folder, f"  - name: an analyst reads\n{ASKED}    {expected}\n")
    assert (result.status, result.departs) == (Status.FAILED, departs)
    assert result.mend


def test_what_is_stated_beside_the_scopes_is_met(folder):
    stated = "    permit: [db:read]\n    ttl: 1m\n    rule: tasks/report\n"
    assert the_result(folder, f"  - name: an analyst reads\n{ASKED}{stated}").status is Status.OK


def test_a_refusal_for_another_reason_does_not_pass(folder):
    asked = ASKED.replace("query: select 1", "query: select 1, mode: write")
    result = the_result(folder, f"  - name: an analyst writes\n{asked}    refuse: task_not_allowed\n")
    assert result.status is Status.FAILED
    assert result.outcome.reason == "scope_not_in_task"
    assert result.decided.rule == "tasks/report/scopes"


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ('version: "3"', 'version: "9"', "version 9"),
        ("task: report", "task: reprot", "task reprot"),
        ("query: select 1", "query: select 1, qeury: x", "argument qeury"),
        ("client: reporting-mcp", "client: reporting", "client reporting"),
        ("issuer: http://127.0.0.1:8421", "issuer: http://127.0.0.1:9999", "issuer http://127.0.0.1:9999"),
        ("groups: [analysts]", "group: [analysts]", "claim group"),
        ("refuse: task_not_allowed", "refuse: task_not_alowed", "never refuses with task_not_alowed"),
    ],
)
def test_a_case_that_names_what_is_not_there_is_unusable_even_where_it_would_pass(folder, old, new, names):
    text = f"  - name: nobody\n{ASKED}    refuse: task_not_allowed\n"
    result = the_result(folder, text.replace(old, new))
    assert result.status is Status.UNUSABLE
    assert names in result.departs


def test_a_test_file_for_a_tool_that_is_not_there_is_unusable(folder):
    result = the_result(folder, f"  - name: nobody\n{ASKED}    refuse: tool_unknown\n", tool="db.qurey")
    assert result.status is Status.UNUSABLE
    assert result.departs == "there is no tool db.qurey"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('version: "3"', 'version: "9"', "version_unknown"),
        ("task: report", "task: reprot", "task_unknown"),
        ("query: select 1", "query: select 1, qeury: x", "arguments_invalid"),
        ("client: reporting-mcp", "client: reporting", "client_not_permitted"),
        ("issuer: http://127.0.0.1:8421", "issuer: http://127.0.0.1:9999", "token_issuer_unknown"),
    ],
)
def test_a_case_may_expect_to_be_refused_for_what_is_not_there(folder, old, new, reason):
    text = f"  - name: nobody\n{ASKED}    refuse: {reason}\n".replace(old, new)
    assert the_result(folder, text).status is Status.OK


def test_what_no_case_shows_is_named_with_its_place(folder):
    folder.cases(f"  - name: an analyst reads\n{ASKED}    permit: [db:read]\n")
    missed = {(one.version, one.goal.words): str(one.place) for one in folder.run().reach if not one.goal.reached}
    assert missed["3", "a permit for the task migrate"] == "db.query.yaml:24:7"
    assert missed["3", "somebody whom report keeps out"] == "db.query.yaml:21:9"
    assert missed["3", "arguments that need db:write"] == "db.query.yaml:16:9"
    assert ("3", "a permit for the task report") not in missed
    assert ("3", "arguments that do not need db:write") not in missed
    assert missed["4", "any request of version 4"] == "db.query.yaml:29:3"


def test_a_case_that_fails_reaches_nothing(folder):
    folder.cases(f"  - name: an analyst reads\n{ASKED}    permit: [db:write]\n")
    assert [one for one in folder.run().reach if one.goal.reached] == []


def test_every_rule_that_a_test_shows_is_missed_when_it_is_gone(folder):
    run = folder.run(mutations=True)
    unnoticed = {one.mutant.words for one in run.told}
    assert run.mutants > 150
    # report reads and does not write, in the shipped tests
    assert "report grants db:write too" not in unnoticed
    assert "migrate is open to everybody" not in unnoticed
    assert "every input needs db:write" not in unnoticed
    assert "the scope files:read:{/path} is just files:read" not in unnoticed


def test_a_change_that_the_cases_notice_is_no_survivor_of_either_sort(folder):
    survived = {one.mutant.words for one in folder.run(mutations=True).survivors}
    noticed = {
        "no input needs db:write",
        "every input needs db:write",
        "no input needs db:read",
        "report is open to nobody",
        "migrate does not grant db:write",
        "the scope k8s:exec:{/namespace}:{/pod} is just k8s:exec:{/namespace}",
    }
    assert survived & noticed == set()


def test_an_unnoticed_change_comes_with_the_case_that_would_notice_it(folder):
    folder.cases(f"  - name: an analyst reads\n{ASKED}    permit: [db:read]\n")
    found = {one.mutant.words: spell_case(one.telling) for one in folder.run(mutations=True).told}
    proposed = found["report is open to everybody"]
    assert "refuse: task_not_allowed" in proposed
    assert "claims" not in proposed


def test_with_the_proposed_cases_nothing_goes_unnoticed(folder):
    run = folder.run(mutations=True)
    assert run.told
    for one in run.told:
        folder.add_cases(one.mutant.version.tool, spell_case(one.telling))
    again = folder.run(mutations=True)
    assert [result.case.name for result in again.results if result.status is not Status.OK] == []
    assert [one.mutant.words for one in again.told] == []


def test_every_mutant_differs_from_the_version_and_from_the_other_mutants(folder):
    tree = folder.load()
    for tool in tree.policy.tools.values():
        for version in tool.versions.values():
            made = list(mutants(version, tree.policy, {"groups": frozenset(("dba", "elsewhere"))}))
            assert len({(one.operator, one.pointer, one.words) for one in made}) == len(made)
            for one in made:
                same = one.version == version and one.always is one.never is None
                assert not same, one.words


def test_the_same_folder_gives_the_same_text(folder):
    tree = folder.load()
    first, second = (as_text(PolicyTester(CompiledArguments()).run(tree), tree, verbose=True) for _ in range(2))
    assert first == second


def test_programs_get_places_and_outcomes(folder):
    folder.cases(f"  - name: an analyst writes\n{ASKED}    permit: [db:write]\n")
    tree = folder.load()
    said = as_json(PolicyTester(CompiledArguments()).run(tree, mutations=False), tree)
    (case,) = said["cases"]
    assert said["passed"] is False
    assert (case["file"], case["line"], case["status"], case["permit"]) == (
        "tests/db.query.yaml",
        3,
        "failed",
        ["db:read"],
    )
