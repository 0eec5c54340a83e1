"""Arguments are judged by the contract and its closure, and what is wrong is said without repeating a value."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from broker.domain.contracts.contract import ContractError, parse_contract
from broker.domain.policy.document import ScopeRule, VersionPolicy
from broker.engines.arguments import ArgumentValidator, VersionMatcher

SHIPPED = Path(__file__).parents[3] / "policies" / "contracts" / "db.query"


def validator(schema) -> ArgumentValidator:
    return ArgumentValidator(parse_contract({"name": "t", "inputSchema": {"type": "object", **schema}}))


def shipped(version: str) -> ArgumentValidator:
    return ArgumentValidator(parse_contract(json.loads((SHIPPED / f"{version}.json").read_text())))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"query": "select 1"}, None),
        ({"query": "select 1", "timeout_ms": 5, "mode": "write"}, None),
        ({}, "at the root: required: query is missing"),
        ({"query": 7}, '/query: type: expected "string"'),
        ({"query": "x", "mode": "admin"}, '/mode: enum: expected ["read", "write"]'),
        ({"query": "x", "timeout_ms": 0}, "/timeout_ms: minimum: expected 1"),
        ({"query": "x", "timeout_ms": None}, '/timeout_ms: type: expected "integer"'),
        ({"query": "x", "timeout_ms": "5"}, '/timeout_ms: type: expected "integer"'),
        (
            {"query": "x", "timeout": 5},
            'at the root: unknown name "timeout"; legal here: mode, query, timeout_ms; did you mean timeout_ms?',
        ),
    ],
)
def test_a_problem_names_the_place_the_keyword_and_what_is_expected(arguments, problem):
    assert shipped("3").problem(arguments) == problem


def test_nothing_is_coerced_and_no_default_is_filled_in():
    arguments = {"query": "x"}
    assert shipped("3").problem(arguments) is None
    assert arguments == {"query": "x"}


def test_a_value_is_never_repeated():
    checker = validator(
        {
            "properties": {
                "a": {"type": "integer"},
                "b": {"pattern": "^[a-z]+$"},
                "c": {"anyOf": [{"const": 1}, {"const": 2}]},
                "d": {"items": {"not": {"type": "string"}}},
                "e": {"propertyNames": {"maxLength": 1}, "additionalProperties": {}},
                "f": {"uniqueItems": True},
            }
        }
    )
    secret = "SECRET-7f3a"
    for name, value in {
        "a": secret,
        "b": secret,
        "c": secret,
        "d": [secret],
        "e": {secret: 1},
        "f": [secret, secret],
    }.items():
        problem = checker.problem({name: value})
        assert problem is not None
        assert problem.startswith(f"/{name}")
        assert "SECRET" not in problem


def test_legal_names_are_found_behind_references_and_combinators():
    checker = validator(
        {
            "properties": {"a": {"$ref": "#/$defs/A"}},
            "$defs": {"A": {"properties": {"x": {}}, "allOf": [{"properties": {"y": {}}}]}},
        }
    )
    assert checker.problem({"a": {"z": 1}}) == '/a: unknown name "z"; legal here: x, y'


def test_an_unknown_name_is_shown_escaped_and_short():
    problem = validator({"properties": {"a": {}}}).problem({"x\n\u202e" + "y" * 5000: 1})
    assert "\\n\\u202e" in problem
    assert len(problem) < 400


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"properties": {"a": {"type": "text"}}}, "/inputSchema/properties/a/type"),
        ({"properties": {"a": {"pattern": "("}}}, "/inputSchema/properties/a/pattern"),
        ({"properties": {"a": {"pattern": "(a{1000}){1000}"}}}, "/inputSchema/properties/a/pattern"),
        ({"$schema": "https://example.com/own"}, "/inputSchema/$schema"),
        ({"allOf": [{"$ref": "https://example.com/x"}]}, "/inputSchema"),
        ({"allOf": [{"$ref": "file:///etc/passwd"}]}, "/inputSchema"),
        ({"allOf": [{"$ref": "#/$defs/none"}]}, "/inputSchema"),
        ({"properties": {"a": {"$ref": "other.json"}}}, "/inputSchema/$ref"),
        ({"properties": {f"p{n}": {"description": "x" * 60} for n in range(5000)}}, "at most"),
    ],
)
def test_a_contract_that_cannot_be_compiled_says_where(schema, says):
    with pytest.raises(ContractError) as caught:
        validator(schema)
    assert says in str(caught.value)


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(?!x)(a+)+$", "^(a|a)*$", "^(?=(a+)+$)b"])
def test_a_pattern_cannot_be_made_to_run_away(pattern):
    checker = validator({"properties": {"a": {"type": "string", "pattern": pattern}}})
    began = time.perf_counter()
    assert checker.problem({"a": "a" * 5000 + "!"}) is not None
    assert time.perf_counter() - began < 1


def test_a_contract_that_refers_to_itself_is_judged():
    checker = validator({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}})
    assert checker.problem({"left": {"right": {"left": {}}}}) is None
    assert checker.problem({"left": {"right": {"up": {}}}}) is not None


def test_format_is_an_annotation():
    assert validator({"properties": {"a": {"type": "string", "format": "date"}}}).problem({"a": "no date"}) is None


def version(scopes) -> VersionPolicy:
    contract = parse_contract(json.loads((SHIPPED / "3.json").read_text()))
    rules = {name: ScopeRule(name, (), needed) for name, needed in scopes.items()}
    return VersionPolicy("db.query", "3", "https://db", contract, {}, rules, {}, contract.digest)


def test_facts_name_the_scopes_that_the_arguments_need():
    matcher = VersionMatcher(
        version(
            {
                "db:read": True,
                "db:never": False,
                "db:write": {"properties": {"mode": {"const": "write"}}, "required": ["mode"]},
            }
        )
    )
    assert matcher.facts({"query": "x"}).needed == {"db:read"}
    assert matcher.facts({"query": "x", "mode": "read"}).needed == {"db:read"}
    facts = matcher.facts({"query": "x", "mode": "write"})
    assert (facts.valid, facts.problem, facts.needed) == (True, None, {"db:read", "db:write"})


def test_arguments_that_do_not_fit_need_nothing():
    facts = VersionMatcher(version({"db:read": True})).facts({"query": 1})
    assert (facts.valid, facts.needed) == (False, frozenset())
    assert facts.problem.startswith("/query")


def test_a_condition_that_cannot_be_compiled_says_where():
    with pytest.raises(ContractError, match=r"^/scopes/db:write/needed_when/type"):
        VersionMatcher(version({"db:write": {"type": "wrong"}}))
