"""A decision goes through its steps in order, and the first no ends it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from broker.domain.contracts.contract import parse_contract
from broker.domain.errors import Reason, Refusal
from broker.domain.policy.decide import Permit, decide, tasks_for
from broker.domain.policy.document import (
    ArgumentFacts,
    ArgumentRule,
    Bounds,
    Ceiling,
    ClientTrust,
    Defaults,
    IssuerTrust,
    KeySource,
    Policy,
    Principal,
    ScopeRule,
    TaskRule,
    ToolPolicy,
    VersionPolicy,
)

DIGEST = "sha256:" + "0" * 64
IDP, AGENTS = "https://idp.example", "https://agents.example"
CONTRACT = parse_contract({"name": "db.query", "inputSchema": {"type": "object"}})

VERSION = VersionPolicy(
    tool="db.query",
    version="3",
    audience="https://db.internal",
    contract=CONTRACT,
    arguments={"/path": ArgumentRule("/path", "path", within=("/srv/reports",))},
    scopes={
        "db:read": ScopeRule("db:read", (), True),
        "db:write": ScopeRule("db:write", (), {}),
        "files:{/path}": ScopeRule("files:{/path}", ("/path",), {}),
        "repo:{/repo}": ScopeRule("repo:{/repo}", ("/repo",), {}),
    },
    tasks={
        "report": TaskRule(
            "report", ("mcp",), {"groups": ("analysts",)}, ("db:read", "files:{/path}", "repo:{/repo}"), 60, 1
        ),
        "migrate": TaskRule(
            "migrate", (), {"groups": ("dba",), "grade": ("senior", "chief")}, ("db:read", "db:write"), 600
        ),
        "closed": TaskRule("closed", (), {}, ("db:read",), 60),
    },
    digest=DIGEST,
)
PLAIN = replace(VERSION, arguments={})
ANALYST = Principal(IDP, "ann", IDP, "agent-7", "mcp", {"groups": frozenset({"analysts"})}, 2_000_000_000)
DBA = replace(ANALYST, claims={"groups": frozenset({"dba", "staff"}), "grade": frozenset({"chief"})})


def issuer(name: str, *scopes: str, tools: tuple[str, ...] = ("*",)) -> IssuerTrust:
    return IssuerTrust(name, KeySource(url=name), ("ES256",), Ceiling(tools, scopes))


def client(*tools: str, ceiling: Ceiling | None = None) -> ClientTrust:
    return ClientTrust(
        "mcp", "private_key_jwt", KeySource(file="/k"), (), "https://mcp", tools, ceiling, frozenset({"exchange"})
    )


POLICY = Policy(
    tenant="default",
    lockstep="strict",
    issuers={IDP: issuer(IDP, "*")},
    clients={"mcp": client("db.*")},
    admins={},
    defaults=Defaults(),
    tools={"db.query": ToolPolicy("db.query", "https://db.internal", ("a",), {"3": VERSION})},
    digest=DIGEST,
)


def needs(*scopes: str) -> ArgumentFacts:
    return ArgumentFacts(valid=True, problem=None, needed=frozenset(scopes))


def ask(version=VERSION, principal=ANALYST, task="report", arguments=None, facts=None, requested=None, policy=POLICY):
    return decide(
        version,
        principal=principal,
        task=task,
        arguments=arguments,
        facts=facts,
        requested=None if requested is None else frozenset(requested),
        policy=policy,
    )


def reason(outcome) -> Reason:
    assert isinstance(outcome, Refusal), outcome
    assert outcome.why, "an operator is told the rule"
    return outcome.reason


def test_a_permit_holds_what_the_arguments_need_and_names_its_rule():
    permit = ask(arguments={"path": "/srv/reports/a.csv"}, facts=needs("db:read", "files:{/path}"))
    assert permit == Permit(
        task="report",
        scopes=frozenset({"db:read", "files:/srv/reports/a.csv"}),
        ttl_seconds=60,
        uses=1,
        audience="https://db.internal",
        rule="db.query@3/tasks/report",
    )


def test_a_life_is_never_longer_than_the_maximum():
    permit = ask(PLAIN, DBA, "migrate", {}, needs("db:read"))
    assert permit.ttl_seconds == 300
    assert permit.uses is None


def test_without_arguments_all_that_the_task_grants_is_granted():
    assert ask(PLAIN, DBA, "migrate").scopes == {"db:read", "db:write"}


def test_arguments_are_required_where_a_root_or_a_template_depends_on_them():
    assert reason(ask(VERSION, DBA, "migrate")) is Reason.ARGUMENTS_REQUIRED
    assert reason(ask(PLAIN, ANALYST, "report")) is Reason.ARGUMENTS_REQUIRED


# 1. Reach


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (replace(POLICY, clients={}), Reason.CLIENT_NOT_PERMITTED),
        (replace(POLICY, clients={"mcp": client("files.*")}), Reason.CLIENT_NOT_PERMITTED),
        (replace(POLICY, clients={"mcp": client()}), Reason.CLIENT_NOT_PERMITTED),
        (replace(POLICY, clients={"mcp": client("db.*", ceiling=Ceiling((), ("*",)))}), Reason.CEILING_EXCEEDED),
        (replace(POLICY, issuers={}), Reason.TOKEN_ISSUER_UNKNOWN),
        (replace(POLICY, issuers={IDP: issuer(IDP, "*", tools=("files.*",))}), Reason.CEILING_EXCEEDED),
    ],
)
def test_what_is_out_of_reach_is_refused_before_the_task_is_looked_at(policy, expected):
    assert reason(ask(task="no-such-task", policy=policy)) is expected


def test_the_agents_issuer_has_a_ceiling_too():
    principal = replace(ANALYST, agent_issuer=AGENTS)
    assert reason(ask(principal=principal)) is Reason.TOKEN_ISSUER_UNKNOWN
    policy = replace(POLICY, issuers={**POLICY.issuers, AGENTS: issuer(AGENTS, "files:*")})
    outcome = ask(principal=principal, arguments={}, facts=needs("db:read"), policy=policy)
    assert reason(outcome) is Reason.CEILING_EXCEEDED
    assert AGENTS in outcome.why


def delegated(*clients: str, issuers: tuple[str, ...] = (IDP,)):
    """The analyst, through a chain of these clients; the agent is the last of them, at the broker."""
    return replace(
        ANALYST, agent_issuer="https://broker.example", agent=clients[-1], bounded_by=Bounds(issuers, clients)
    )


def test_in_a_delegation_the_broker_needs_no_trust_as_an_issuer():
    policy = replace(POLICY, clients={**POLICY.clients, "front": client("other.*")})
    permit = ask(principal=delegated("front"), arguments={}, facts=needs("db:read"), policy=policy)
    assert isinstance(permit, Permit), permit


@pytest.mark.parametrize(
    ("front", "principal", "expected"),
    [
        (None, delegated("front"), Reason.SUBJECT_CREDENTIAL_DEAD),
        (client("other.*", ceiling=Ceiling(("other.*",), ("*",))), delegated("front"), Reason.CEILING_EXCEEDED),
        (client("other.*", ceiling=Ceiling(("*",), ("files:*",))), delegated("front"), Reason.CEILING_EXCEEDED),
        (client("other.*"), delegated("front", issuers=(IDP, AGENTS)), Reason.TOKEN_ISSUER_UNKNOWN),
        (client("other.*"), delegated("front", "gone"), Reason.SUBJECT_CREDENTIAL_DEAD),
    ],
)
def test_the_ceilings_of_everybody_in_a_chain_hold(front, principal, expected):
    known = {**POLICY.clients} if front is None else {**POLICY.clients, "front": front}
    policy = replace(POLICY, clients=known)
    assert reason(ask(principal=principal, arguments={}, facts=needs("db:read"), policy=policy)) is expected


# 2. Task


@pytest.mark.parametrize(
    ("principal", "open_to"),
    [
        (ANALYST, ("report",)),
        (DBA, ("migrate",)),
        (replace(ANALYST, client="other"), ()),
        (replace(ANALYST, claims={}), ()),
        (replace(DBA, claims={"groups": frozenset({"dba"})}), ()),
        (
            replace(DBA, claims={"groups": frozenset({"dba", "analysts"}), "grade": frozenset({"senior"})}),
            ("migrate", "report"),
        ),
    ],
)
def test_every_key_of_allow_must_match_and_an_empty_allow_matches_nobody(principal, open_to):
    assert tasks_for(VERSION, principal) == open_to


def test_the_only_task_is_taken_where_none_is_named():
    assert ask(task=None, arguments={}, facts=needs("db:read")).task == "report"


def test_no_task_and_not_exactly_one_to_choose_is_refused():
    both = replace(DBA, claims={**DBA.claims, "groups": frozenset({"dba", "analysts"})})
    outcome = ask(principal=both, task=None)
    assert reason(outcome) is Reason.TASK_MISSING
    assert "migrate, report" in outcome.detail
    assert reason(ask(principal=replace(ANALYST, claims={}), task=None)) is Reason.TASK_MISSING


def test_a_task_that_is_unknown_or_not_allowed_is_refused():
    assert reason(ask(task="cleanup")) is Reason.TASK_UNKNOWN
    assert reason(ask(task="closed")) is Reason.TASK_NOT_ALLOWED


def test_the_caller_is_not_told_which_group_would_do_but_the_operator_is():
    outcome = ask(task="migrate")
    assert reason(outcome) is Reason.TASK_NOT_ALLOWED
    assert "dba" not in outcome.detail
    assert "groups in [dba]" in outcome.why


# 3. and 4. Arguments and roots


def test_arguments_that_nobody_validated_are_an_error_of_the_caller():
    with pytest.raises(ValueError, match="without facts"):
        ask(arguments={})


def test_arguments_that_do_not_fit_are_refused_with_the_engines_words():
    outcome = ask(arguments={"q": 1}, facts=ArgumentFacts(valid=False, problem="/q: unknown name", needed=frozenset()))
    assert reason(outcome) is Reason.ARGUMENTS_INVALID
    assert outcome.detail == "/q: unknown name"


@pytest.mark.parametrize(
    "value", ["/etc/passwd", "/srv/reports/../x", "/srv/reports-old", "", 7, True, {"a": "/srv/reports"}]
)
def test_an_argument_outside_its_roots_is_refused_and_its_value_not_repeated(value):
    outcome = ask(arguments={"path": value}, facts=needs("db:read"))
    assert reason(outcome) is Reason.ARGUMENT_OUTSIDE_ROOT
    assert outcome.where == "/path"
    if isinstance(value, str) and value:
        assert value not in outcome.detail + outcome.why


def test_each_member_of_a_list_lies_under_a_root():
    inside = ["/srv/reports/a", ["/srv/reports/b"]]
    assert isinstance(ask(arguments={"path": inside}, facts=needs("db:read")), Permit)
    outcome = ask(arguments={"path": [*inside, "/etc/passwd"]}, facts=needs("db:read"))
    assert reason(outcome) is Reason.ARGUMENT_OUTSIDE_ROOT


@pytest.mark.parametrize("arguments", [{}, {"path": None}])
def test_an_argument_that_is_not_given_leads_nowhere(arguments):
    assert isinstance(ask(arguments=arguments, facts=needs("db:read")), Permit)


NESTED = replace(VERSION, arguments={"/source/path": ArgumentRule("/source/path", "path", within=("/srv/reports",))})


@pytest.mark.parametrize(
    "source",
    [
        [{"path": "/etc/passwd"}],
        [[{"path": "/srv/reports/a"}, {"path": "/etc/passwd"}]],
        [{"path": "/srv/reports/a"}, "/etc/passwd"],
        "/etc/passwd",
        7,
    ],
)
def test_what_hides_an_argument_from_its_pointer_is_refused_with_it(source):
    """The contract may let a list or a text stand where the policy expects an object; a tool may well read it."""
    outcome = ask(NESTED, arguments={"source": source}, facts=needs("db:read"))
    assert reason(outcome) is Reason.ARGUMENT_OUTSIDE_ROOT


@pytest.mark.parametrize(
    "source", [None, {}, [], {"path": None}, {"path": "/srv/reports/a"}, [{"path": "/srv/reports/a"}, {}], [[]]]
)
def test_a_nested_argument_is_judged_where_it_is(source):
    assert isinstance(ask(NESTED, arguments={"source": source}, facts=needs("db:read")), Permit)


# 5. Scopes


def test_a_needed_scope_that_the_task_does_not_grant_is_refused():
    outcome = ask(arguments={}, facts=needs("db:read", "db:write"))
    assert reason(outcome) is Reason.SCOPE_NOT_IN_TASK
    assert "db:write" in outcome.detail


def test_arguments_that_need_nothing_get_nothing():
    assert reason(ask(arguments={}, facts=needs())) is Reason.SCOPE_NOT_GRANTED


def test_a_template_is_filled_with_the_normal_form():
    permit = ask(arguments={"path": "/srv/reports/.//a"}, facts=needs("files:{/path}"))
    assert permit.scopes == {"files:/srv/reports/a"}


@pytest.mark.parametrize(("value", "scope"), [("core", "repo:core"), (42, "repo:42"), ("a-b.c_d@e", "repo:a-b.c_d@e")])
def test_a_template_takes_text_and_whole_numbers(value, scope):
    assert ask(PLAIN, arguments={"repo": value}, facts=needs("repo:{/repo}")).scopes == {scope}


@pytest.mark.parametrize(
    "value", ["a:admin", "a/b", "a b", "", "a*", 'a"b', "a\\b", "a%3ab", "ä", "a\nb", "a\x00", "{/path}", "x" * 300]
)
def test_a_value_that_a_scope_cannot_carry_is_refused(value):
    outcome = ask(PLAIN, arguments={"repo": value}, facts=needs("repo:{/repo}"))
    assert reason(outcome) is Reason.ARGUMENT_SEPARATOR


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, Reason.ARGUMENTS_REQUIRED),
        ({"repo": None}, Reason.ARGUMENTS_REQUIRED),
        ({"repo": ["a", "b"]}, Reason.ARGUMENTS_REQUIRED),
        ({"repo": True}, Reason.ARGUMENTS_INVALID),
        ({"repo": 1.5}, Reason.ARGUMENTS_INVALID),
        ({"repo": {"a": "b"}}, Reason.ARGUMENTS_INVALID),
    ],
)
def test_a_template_without_one_value_of_the_right_type_is_refused(arguments, expected):
    assert reason(ask(PLAIN, arguments=arguments, facts=needs("repo:{/repo}"))) is expected


# 6. Ceilings


@pytest.mark.parametrize(
    "policy",
    [
        replace(POLICY, issuers={IDP: issuer(IDP, "files:*")}),
        replace(POLICY, issuers={IDP: issuer(IDP)}),
        replace(POLICY, clients={"mcp": client("db.*", ceiling=Ceiling(("*",), ("files:*",)))}),
    ],
)
def test_a_scope_above_a_ceiling_is_refused_even_where_less_is_requested(policy):
    arguments = {"path": "/srv/reports/a"}
    facts = needs("db:read", "files:{/path}")
    outcome = ask(arguments=arguments, facts=facts, requested=["files:/srv/reports/a"], policy=policy)
    assert reason(outcome) is Reason.CEILING_EXCEEDED


# 7. Request


def test_a_narrower_request_narrows():
    assert ask(PLAIN, DBA, "migrate", requested=["db:read"]).scopes == {"db:read"}


@pytest.mark.parametrize("requested", [["db:read", "db:admin"], ["db:*"], ["DB:READ"], []])
def test_a_wider_or_empty_request_is_refused_and_never_narrowed(requested):
    outcome = ask(PLAIN, DBA, "migrate", requested=requested)
    assert reason(outcome) is Reason.SCOPE_NOT_GRANTED
    assert "db:read db:write" in outcome.detail
