"""Introspection (RFC 7662): only client and audience learn anything, and all dead tokens look alike."""

from __future__ import annotations

from typing import Any

import jwt
import pytest
from credential_forms import make_credential
from wire_vectors import VECTORS, as_refused, names

from broker_parts import (
    ISSUER,
    TOOLS_API,
    BrokerProcess,
    Wire,
    basic,
    detail,
    read_log,
    subject_token,
    unverified_claims,
    wait_until,
)


@pytest.fixture
def broker(own_broker: BrokerProcess) -> BrokerProcess:
    return own_broker


@pytest.mark.parametrize("case", VECTORS["introspection"], ids=names)
def test_an_introspection_answers_as_the_vector_says(wire: Wire, case: dict[str, Any]) -> None:
    live = wire.mint()["access_token"]
    token = make_credential(case["token"], live, wire)
    hint = {"token_type_hint": case["hint"]} if "hint" in case else {}
    if "secret" in case:
        headers = {"authorization": basic("svc", case["secret"])}
        answer = wire.http.post("/introspect", data={"token": token, **hint}, headers=headers)
    else:
        answer = wire.introspect(token, client=case.get("client", "svc"), **hint)
    expect = case["expect"]
    if "reason" in expect:
        assert as_refused(answer) == expect
        return
    assert answer.status_code == expect["status"]
    assert answer.headers["cache-control"] == "no-store"
    if "body" in expect:
        assert answer.json() == expect["body"]
    else:
        assert answer.json()["active"] is expect["active"]


def test_an_active_credential_is_described_as_it_was_signed(wire: Wire) -> None:
    live = wire.mint()["access_token"]
    told = wire.introspect(live, client="tools-api").json()
    assert told.pop("active") is True
    assert told.pop("token_type") == "Bearer"
    assert told.pop("username") == "alice"
    assert told == unverified_claims(live)
    assert told["aud"] == TOOLS_API
    assert told["sub_id"] == {"format": "iss_sub", "iss": ISSUER, "sub": "alice"}


def test_a_rolled_back_version_takes_its_credentials_with_it_at_once(wire: Wire) -> None:
    asked = detail("db.query", version="4", task="report", arguments={"query": "select 1"})
    wire.command("db.query@4", "publish")
    wire.command("db.query@4", "canary", principals=["alice"])
    on_canary = wire.mint(authorization_details=asked)["access_token"]
    on_stable = wire.mint(authorization_details={**asked, "version": "3"})["access_token"]
    assert (wire.is_active(on_canary), wire.is_active(on_stable)) == (True, True)
    wire.command("db.query@4", "rollback")
    assert (wire.is_active(on_canary), wire.is_active(on_stable)) == (False, True)
    wire.command("db.query@4", "canary", principals=["alice"])
    assert not wire.is_active(on_canary)
    assert wire.is_active(wire.mint(authorization_details=asked)["access_token"])


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("client", {"client": "svc"}),
        ("account", {"issuer": ISSUER, "account": "alice"}),
        ("agent", {"issuer": ISSUER, "agent": "agent-7"}),
        ("pair", {"issuer": ISSUER, "agent": "agent-7", "account": "alice"}),
        ("tool", {"tool": "ticket.edit"}),
        ("everything", {}),
        ("credential", {"jti": "its own"}),
        ("chain", {"jti": "its own"}),
    ],
)
def test_each_revocation_scope_kills_what_stands_in_it(wire: Wire, kind: str, names: dict[str, str]) -> None:
    live = wire.mint()["access_token"]
    own = {"jti": unverified_claims(live)["jti"]}
    other = wire.mint(
        client="poster",
        subject_token=subject_token(sub="bob", azp="agent-8"),
        authorization_details=detail("root.get", task="read"),
    )["access_token"]
    given = {name: own.get(name, value) for name, value in names.items()}
    answer = wire.admin("POST", "/revocations", body={"kind": kind, "names": given, "reason": "a test"})
    assert answer.status_code == 200, answer.text
    assert not wire.is_active(live)
    assert wire.is_active(other, client="poster") is (kind != "everything")
    assert wire.is_active(wire.mint()["access_token"])


def test_uses_are_counted_at_the_audience_alone(wire: Wire) -> None:
    asked = detail(task="peek")
    token = subject_token(groups=["auditors"])
    live = wire.mint(subject_token=token, authorization_details=asked)["access_token"]
    for _ in range(5):
        assert wire.is_active(live)  # its client looks, and spends nothing
    for use, expected in [("a", True), ("a", True), ("b", True), ("c", False), ("a", True)]:
        told = wire.introspect(live, client="tools-api", use=use).json()
        assert told["active"] is expected, use


@pytest.mark.parametrize("use", ["a b", "x" * 129, "é"])
def test_a_use_has_a_plain_name(wire: Wire, use: str) -> None:
    answer = wire.introspect(wire.mint()["access_token"], client="tools-api", use=use)
    assert as_refused(answer) == {
        "status": 400,
        "error": "invalid_request",
        "reason": "parameter_invalid",
        "where": "use",
    }


def test_introspection_and_release_of_a_dead_token_leave_no_token_behind(broker: BrokerProcess, wire: Wire) -> None:
    live = wire.mint()["access_token"]
    wire.revoke(live)
    wire.introspect(live)
    assert all(live.split(".")[2] not in str(record) for record in read_log(broker))


def test_a_revoked_key_kills_what_it_signed_and_another_takes_its_place(wire: Wire) -> None:
    before = wire.mint()["access_token"]
    kid = jwt.get_unverified_header(before)["kid"]
    answer = wire.admin("POST", "/revocations", body={"kind": "key", "names": {"kid": kid}, "reason": "a test"})
    assert answer.status_code == 200, answer.text
    assert not wire.is_active(before)
    wait_until(lambda: wire.exchange().status_code == 200, what="another key has taken its place")
    assert wire.is_active(wire.mint()["access_token"])
