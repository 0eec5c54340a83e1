"""An explanation says which rule decides and where, why each scope is needed, and changes that were really tried."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from broker.app.arguments import CompiledArguments
from broker.cli.policy_explain_output import as_json, as_text
from broker.domain.errors import Refusal
from broker.domain.policy.decide import Permit
from broker.domain.policy.trials import Request
from broker.services.explaining import Explainer

from policy_folder_parts import Folder


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory):
    return Folder(tmp_path_factory.mktemp("explaining") / "policies").load()


def explain(tree, tool="db.query", version="3", *, known=True, **asked):
    request = Request(
        **{
            "version": version,
            "client": "reporting-mcp",
            "issuer": "http://127.0.0.1:8421",
            "task": "report",
            "claims": {"groups": frozenset(("analysts",))},
            "arguments": {"query": "select 1"},
            "requested": None,
            **asked,
        }
    )
    found = tree.policy.tools[tool].versions[version]
    return Explainer(tree, CompiledArguments()).explain(found, request, principal_known=known)


def permits(said):
    return [change.words for change in said.changes if isinstance(change.outcome, Permit)]


@pytest.mark.parametrize(
    ("asked", "reason", "rule", "line"),
    [
        ({"client": "db-api"}, "client_not_permitted", "trust.yaml/clients/db-api/tools", "clients:"),
        ({"issuer": "https://elsewhere.example"}, "token_issuer_unknown", "trust.yaml/issuers", "issuers:"),
        ({"task": "migrate"}, "task_not_allowed", "tasks/migrate/allow", "groups: [dba]"),
        ({"task": "tidy"}, "task_unknown", "tasks", "tasks:"),
        ({"arguments": {"query": ""}}, "arguments_invalid", "contract", "contract: contracts/db.query/3.json"),
        (
            {"arguments": {"query": "x", "mode": "write"}},
            "scope_not_in_task",
            "tasks/report/scopes",
            "scopes: [db:read]",
        ),
        ({"requested": frozenset(("db:write",))}, "scope_not_granted", "tasks/report/scopes", "scopes: [db:read]"),
    ],
)
def test_the_deciding_rule_is_named_with_the_line_that_says_it(tree, asked, reason, rule, line):
    said = explain(tree, **asked)
    assert said.outcome.reason == reason
    assert said.decided.rule == rule
    if not rule.startswith("trust.yaml/clients"):  # db-api has no tools: the nearest thing that is there
        assert line in said.place.source


def test_a_root_is_named_and_a_value_under_it_is_offered(tree):
    said = explain(tree, "files.read", "1", arguments={"path": "/etc/passwd"})
    assert said.decided.rule == "arguments/path/within"
    assert permits(said) == ['with /path "/srv/reports/passwd"']


def test_a_scope_that_is_needed_says_which_argument_makes_it_so(tree):
    said = explain(tree, arguments={"query": "x", "mode": "write"})
    needs = {need.template: (need.needed, need.granted, need.because) for need in said.needs}
    assert needs == {
        "db:read": (True, True, "every input needs it"),
        "db:write": (True, False, "not needed without /mode"),
    }


def test_a_scope_that_is_not_needed_says_what_would_need_it(tree):
    (need,) = [need for need in explain(tree).needs if need.template == "db:write"]
    assert (need.needed, need.because) == (False, 'needed with /mode "write"')


def test_what_would_permit_names_the_argument_the_task_and_the_principal(tree):
    said = explain(tree, arguments={"query": "x", "mode": "write"})
    assert permits(said) == [
        "with the task migrate, the client reporting-mcp, groups dba",
        "without /mode",
        'with /mode "read"',
    ]
    assert permits(explain(tree, task="migrate")) == ["with the task report", "with groups dba"]
    assert permits(explain(tree, requested=frozenset(("db:write",)))) == ["without asking for a scope in particular"]


def test_what_is_offered_really_permits(tree):
    said = explain(tree, task=None, claims={"groups": frozenset(("dba",))})
    assert said.outcome.reason == "task_missing"
    for change in said.changes:
        task = change.words.removeprefix("with the task ")
        assert isinstance(explain(tree, task=task, claims={"groups": frozenset(("dba",))}).outcome, Permit)
    assert len(permits(said)) == 2


def test_where_two_things_are_wrong_the_change_that_leads_further_is_said(tree):
    said = explain(tree, task=None, claims={"groups": frozenset(("dba",))}, arguments={"query": 5, "mode": "x"})
    assert permits(said) == []
    assert [(change.words, change.outcome.reason) for change in said.changes] == [
        ("with the task report", "arguments_invalid")
    ]
    assert "lead further" in as_text(said)


def test_a_permit_says_what_would_refuse_it(tree):
    said = explain(tree)
    assert isinstance(said.outcome, Permit)
    reasons = {change.words: change.outcome.reason for change in said.changes if isinstance(change.outcome, Refusal)}
    assert reasons["without groups"] == "task_not_allowed"
    assert reasons['with /mode "write"'] == "scope_not_in_task"


def test_an_open_principal_is_answered_with_who_could(tree):
    said = explain(tree, known=False, client="", issuer="", claims={}, task=None)
    assert said.outcome is None
    assert {one.task: (one.who, str(one.place)) for one in said.openings} == {
        "report": ("the client reporting-mcp, groups analysts", "db.query.yaml:21:9"),
        "migrate": ("the client reporting-mcp, groups dba", "db.query.yaml:25:9"),
    }
    assert all(isinstance(one.outcome, Permit) for one in said.openings)


def test_who_could_is_left_out_where_it_is_not_who_asks_that_decides(tree):
    assert explain(tree, arguments={"query": "x", "mode": "write"}).openings == ()


def test_long_values_are_cut_short(tree):
    said = explain(tree, "files.read", "1", arguments={"path": "/etc/" + "x" * 3000})
    assert max(map(len, as_text(said).split("\n"))) < 400


def test_programs_get_the_same(tree):
    said = json.loads(json.dumps(as_json(explain(tree, task="migrate"))))
    assert (said["refuse"], said["rule"], said["at"]["file"]) == (
        "task_not_allowed",
        "tasks/migrate/allow",
        "db.query.yaml",
    )
    assert [change["permit"] for change in said["changes"]] == [["db:read"], ["db:read"]]


def test_every_shipped_case_is_explained_by_a_rule_that_stands_somewhere(tree):
    for tool, cases in tree.cases.items():
        for case in cases:
            found = tree.version(tool, case.version)
            request = Request(
                case.version, case.client, case.issuer, case.task, case.claims, case.arguments, case.requested
            )
            said = Explainer(tree, CompiledArguments()).explain(found, request)
            assert said.place.line > 0, case.name
            assert Path(said.place.file).suffix == ".yaml"
