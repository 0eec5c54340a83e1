"""What grows from one version to the next is refused until two people approve it; no arrangement of versions hides it."""

from __future__ import annotations

import pytest
from broker.domain.policy.findings import Severity

from rules_parts import SAFE, STAFF, Rules, excepted, inputs, needs, said, task, the, version

SCHEMA = inputs(["mode"], mode=["read", "write"])
READ = inputs(["mode"], mode=["read"])
SCOPES = {"files:read": True, "files:write": needs("mode", "write")}
WIDE = version(SCHEMA, scopes=SCOPES)
NARROW = version(READ, scopes={"files:read": True})


def with_tasks(**tasks: dict) -> dict:
    return version(SCHEMA, scopes=SCOPES, tasks=tasks)


WORK = task("files:read", "files:write", ttl="60s", uses=2)


def test_another_audience_is_refused_where_the_old_version_leaves_with_it(rules: Rules) -> None:
    report = rules.report({"2": WIDE}, {"1": WIDE}, audience="https://evil.example")
    assert ("scope.widened", "audience") in said(report)


def test_what_may_not_be_true_is_not_what_may_not_be_one(rules: Rules) -> None:
    before, after = (
        version(
            inputs(["id"], id={"type": "integer", "minimum": 0, "not": {"const": one}}), scopes={"files:{/id}": True}
        )
        for one in (1, True)
    )
    assert ("scope.widened", "files:{/id}") in said(rules.step(before, after))


@pytest.mark.parametrize(
    ("new", "key"),
    [
        ({"work": WORK, "more": task("files:read")}, "more/task"),
        ({"work": {**WORK, "allow": {"claims": {"groups": ["staff", "guests"]}}}}, "work/allow"),
        ({"work": {**WORK, "allow": {"clients": ["agents"]}}}, "work/allow"),
        ({"work": {**WORK, "ttl": "61s"}}, "work/ttl"),
        ({"work": {**WORK, "uses": 3}}, "work/uses"),
        ({"work": task("files:read", "files:write", ttl="60s")}, "work/uses"),
    ],
)
def test_a_task_that_reaches_further_is_refused(rules: Rules, new: dict, key: str) -> None:
    assert said(rules.step(with_tasks(work=WORK), with_tasks(**new))) == {("scope.widened", key)}


@pytest.mark.parametrize(
    "new",
    [
        {**WORK, "allow": {**STAFF, "clients": ["agents"]}},
        {**WORK, "allow": {}},
        {**WORK, "ttl": "30s", "uses": 1},
        {**WORK, "online": True},
    ],
)
def test_a_task_that_reaches_less_far_is_lawful(rules: Rules, new: dict) -> None:
    assert said(rules.step(with_tasks(work=WORK), with_tasks(work=new))) == set()


def test_a_credential_that_need_no_longer_be_asked_about_reaches_further(rules: Rules) -> None:
    asked = with_tasks(work={**WORK, "online": True})
    assert said(rules.step(asked, with_tasks(work=WORK))) == {("scope.widened", "work/online")}


def test_a_task_under_another_name_is_a_new_task(rules: Rules) -> None:
    assert said(rules.step(with_tasks(work=WORK), with_tasks(labour=WORK))) == {("scope.widened", "labour/task")}


def test_a_scope_that_another_task_had_is_new_to_this_one(rules: Rules) -> None:
    old = with_tasks(work=task("files:read"), admin=task("files:read", "files:write"))
    new = with_tasks(work=task("files:read", "files:write"), admin=task("files:read", "files:write"))
    found = the(rules.step(old, new), "scope.widened")
    assert found.key == "work/files:write"
    assert found.witness == {"mode": "write"}
    assert found.place.source.strip().startswith('"files:write"')


def test_two_people_approve_a_widening_and_one_does_not(rules: Rules) -> None:
    new = with_tasks(work={**WORK, "ttl": "61s"})
    both = rules.step(with_tasks(work=WORK), new, exceptions=[excepted("scope.widened", "2", "ann", "bob")])
    assert said(both) == set()
    assert the(both, "scope.widened").severity is Severity.EXCEPTED
    for people in (["ann"], ["ann", "Ann"]):
        one = rules.step(with_tasks(work=WORK), new, exceptions=[excepted("scope.widened", "2", *people)])
        assert {rule for rule, _ in said(one)} == {"scope.widened", "exception.invalid"}


def test_a_template_that_can_become_more_scopes_is_refused_with_one_of_them(rules: Rules) -> None:
    old = version(inputs(["name"], name={**SAFE, "maxLength": 4}), scopes={"files:read:{/name}": True})
    new = version(inputs(["name"], name={**SAFE, "maxLength": 5}), scopes={"files:read:{/name}": True})
    found = the(rules.step(old, new), "scope.widened")
    assert str(found.witness).startswith("files:read:")
    assert len(str(found.witness)) == len("files:read:") + 5


def test_a_condition_that_hands_a_scope_to_inputs_that_had_none_is_refused(rules: Rules) -> None:
    schema = inputs(mode=["read", "write", "append"])
    old = version(schema, scopes={"files:read": True, "files:write": needs("mode", "write")})
    new = version(schema, scopes={"files:read": True, "files:write": needs("mode", "write", "append")})
    found = the(rules.step(old, new), "scope.widened")
    assert (found.key, found.witness) == ("files:write", {"mode": "append"})


def test_binding_a_scope_does_not_hide_that_more_inputs_get_it(rules: Rules) -> None:
    schema = inputs(["name"], name=SAFE, mode=["read", "list"])
    old = version(schema, scopes={"files:list": True, "files:read": needs("mode", "read")})
    new = version(inputs(["name"], name={**SAFE, "maxLength": 30}, mode=["read", "list"]),
                  scopes={"files:list": True, "files:read:{/name}": True})  # fmt: skip
    assert said(rules.step(old, new)) == {("scope.widened", "files:read:{/name}")}


def test_taking_the_binding_off_a_scope_is_a_new_scope(rules: Rules) -> None:
    schema = inputs(["name"], name=SAFE)
    old = version(schema, scopes={"files:read:{/name}": True})
    report = rules.step(old, version(schema, scopes={"files:read": True}))
    assert ("scope.widened", "work/files:read") in said(report)


def test_binding_to_another_argument_is_another_scope(rules: Rules) -> None:
    schema = inputs(["name", "place"], name=SAFE, place=SAFE)
    old = version(schema, scopes={"files:read:{/name}": True})
    report = rules.step(old, version(schema, scopes={"files:read:{/place}": True}))
    assert ("scope.widened", "work/files:read:{/place}") in said(report)


PATH = inputs(["path"], path={"type": "string"})


def rooted(*roots: str, **more: object) -> dict:
    arguments = {"/path": {"kind": "path", **({"within": list(roots)} if roots else {}), **more}}
    return version(PATH, scopes={"files:read": True, "files:audit": True}, arguments=arguments)


@pytest.mark.parametrize(
    ("new", "witness"),
    [
        (rooted("/srv"), "/srv"),
        (rooted("/srv/reports", "/etc"), "/etc"),
        (rooted("/"), "/"),
        (rooted(enforced_by=["files:read"]), None),
        ({**rooted("/srv/reports"), "arguments": {}}, None),
        ({"extends": "1", "arguments": {"/path": None}}, None),
    ],
)
def test_roots_do_not_widen_unseen(rules: Rules, new: dict, witness: str | None) -> None:
    report = rules.step(rooted("/srv/reports"), new)
    found = the(report, "scope.widened", "/path")
    assert found.witness == witness


@pytest.mark.parametrize(
    ("before", "after", "witness"),
    [
        ("*.example.com", "*.example.com", None),
        ("*.example.com", "*.a.example.com", None),
        ("*.a.example.com", "*.example.com", "a.example.com"),
        ("*.example.com", "*.anexample.com", "a.anexample.com"),
        ("a.example.com", "*.a.example.com", "a.a.example.com"),
    ],
)
def test_a_root_of_many_hosts_is_wider_where_a_host_shows_it(
    rules: Rules, before: str, after: str, witness: str | None
) -> None:
    schema = inputs(["host"], host={"type": "string", "pattern": "^[a-z.]+$", "maxLength": 40})
    old, new = (
        version(schema, scopes={"files:read": True}, arguments={"/host": {"kind": "host", "within": [root]}})
        for root in (before, after)
    )
    report = rules.step(old, new)
    assert [one.witness for one in report.findings if one.rule == "scope.widened"] == ([witness] if witness else [])


def test_roots_may_narrow(rules: Rules) -> None:
    assert said(rules.step(rooted("/srv"), rooted("/srv/reports"))) == set()


def test_what_enforces_an_argument_does_not_go_unseen(rules: Rules) -> None:
    old = rooted(enforced_by=["files:read"])
    assert ("scope.widened", "/path") in said(rules.step(old, {**old, "arguments": {}}))
    moved = rooted(enforced_by=["files:audit"])
    found = the(rules.step(old, moved), "scope.widened", "/path")
    assert "files:read" in found.what


def test_what_enforces_an_argument_may_go_with_the_scope(rules: Rules) -> None:
    query = {"/query": {"kind": "query"}}
    schema = inputs(["query"], query={"type": "string"}, mode=["read", "write"])
    old = version(schema, scopes=SCOPES, arguments={"/query": {**query["/query"], "enforced_by": list(SCOPES)}})
    new = version(
        inputs(["query"], query={"type": "string"}, mode=["read"]),
        scopes={"files:read": True},
        arguments={"/query": {**query["/query"], "enforced_by": ["files:read"]}},
    )
    assert said(rules.step(old, new)) == set()


# Arrangements of versions that could keep a widening from being compared.

BASE = {"1": WIDE, "2": NARROW}


@pytest.mark.parametrize(
    "more",
    [
        {"3": WIDE},
        {"3": {**WIDE, "replaces": "2"}},
        {"3": {**WIDE, "replaces": "1"}},
        {"3": {"extends": "1"}},
        {"3": {**WIDE, "replaces": "4"}, "4": {**WIDE, "replaces": "3"}},
        {"3": {**WIDE, "replaces": "4"}, "4": WIDE},
        {"3": {"extends": "1", "replaces": "4"}, "4": {"extends": "1", "replaces": "3"}},
        {"3": {**NARROW}, "4": {**WIDE, "replaces": "1"}},
    ],
)
@pytest.mark.parametrize("with_base", [True, False])
def test_a_right_that_was_cut_does_not_come_back_unseen(rules: Rules, more: dict, with_base: bool) -> None:
    report = rules.report({**BASE, **more}, BASE if with_base else None)
    keys = {(one.version, one.key) for one in report.refused if one.rule == "scope.widened"}
    assert {number for number, key in keys if key == "work/files:write"} & set(more)


def test_two_versions_that_name_each_other_are_both_held_to_what_is_published(rules: Rules) -> None:
    kept = version(READ, scopes=SCOPES)
    report = rules.report({"1": WIDE, "2": {**kept, "replaces": "3"}, "3": {**kept, "replaces": "2"}}, {"1": WIDE})
    assert {one.version for one in report.refused if one.rule == "lockstep.scope-kept"} == {"2", "3"}


def test_a_version_put_before_all_others_is_compared_with_what_is_published(rules: Rules) -> None:
    report = rules.report({"0": WIDE, "2": NARROW}, {"2": NARROW})
    assert ("scope.widened", "work/files:write") in said(report)


def test_a_version_is_compared_with_what_was_published_though_the_file_says_it_otherwise(rules: Rules) -> None:
    report = rules.report({"2": WIDE, "3": {**WIDE, "replaces": "2"}}, {"2": NARROW})
    assert ("scope.widened", "work/files:write") in said(report)
    assert "version.edited" in {rule for rule, _ in said(report)}


def test_newest_first_is_an_order_like_any_other(rules: Rules) -> None:
    versions = {"2": {**NARROW, "replaces": "1"}, "1": WIDE}
    assert said(rules.report(versions)) == set()
    assert said(rules.report({"3": {**NARROW, "replaces": "2"}, **versions}, versions)) == set()
