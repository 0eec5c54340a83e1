"""What a receipt says when it is signed, and what is not taken for one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from broker.domain.revocation.feed import Point
from broker.domain.revocation.lease import Holder, Receipt, receipt
from broker.domain.revocation.scopes import RevocationScope
from broker.domain.revocation.statement import (
    MAX_LISTED_BYTES,
    Revocation,
    Statement,
    StatementError,
    read_statement,
    state,
    statement_claims,
)

POINT = Point(1_764_000_000_000, 7)
REVOCATION = Revocation(
    POINT, (RevocationScope("version:db.query@4"),), change="c-1", at="2026-12-01T00:00:00Z", by="operator"
)


def stated(given: Receipt, revocation: Revocation = REVOCATION) -> Statement:
    return state(
        given,
        revocation,
        issuer="https://broker.example",
        id="r-1",
        issued_at=1_764_000_002,
        recorded=True,
        lease_ms=2_000,
        elapsed_ms=2_041,
    )


def holder(name: str, seq: int, client: str = "db-api") -> Holder:
    return Holder(name, client, Point(POINT.gen, seq))


def test_the_claims_are_pinned() -> None:
    given = receipt(POINT, [holder("v-2", 7), holder("v-1", 6)], elapsed=2.05, lease_seconds=2.0)
    assert json.dumps(statement_claims(stated(given)), separators=(",", ":")) == (
        '{"v":1,"iss":"https://broker.example","iat":1764000002,"jti":"r-1","gen":1764000000000,"seq":7,'
        '"revoked":["version:db.query@4"],"change":"c-1","at":"2026-12-01T00:00:00Z","by":"operator","recorded":true,'
        '"lease_ms":2000,"elapsed_ms":2041,'
        '"expired":[{"verifier":"v-1","client":"db-api","applied":"1764000000000:6"}],'
        '"acknowledged":[{"verifier":"v-2","client":"db-api","applied":"1764000000000:7"}]}'
    )


def test_what_was_stated_is_read_back() -> None:
    made = stated(receipt(POINT, [holder("v-2", 9), holder("v-1", 6)], elapsed=3.0, lease_seconds=2.0))
    assert read_statement(statement_claims(made)) == made
    unknown = stated(receipt(POINT, [], elapsed=3.0, lease_seconds=2.0), Revocation(POINT, ()))
    assert read_statement(statement_claims(unknown)) == unknown
    assert unknown.revocation.by is None


def test_a_receipt_that_is_not_complete_is_never_stated() -> None:
    waiting = receipt(POINT, [holder("v-1", 6)], elapsed=2.039, lease_seconds=2.0)
    assert not waiting.is_complete
    with pytest.raises(ValueError, match="once it is complete"):
        stated(waiting)


def test_a_receipt_of_another_point_is_never_stated() -> None:
    other = receipt(Point(POINT.gen, 6), [], elapsed=3.0, lease_seconds=2.0)
    with pytest.raises(ValueError, match="its own revocation"):
        stated(other)


def test_more_verifiers_than_there_is_room_for_are_counted_and_the_expired_ones_named_first() -> None:
    late = [holder(f"late-{number:03}", 6) for number in range(300)]
    there = [holder(f"there-{number:03}", 7) for number in range(2_000)]
    made = stated(receipt(POINT, [*there, *late], elapsed=3.0, lease_seconds=2.0))
    assert (made.expired_count, made.acknowledged_count) == (300, 2_000)
    assert len(made.expired) == 300
    assert 0 < len(made.acknowledged) == 2_000 - made.unlisted_acknowledged
    claims = statement_claims(made)
    assert claims["unlisted"] == {"expired": 0, "acknowledged": made.unlisted_acknowledged}
    listed = json.dumps([claims["expired"], claims["acknowledged"]], separators=(",", ":"))
    assert len(listed) <= MAX_LISTED_BYTES + 10
    assert read_statement(claims) == made


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("v", 2),
        ("v", True),
        ("v", None),
        ("iss", 1),
        ("iss", None),
        ("gen", "1"),
        ("seq", True),
        ("seq", -1),
        ("revoked", "all"),
        ("revoked", [1]),
        ("change", 1),
        ("recorded", "yes"),
        ("recorded", None),
        ("lease_ms", 2.5),
        ("acknowledged", {}),
        ("acknowledged", ["v-1"]),
        ("expired", [{"verifier": "v", "client": "c"}]),
        ("expired", [{"verifier": "v", "client": "c", "applied": "7"}]),
        ("expired", [{"verifier": "v", "client": 1, "applied": "1:7"}]),
        ("unlisted", 3),
        ("unlisted", {"expired": 1}),
    ],
)
def test_claims_of_another_form_are_no_receipt(member: str, value: Any) -> None:
    claims = statement_claims(stated(receipt(POINT, [holder("v", 7)], elapsed=0.0, lease_seconds=2.0)))
    read_statement(claims)
    with pytest.raises(StatementError):
        read_statement({**claims, member: value})


@pytest.mark.parametrize("member", ["iss", "jti", "iat", "gen", "seq", "revoked", "change", "at", "by", "recorded"])
def test_claims_that_lack_a_member_are_no_receipt(member: str) -> None:
    claims = statement_claims(stated(receipt(POINT, [], elapsed=3.0, lease_seconds=2.0)))
    with pytest.raises(StatementError):
        read_statement({name: value for name, value in claims.items() if name != member})
