"""The credential (RFC 9068 §2, RFC 8693 §4.1, RFC 9396 §9): its claims are a wire format, pinned byte for byte."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from broker.domain.canonical import canonical_json
from broker.domain.errors import Reason, Refusal
from broker.domain.ids import ClientId, Digest, TaskName, ToolName, Version
from broker.domain.scopes import Scope
from broker.domain.tokens.claims import Credential, digest_of_arguments, read_credential, spell_claims

CREDENTIAL = Credential(
    issuer="https://broker.example",
    audience="https://db.internal",
    account_issuer="https://idp.example",
    account="alice",
    client=ClientId("reporting-mcp"),
    act={"iss": "https://idp.example", "sub": "agent-7", "act": {"sub": "older"}},
    tool=ToolName("db.query"),
    version=Version("3"),
    contract=Digest("sha256:" + "a" * 64),
    task=TaskName("report"),
    scopes=frozenset({Scope("db:write"), Scope("db:read")}),
    policy=Digest("sha256:" + "b" * 64),
    issued_at=1_790_000_000,
    expires_at=1_790_000_060,
    jti="AAAAAAAAAAAAAAAAAAAAAA",
    txn="t-1",
    chain="AAAAAAAAAAAAAAAAAAAAAA",
    gen=1_790_000_000_000,
    rseq=1_008,
    uses=1,
    arguments_digest="ZGlnZXN0",
)
PINNED = (
    b'{"act":{"act":{"sub":"older"},"iss":"https://idp.example","sub":"agent-7"},"aud":"https://db.internal",'
    b'"authorization_details":[{"arguments_digest":"ZGlnZXN0","contract":"sha256:' + b"a" * 64 + b'","task":"report",'
    b'"tool":"db.query","type":"mcp_tool_call","uses":1,"version":"3"}],"chain":"AAAAAAAAAAAAAAAAAAAAAA",'
    b'"client_id":"reporting-mcp","exp":1790000060,"gen":1790000000000,"iat":1790000000,"iss":"https://broker.example",'
    b'"jti":"AAAAAAAAAAAAAAAAAAAAAA","policy":"sha256:' + b"b" * 64 + b'","rseq":1008,"scope":"db:read db:write",'
    b'"sub":"alice","sub_id":{"format":"iss_sub","iss":"https://idp.example","sub":"alice"},"txn":"t-1"}'
)


def test_the_claims_are_pinned_byte_for_byte() -> None:
    assert canonical_json(spell_claims(CREDENTIAL)) == PINNED


def test_what_was_spelled_is_read_back_the_same() -> None:
    assert read_credential(spell_claims(CREDENTIAL)) == CREDENTIAL
    plain = replace(CREDENTIAL, uses=None, arguments_digest=None)
    assert read_credential(spell_claims(plain)) == plain
    detail = spell_claims(plain)["authorization_details"]
    assert detail == [
        {
            "type": "mcp_tool_call",
            "tool": "db.query",
            "version": "3",
            "contract": "sha256:" + "a" * 64,
            "task": "report",
        }
    ]


def test_what_must_be_asked_about_says_so_and_nothing_else_does() -> None:
    asked = replace(CREDENTIAL, online=True)
    claims = spell_claims(asked)
    assert claims["authorization_details"][0]["online"] is True
    assert read_credential(claims) == asked
    for value in (False, None, 1, "true"):
        said = {**claims, "authorization_details": [{**claims["authorization_details"][0], "online": value}]}
        refusal = read_credential(said)
        assert isinstance(refusal, Refusal), value


def test_the_digest_of_arguments_is_pinned() -> None:
    # printf 'j.{"a":1,"b":"x"}' | openssl dgst -sha256 -binary | base64url
    assert digest_of_arguments("j", {"b": "x", "a": 1}) == "M-v2Hs6RstMaYbhDrfEQhk6b4qN6vasvs5AeJhyhEZU"
    assert digest_of_arguments("k", {"b": "x", "a": 1}) != digest_of_arguments("j", {"b": "x", "a": 1})


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"authorization_details": None}, "authorization_details"),
        ({"authorization_details": []}, "authorization_details"),
        ({"authorization_details": [{"type": "other"}]}, "authorization_details"),
        ({"sub_id": None}, "sub_id"),
        ({"sub_id": {"format": "iss_sub", "iss": "https://idp.example", "sub": "bob"}}, "sub_id"),
        ({"act": None}, "act"),
        ({"act": {"sub": "agent-7"}}, "act"),
        ({"client_id": None}, "client_id"),
        ({"policy": "sha256:short"}, "policy"),
        ({"scope": None}, "scope"),
        ({"scope": "a  b"}, "scope"),
        ({"gen": True}, "gen"),
        ({"gen": -1}, "gen"),
        ({"rseq": "7"}, "rseq"),
        ({"rseq": None}, "rseq"),
        ({"txn": None}, "txn"),
        ({"chain": 5}, "chain"),
    ],
)
def test_a_claim_that_is_none_of_ours_is_refused_by_name(changes: dict[str, Any], where: str) -> None:
    outcome = read_credential({**spell_claims(CREDENTIAL), **changes})
    assert isinstance(outcome, Refusal)
    assert (outcome.reason, outcome.where) == (Reason.TOKEN_CLAIM_INVALID, where)


@pytest.mark.parametrize("member", ["tool", "version", "contract", "task"])
@pytest.mark.parametrize("value", [None, 5, "", "{"])
def test_a_detail_with_a_broken_member_is_none(member: str, value: Any) -> None:
    claims: dict[str, Any] = spell_claims(CREDENTIAL)
    claims["authorization_details"] = [{**claims["authorization_details"][0], member: value}]
    outcome = read_credential(claims)
    assert isinstance(outcome, Refusal)
    assert outcome.where == "authorization_details"


def test_a_credential_stands_in_every_scope_that_can_kill_it() -> None:
    found = CREDENTIAL.revocation_scopes("k1")
    assert found == (
        "all",
        "key:k1",
        "tool:db.query",
        "version:db.query@3",
        "policy:sha256:" + "b" * 64,
        "client:reporting-mcp",
        "agent:https%3A%2F%2Fidp.example|agent-7",
        "account:https%3A%2F%2Fidp.example|alice",
        "pair:https%3A%2F%2Fidp.example|agent-7|https%3A%2F%2Fidp.example|alice",
        "chain:AAAAAAAAAAAAAAAAAAAAAA",
        "jti:AAAAAAAAAAAAAAAAAAAAAA",
    )
