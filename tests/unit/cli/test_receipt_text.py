"""What a receipt is called on the terminal: each revocation scope in words, and nothing that a terminal would obey."""

from __future__ import annotations

import pytest
from broker.cli.receipt_text import LISTED, conclusion, conclusion_of, progress_line, receipt_lines
from broker.domain.ids import ClientId, Digest, ToolName, Version
from broker.domain.revocation import scopes
from broker.domain.revocation.feed import Point
from broker.domain.revocation.lease import Holder, receipt
from broker.domain.revocation.request import KINDS
from broker.domain.revocation.scopes import RevocationScope
from broker.domain.revocation.statement import Revocation, Statement, state

POINT = Point(1, 7)
IDP = "https://idp.example"
WORDS = {
    scopes.EVERYTHING: "an earlier credential",
    scopes.key_scope("k/1"): "a credential signed with the key k/1",
    scopes.tool_scope(ToolName("db.query")): "an earlier credential of any version of db.query",
    scopes.version_scope(ToolName("db.query"), Version("4")): "a credential of db.query@4",
    scopes.policy_scope(Digest("sha256:0")): "an earlier credential that was granted by the policy sha256:0",
    scopes.client_scope(ClientId("agent:alpha/1")): "an earlier credential of the client agent:alpha/1",
    scopes.agent_scope(IDP, "a|b"): f"an earlier credential of the agent a|b of {IDP}",
    scopes.account_scope(IDP, "alice"): f"an earlier credential of the account alice of {IDP}",
    scopes.pair_scope(IDP, "a", IDP, "b"): f"an earlier credential of the agent a for the account b of {IDP}",
    scopes.chain_scope("j"): "an earlier credential of the chain that began with j",
    scopes.jti_scope("j"): "the credential j",
    RevocationScope("later:x"): "an earlier credential in later:x",
}


def stated(*holders: Holder, elapsed: float = 3.0, recorded: bool = True, revoked: str = "all") -> Statement:
    return state(
        receipt(POINT, holders, elapsed=elapsed, lease_seconds=2.0),
        Revocation(POINT, (RevocationScope(revoked),), "c", "2026-12-01T00:00:00Z", "operator"),
        issuer="i",
        id="r",
        issued_at=1_764_547_200,
        recorded=recorded,
        lease_ms=2_000,
        elapsed_ms=min(int(elapsed * 1_000), 2_040),
    )


@pytest.mark.parametrize("scope", WORDS)
def test_a_scope_is_said_in_words(scope: RevocationScope) -> None:
    assert conclusion([scope]) == [f"No verifier can accept {WORDS[scope]} any more."]


def test_every_kind_that_can_be_revoked_has_words() -> None:
    kinds = {"everything" if scope == "all" else scope.partition(":")[0] for scope in WORDS}
    assert {kind.replace("credential", "jti") for kind in KINDS} <= kinds


def test_of_an_earlier_revocation_it_is_said_when_it_was() -> None:
    said = conclusion_of(stated(revoked="version:db.query@4"))
    assert said == [
        "Since 2025-12-01 00:00:00 UTC no verifier accepts a credential of db.query@4 that was minted before "
        "2026-12-01T00:00:00Z."
    ]


def test_verifiers_stand_in_a_table_those_that_ran_out_first() -> None:
    lines = list(receipt_lines(stated(Holder("there", "a", POINT), Holder("late", "api-two", Point(1, 6)))))
    assert lines == [
        "verifier  client   how",
        "late      api-two  lease ran out",
        "there     a        applied 1:7",
    ]


def test_nobody_there_is_said_with_whether_it_was_waited_for() -> None:
    assert list(receipt_lines(stated())) == [
        "no verifier held a lease, and one that is not known of would have run out by now"
    ]
    assert list(receipt_lines(stated(elapsed=0.0))) == ["no verifier held a lease; there was nobody to wait for"]


def test_more_verifiers_than_fit_on_a_screen_are_counted() -> None:
    lines = list(receipt_lines(stated(*(Holder(f"v{number:03}", "c", POINT) for number in range(200)))))
    assert len(lines) == 1 + LISTED + 1
    assert lines[-1] == "and 150 more; in all 200 applied it and 0 lost the lease"


def test_effective_and_not_recorded_is_said() -> None:
    assert any("effective, not recorded" in line for line in receipt_lines(stated(recorded=False)))
    assert not any("effective, not recorded" in line for line in receipt_lines(stated()))


def test_names_cannot_move_the_cursor() -> None:
    evil = "\x1b[2J\u202e"
    lines = list(receipt_lines(stated(Holder(evil, evil, POINT), revoked=f"jti:{evil}")))
    told = {"verifiers": 1, "acknowledged": 0, "expired": 0, "seconds_left": 1.0}
    lines.append(progress_line({**told, "waiting": [{"verifier": evil, "client": evil, "applied": "1:6"}]}))
    lines += conclusion([f"jti:{evil}", "jti:%1B%5B2J", f"odd{evil}"])
    assert all(line.isprintable() for line in lines), lines


def test_progress_names_whom_it_waits_for() -> None:
    waiting = [{"verifier": f"v{number}", "client": "c", "applied": "1:6"} for number in range(4)]
    told = {"verifiers": 6, "acknowledged": 1, "expired": 1, "waiting": waiting, "seconds_left": 1.24}
    assert progress_line(told) == (
        "1 of 6 verifiers have applied it, 1 lost the lease; waiting for v0 (c), v1 (c), v2 (c) and 1 more; 1.2 s left at most"
    )
    nobody = {"verifiers": 0, "acknowledged": 0, "expired": 0, "waiting": [], "seconds_left": 2.04}
    assert progress_line(nobody) == "no verifier holds a lease that is known of; 2.0 s left at most"
