"""Revocation scopes: what kills a credential, and how an administrator names it."""

from __future__ import annotations

from typing import Any

import pytest
from broker.domain.errors import Reason, Refusal
from broker.domain.ids import ClientId, Digest, ToolName, Version
from broker.domain.revocation import scopes
from broker.domain.revocation.request import parse_revocation_scope
from broker.domain.revocation.scopes import Bearing, RevocationScope, is_revoked, scopes_of

BEARING = Bearing(
    kid="k1",
    tool=ToolName("db.query"),
    version=Version("3"),
    policy=Digest("sha256:" + "b" * 64),
    client=ClientId("svc"),
    agent_issuer="https://idp.example",
    agent="agent-7",
    account_issuer="https://idp.example",
    account="alice",
    chain="c",
    jti="j",
)
SCOPES = scopes_of(BEARING)


@pytest.mark.parametrize("scope", SCOPES)
def test_a_mark_newer_than_the_credential_kills_it_in_any_scope(scope: RevocationScope) -> None:
    assert is_revoked({scope: 8}, SCOPES, rseq=7)
    assert not is_revoked({scope: 7}, SCOPES, rseq=7)
    assert not is_revoked({scope: 6}, SCOPES, rseq=7)


def test_the_greatest_mark_counts() -> None:
    assert is_revoked({SCOPES[0]: 1, SCOPES[5]: 9, SCOPES[9]: 2}, SCOPES, rseq=7)


def test_marks_of_other_scopes_mean_nothing() -> None:
    others = {
        scopes.tool_scope(ToolName("db.query2")): 99,
        scopes.version_scope(ToolName("db.query"), Version("4")): 99,
    }
    assert not is_revoked(others, SCOPES, rseq=7)
    assert not is_revoked({}, SCOPES, rseq=0)


def test_the_scopes_are_eleven_and_all_different() -> None:
    assert len(set(SCOPES)) == 11


def test_no_name_from_outside_reads_as_part_of_another_scope() -> None:
    assert scopes.agent_scope("a|b", "c") != scopes.agent_scope("a", "b|c")
    assert scopes.client_scope(ClientId("x|all:|%")) == "client:x%7Call%3A%7C%25"
    assert scopes.pair_scope("a", "b|c", "d", "e") != scopes.pair_scope("a", "b", "c|d", "e")
    assert scopes.jti_scope("all") != scopes.EVERYTHING


@pytest.mark.parametrize(
    ("kind", "names", "spelled"),
    [
        ("everything", {}, "all"),
        ("key", {"kid": "k1"}, "key:k1"),
        ("tool", {"tool": "db.query"}, "tool:db.query"),
        ("client", {"client": "svc"}, "client:svc"),
        ("agent", {"issuer": "https://idp.example", "agent": "agent-7"}, SCOPES[6]),
        ("account", {"issuer": "https://idp.example", "account": "alice"}, SCOPES[7]),
        ("pair", {"issuer": "https://idp.example", "agent": "agent-7", "account": "alice"}, SCOPES[8]),
        ("chain", {"jti": "c"}, "chain:c"),
        ("credential", {"jti": "j"}, "jti:j"),
    ],
)
def test_what_an_administrator_names_is_what_a_credential_stands_in(kind: str, names: Any, spelled: str) -> None:
    assert parse_revocation_scope(kind, names) == spelled
    assert spelled in SCOPES


@pytest.mark.parametrize(
    ("kind", "names", "where"),
    [
        ("version", {"tool": "db.query", "version": "3"}, "kind"),
        ("", {}, "kind"),
        ("tool", {}, "names"),
        ("tool", {"tool": ""}, "names"),
        ("tool", {"tool": "a@b"}, "names/tool"),
        ("account", {"account": "alice"}, "names"),
        ("account", {"issuer": "i", "account": "alice", "agent": "x"}, "names"),
        ("everything", {"kid": "k1"}, "names"),
        ("key", {"kid": "k1\nk2"}, "names/kid"),
        ("key", {"kid": "k\u2028"}, "names/kid"),
        ("key", {"kid": "k" * 129}, "names/kid"),
    ],
)
def test_a_name_that_is_none_is_refused(kind: str, names: Any, where: str) -> None:
    outcome = parse_revocation_scope(kind, names)
    assert isinstance(outcome, Refusal)
    assert (outcome.reason, outcome.where) == (Reason.COMMAND_MALFORMED, where)
