"""What a report looks like in each form: hand-made findings, one of each severity, byte for byte where people read it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from broker.cli.report_github import problems_as_github, report_as_github
from broker.cli.report_json import problems_as_json
from broker.cli.report_sarif import FINGERPRINT, problems_as_sarif, report_as_sarif
from broker.cli.report_text import finding_as_text, problems_as_text, report_as_text
from broker.domain.ids import ToolName, Version
from broker.domain.policy.findings import ExceptionUse, Finding, Place, Report, RuleId, Severity
from broker.domain.policy.located import Problem

TOOL, VERSION = ToolName("db.query"), Version("4")
HERE = Place("db.query.yaml", 12, 5, "/versions/4/scopes/db:write", '    "db:write": {needed_when: true}')
GONE = Place("db.query.yaml", 9, 7, "/versions/3/scopes/db:write", '      "db:write":', "base")
REFUSED = Finding(
    rule=RuleId.LOCKSTEP_SCOPE_KEPT,
    severity=Severity.REFUSED,
    tool=TOOL,
    version=VERSION,
    key="db:write",
    place=HERE,
    what="no input of 4 needs the scope db:write any more, and report still grants it",
    why="only a forged call can use it now",
    mend="cut it with the inputs",
    witness={"mode": "write"},
    has_witness=True,
    shows="needed it in 3, and is refused now",
    related=((Place("contracts/db.query/4.json", 8, 7), "`mode` lost write"), (GONE, "it was here")),
)
UNDECIDED = replace(
    REFUSED,
    rule=RuleId.RELATION_UNDECIDED,
    severity=Severity.UNDECIDED,
    key="inputs",
    what="whether inputs are lost",
    has_witness=False,
    related=(),
)
NOTICE = replace(UNDECIDED, rule=RuleId.LOCKSTEP_ALONE, severity=Severity.NOTICE, what="inputs are lost", place=GONE)
EXCEPTED = replace(
    REFUSED,
    rule=RuleId.SCOPE_WIDENED,
    severity=Severity.EXCEPTED,
    key="report",
    excepted_by="ann and bob until 2027-01-31: agreed",
)
USE = ExceptionUse(
    rule="scope.widened",
    tool="db.query",
    version="4",
    key="report",
    reason="agreed",
    approved_by=("ann", "bob"),
    expires="2027-01-31",
    place=Place("exceptions.yaml", 2, 5),
    used=True,
)
REPORT = Report((REFUSED, UNDECIDED, NOTICE, EXCEPTED), (USE,), {"tools": 1, "versions": 2})
PROBLEM = Problem("trust.yaml", 3, 9, "/clients", "trust.keys", "no\nkeys", "make one", "clients: {}")

TEXT = """\
policies/db.query.yaml:12:5: lockstep.scope-kept: no input of 4 needs the scope db:write any more, and report still grants it
   12 |     "db:write": {needed_when: true}
      |     ^
  witness: {"mode": "write"}
    needed it in 3, and is refused now
  why:  only a forged call can use it now
  see:  policies/contracts/db.query/4.json:8:7: `mode` lost write
  see:  db.query.yaml:9:7 (base): it was here
  mend: cut it with the inputs
  page: broker docs lockstep.scope-kept

policies/db.query.yaml:12:5: relation.undecided: cannot decide: whether inputs are lost
   12 |     "db:write": {needed_when: true}
      |     ^
  why:  only a forged call can use it now
  mend: cut it with the inputs
  page: broker docs relation.undecided

db.query.yaml:9:7 (base): lockstep.alone: notice: inputs are lost
    9 |       "db:write":
      |       ^
  why:  only a forged call can use it now
  mend: cut it with the inputs

policies/db.query.yaml:12:5: scope.widened: excepted: no input of 4 needs the scope db:write any more, and report still grants it
   12 |     "db:write": {needed_when: true}
      |     ^
  by:   ann and bob until 2027-01-31: agreed

exceptions:
  policies/exceptions.yaml:2:5: scope.widened for db.query@4, report: approved by ann and bob until 2027-01-31: agreed

compared with main (0123456789ab)
refused: 1 refused, 1 undecided, 1 notice, 1 excepted; 1 tools, 2 versions"""


def test_a_report_for_people_holds_place_caret_witness_why_mend_and_page():
    assert report_as_text(REPORT, folder="policies", base="main (0123456789ab)") == TEXT


def test_a_lawful_report_ends_with_what_is_said_of_the_policy():
    report = Report((NOTICE,), (), {"tools": 1, "versions": 2})
    assert report_as_text(report, lawful="1 tools").endswith("\n\nlawful (1 notice): 1 tools")
    assert report_as_text(Report(()), lawful="1 tools") == "lawful: 1 tools"


def test_colours_are_there_only_where_asked_for():
    assert "\x1b[" not in TEXT
    coloured = report_as_text(REPORT, folder="policies", colours=True)
    assert "\x1b[31mlockstep.scope-kept\x1b[0m" in coloured


def test_what_cannot_be_seen_is_escaped_and_the_caret_stands_right():
    wide = replace(HERE, source='  "漢\u202e字": x', column=8)
    hostile = replace(REFUSED, what="a\x1b[2Jb\u202e", witness={"p": "\u202e\x00\ud800"}, place=wide, related=())
    text = finding_as_text(hostile)
    assert text.isprintable() or all(line.isprintable() for line in text.split("\n"))
    assert "a\\u001b[2Jb\\u202e" in text
    source, under = text.split("\n")[1:3]
    assert source == '   12 |   "漢\ufffd字": x'
    assert under == "      | " + " " * 9 + "^"  # two of the seven characters before it take two columns


def test_a_long_witness_is_broken_behind_commas_and_cut():
    values: list[Any] = [f"argument {index}" for index in range(60)]
    text = finding_as_text(replace(REFUSED, witness=values))
    shown = text[text.index("witness: ") : text.index("    needed it")]
    assert shown.startswith('witness: ["argument 0", "argument 1"')
    assert "… (890 characters)" in shown
    assert max(map(len, shown.split("\n"))) <= 120
    assert len(shown) < 360


def test_problems_with_the_form_are_shown_with_place_and_mend():
    assert problems_as_text((PROBLEM,), folder="policies") == (
        "policies/trust.yaml:3:9: trust.keys: no\\nkeys\n"
        "    3 | clients: {}\n      |         ^\n  mend: make one\n\n1 problem in the policy files"
    )


def test_annotations_name_file_line_and_column_and_cannot_be_broken_out_of():
    hostile = replace(REFUSED, what="100% of\r\n::error::x", place=replace(HERE, file="a,b:100%.yaml"), related=())
    first, *_ = report_as_github(Report((hostile,)), folder="my policies").split("\n")
    assert first == (
        "::error file=my policies/a%2Cb%3A100%25.yaml,line=12,col=5,title=lockstep.scope-kept db.query@4::"
        "100%25 of\\r\\n::error::x"
        '%0Awitness: {"mode": "write"} (needed it in 3, and is refused now)'
        "%0Awhy: only a forged call can use it now%0Amend: cut it with the inputs"
        "%0Ahttps://mayfly.example/docs/lockstep.scope-kept"
    )


def test_annotations_tell_severities_apart_and_never_give_a_line_of_the_old_file():
    lines = report_as_github(REPORT, folder="").split("\n")
    assert [line.split(" ")[0] for line in lines] == [
        "::error",
        "::error",
        "::notice",
        "::notice",
        "exception:",
        "refused:",
    ]
    assert lines[2].startswith("::notice file=db.query.yaml,title=")
    assert "it stands at line 9 of the old file" in lines[2]
    assert "excepted by ann and bob until 2027-01-31: agreed" in lines[3]
    assert problems_as_github((PROBLEM,), folder="p").startswith(
        "::error file=p/trust.yaml,line=3,col=9,title=trust.keys::"
    )


def results(log: dict[str, Any]) -> list[dict[str, Any]]:
    return log["runs"][0]["results"]


def test_sarif_has_the_structure_that_the_standard_asks_for():
    log = json.loads(json.dumps(report_as_sarif(REPORT, folder="my policies")))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "broker policy check"
    rules = driver["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    assert all(rule["help"]["markdown"].startswith(f"# {rule['id']}\n") for rule in rules)
    assert all(rule["shortDescription"]["text"] != rule["id"] for rule in rules)
    assert all(rule["helpUri"] == f"https://mayfly.example/docs/{rule['id']}" for rule in rules)
    assert run["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")
    assert all(isinstance(one["executionSuccessful"], bool) for one in run["invocations"])
    for result in run["results"]:
        assert result["ruleId"] == rules[result["ruleIndex"]]["id"]
        assert result["level"] in ("none", "note", "warning", "error")
        assert result["message"]["text"]
        for location in [*result["locations"], *result.get("relatedLocations", [])]:
            physical = location["physicalLocation"]
            assert physical["artifactLocation"]["uri"].startswith("my%20policies/")
            assert physical["artifactLocation"]["uriBaseId"] in run["originalUriBaseIds"]
            assert all(physical["region"][name] >= 1 for name in ("startLine", "startColumn") if "region" in physical)
        assert all(len(value) == 64 for value in result["partialFingerprints"].values())
    related = [one["id"] for one in run["results"][0]["relatedLocations"]]
    assert related == [0, 1]


def test_sarif_levels_suppressions_and_old_places():
    refused, undecided, notice, excepted = results(report_as_sarif(REPORT, folder=""))
    assert [one["level"] for one in (refused, undecided, notice, excepted)] == ["error", "error", "note", "warning"]
    assert refused["locations"][0]["physicalLocation"]["region"]["startLine"] == 12
    assert "region" not in notice["locations"][0]["physicalLocation"]
    assert "line 9 of the old file" in notice["message"]["text"]
    assert refused["relatedLocations"][1]["message"]["text"] == "it was here (in the old file, line 9)"
    assert excepted["suppressions"] == [
        {"kind": "external", "status": "accepted", "justification": "ann and bob until 2027-01-31: agreed"}
    ]
    assert "suppressions" not in refused


def test_a_fingerprint_stays_while_lines_move_and_differs_between_keys():
    moved = replace(REFUSED, place=replace(HERE, line=99), what="in other words")
    other = replace(REFUSED, key="db:read")
    prints = [
        one["partialFingerprints"][FINGERPRINT]
        for report in (Report((REFUSED, other, REFUSED)), Report((moved,)))
        for one in results(report_as_sarif(report, folder=""))
    ]
    assert prints[0] == prints[3]
    assert len(set(prints)) == 3


def test_problems_as_sarif_say_that_the_run_did_not_get_to_the_rules():
    log = problems_as_sarif((PROBLEM,), folder="p", exit_code=3)
    assert log["runs"][0]["invocations"] == [{"executionSuccessful": False, "exitCode": 3}]
    assert results(log)[0]["ruleId"] == "trust.keys"


@pytest.mark.parametrize(("code", "verdict"), [(1, "refused"), (3, "unusable")])
def test_problems_as_json_are_no_verdict_of_the_rules(code: int, verdict: str):
    made = problems_as_json((PROBLEM,), folder="p", exit_code=code)
    assert (made["verdict"], made["lawful"], made["findings"]) == (verdict, False, [])
    assert made["problems"][0]["rule"] == "trust.keys"  # type: ignore[index]
