"""Revocation (RFC 7009): gone is gone, whoever asks twice; nobody gives back another's credential."""

from __future__ import annotations

from typing import Any

import pytest
from credential_forms import make_credential
from wire_vectors import VECTORS, as_refused, names

from broker_parts import BrokerProcess, Wire, read_log, subject_token, unverified_claims


@pytest.mark.parametrize("case", VECTORS["revocation"], ids=names)
def test_a_revocation_does_as_the_vector_says(wire: Wire, case: dict[str, Any]) -> None:
    live = wire.mint()["access_token"]
    token = make_credential(case["token"], live, wire)
    hint = {"token_type_hint": case["hint"]} if "hint" in case else {}
    answer = wire.revoke(token, client=case.get("client", "svc"), **hint)
    expect = dict(case["expect"])
    is_active = expect.pop("active", None)
    if expect == {"status": 200}:
        assert (answer.status_code, answer.content) == (200, b"")
    else:
        assert as_refused(answer) == expect
    if is_active is not None:
        assert wire.is_active(live) is is_active


def test_a_release_is_recorded_once(broker: BrokerProcess, wire: Wire) -> None:
    live = wire.mint()["access_token"]
    for _ in range(3):
        assert wire.revoke(live).status_code == 200
    jti = unverified_claims(live)["jti"]
    found = [record for record in read_log(broker) if record["type"] == "release" and record["jti"] == jti]
    assert [record["client"] for record in found] == ["svc"]


def test_a_release_touches_no_other_credential(wire: Wire) -> None:
    token = subject_token()
    one, other = (wire.mint(subject_token=token)["access_token"] for _ in range(2))
    wire.revoke(one)
    assert (wire.is_active(one), wire.is_active(other)) == (False, True)
    assert unverified_claims(wire.mint()["access_token"])["rseq"] == unverified_claims(one)["rseq"]


def test_the_token_is_required(wire: Wire) -> None:
    expected = {"status": 400, "error": "invalid_request", "reason": "parameter_missing", "where": "token"}
    assert as_refused(wire.post("/revoke", {"token": ""}, "svc")) == expected
    assert as_refused(wire.post("/introspect", {"token": ""}, "svc")) == expected
