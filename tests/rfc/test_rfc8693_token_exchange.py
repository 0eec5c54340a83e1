"""Token exchange (RFC 8693): the request form, the answer, its errors, actors; and scope (RFC 6749 §3.3)."""

from __future__ import annotations

import json
import secrets
import time
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest
from wire_vectors import VECTORS, as_refused, names

from broker_parts import (
    ACCESS_TOKEN,
    ISSUER,
    JWT_TYPE,
    RESOURCE,
    BrokerProcess,
    Wire,
    basic,
    detail,
    exchange_form,
    read_log,
    refused,
    sign,
    subject_token,
    unverified_claims,
)


def post_raw(wire: Wire, body: str | bytes, **headers: str) -> httpx2.Response:
    given = {"content-type": "application/x-www-form-urlencoded", "authorization": basic("svc"), **headers}
    return wire.http.post("/token", content=body, headers=given)


@pytest.mark.parametrize("case", VECTORS["scope"], ids=names)
def test_a_scope_is_read_as_the_vector_says(wire: Wire, case: dict[str, Any]) -> None:
    asked = case["body"]
    if asked.startswith("REPEAT:"):
        asked = "scope=" + "+".join(f"s{n}" for n in range(int(asked.removeprefix("REPEAT:"))))
    form = exchange_form(authorization_details=detail(arguments={"create": True}))
    answer = post_raw(wire, "&".join(part for part in (urlencode(form), asked) if part))
    if isinstance(case["expect"], str):
        assert answer.status_code == 200, answer.text
        assert answer.json()["scope"] == case["expect"]
        assert unverified_claims(answer.json()["access_token"])["scope"] == case["expect"]
    else:
        assert as_refused(answer) == case["expect"]


@pytest.mark.parametrize("case", VECTORS["form"], ids=names)
def test_a_form_is_read_as_the_vector_says(wire: Wire, case: dict[str, Any]) -> None:
    changes = {
        name: "x" * int(value.removeprefix("REPEAT:")) if str(value).startswith("REPEAT:") else value
        for name, value in case["changes"].items()
    }
    answer = wire.exchange(**changes)
    if case["expect"] == "accept":
        assert answer.status_code == 200, answer.text
    else:
        assert as_refused(answer) == case["expect"]


def test_a_success_answers_with_what_section_2_2_1_requires(wire: Wire) -> None:
    answer = wire.exchange()
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    body = answer.json()
    assert set(body) == {
        "access_token",
        "issued_token_type",
        "token_type",
        "expires_in",
        "scope",
        "authorization_details",
    }
    assert (body["issued_token_type"], body["token_type"]) == (ACCESS_TOKEN, "Bearer")
    assert body["expires_in"] == 60
    claims = unverified_claims(body["access_token"])
    assert claims["authorization_details"] == body["authorization_details"]
    assert claims["exp"] - claims["iat"] == 60


def test_a_jwt_can_be_asked_for_by_that_name(wire: Wire) -> None:
    assert wire.mint(requested_token_type=JWT_TYPE)["issued_token_type"] == JWT_TYPE


def test_the_credential_ends_with_the_subject_token(wire: Wire) -> None:
    now = int(time.time())
    body = wire.mint(subject_token=subject_token(exp=now + 20))
    assert unverified_claims(body["access_token"])["exp"] == now + 20
    assert 15 <= body["expires_in"] <= 20


def test_a_subject_token_at_its_end_has_nothing_left_to_give(wire: Wire) -> None:
    now = int(time.time())
    answer = wire.exchange(subject_token=subject_token(iat=now - 60, exp=now - 2))
    assert refused(answer) == (400, "invalid_request", "lifetime_exhausted", "subject_token")


def test_an_expired_subject_token_is_an_invalid_request(wire: Wire) -> None:
    now = int(time.time())
    answer = wire.exchange(subject_token=subject_token(iat=now - 600, exp=now - 60))
    assert refused(answer) == (400, "invalid_request", "token_expired", "subject_token/exp")


def test_a_credential_of_ours_for_another_audience_than_the_clients_resource_is_refused(wire: Wire) -> None:
    made = wire.mint()["access_token"]
    assert refused(wire.exchange(subject_token=made)) == (
        400,
        "invalid_request",
        "token_audience_mismatch",
        "subject_token/aud",
    )


def test_a_token_captured_elsewhere_is_not_exchanged(wire: Wire) -> None:
    answer = wire.exchange(subject_token=subject_token(aud="https://other.example/mcp"))
    assert refused(answer) == (400, "invalid_request", "token_audience_mismatch", "subject_token/aud")


def test_a_token_without_an_agent_is_refused(wire: Wire) -> None:
    assert refused(wire.exchange(subject_token=subject_token(azp=None))) == (
        400,
        "invalid_request",
        "token_claim_missing",
        "subject_token/azp",
    )


def test_the_agent_is_the_actor_and_earlier_actors_stay_inside(wire: Wire) -> None:
    actor = subject_token(sub="agent-9", azp=None, act={"sub": "launcher"})
    token = subject_token(act={"sub": "agent-7", "act": {"sub": "older"}})
    body = wire.mint(subject_token=token, actor_token=actor, actor_token_type=ACCESS_TOKEN)
    claims = unverified_claims(body["access_token"])
    assert claims["sub"] == "alice"
    assert claims["act"] == {
        "iss": ISSUER,
        "sub": "agent-9",
        "act": {"iss": ISSUER, "sub": "agent-7", "act": {"sub": "older"}},
    }


def test_an_actor_token_needs_no_actor_of_its_own(wire: Wire) -> None:
    actor = subject_token(sub="agent-9", azp=None)
    body = wire.mint(actor_token=actor, actor_token_type=ACCESS_TOKEN)
    assert unverified_claims(body["access_token"])["act"]["sub"] == "agent-9"


def test_with_an_actor_token_the_subject_token_needs_no_agent(wire: Wire) -> None:
    actor = subject_token(sub="agent-9", azp=None)
    body = wire.mint(subject_token=subject_token(azp=None), actor_token=actor, actor_token_type=ACCESS_TOKEN)
    assert unverified_claims(body["access_token"])["act"] == {"iss": ISSUER, "sub": "agent-9"}


@pytest.mark.parametrize("extra", ["\ud800", 2**70])
def test_an_act_claim_that_cannot_be_spelled_again_is_refused(wire: Wire, extra: Any) -> None:
    answer = wire.exchange(subject_token=subject_token(act={"sub": "agent-7", "note": extra}))
    assert refused(answer) == (400, "invalid_request", "token_claim_invalid", "subject_token/act")


def test_may_act_admits_the_actor_that_it_names(wire: Wire) -> None:
    token = subject_token(may_act={"sub": "agent-9"})
    body = wire.mint(subject_token=token, actor_token=subject_token(sub="agent-9"), actor_token_type=ACCESS_TOKEN)
    assert unverified_claims(body["access_token"])["act"]["sub"] == "agent-9"
    other = wire.exchange(subject_token=token, actor_token=subject_token(sub="eve"), actor_token_type=ACCESS_TOKEN)
    assert refused(other) == (400, "invalid_request", "token_claim_invalid", "subject_token/may_act")


def test_an_expired_actor_token_is_refused_as_such(wire: Wire) -> None:
    now = int(time.time())
    actor = subject_token(sub="agent-9", iat=now - 600, exp=now - 60)
    answer = wire.exchange(actor_token=actor, actor_token_type=ACCESS_TOKEN)
    assert refused(answer) == (400, "invalid_request", "token_expired", "actor_token/exp")


def nested(depth: int) -> dict[str, Any]:
    made: dict[str, Any] = {"sub": "a0"}
    for level in range(1, depth):
        made = {"sub": f"a{level}", "act": made}
    return made


def test_ten_actors_are_accepted_and_eleven_are_not(wire: Wire) -> None:
    assert wire.exchange(subject_token=subject_token(act=nested(10))).status_code == 200
    assert refused(wire.exchange(subject_token=subject_token(act=nested(11)))) == (
        400,
        "invalid_request",
        "token_claim_invalid",
        "subject_token/act",
    )


@pytest.mark.parametrize(
    "act", ["agent", 5, [], {}, {"sub": 5}, {"sub": ""}, {"sub": "a", "iss": 5}, {"sub": "a", "act": "b"}]
)
def test_an_act_claim_that_is_none_is_refused(wire: Wire, act: Any) -> None:
    answer = wire.exchange(subject_token=subject_token(act=act))
    assert refused(answer) == (400, "invalid_request", "token_claim_invalid", "subject_token/act")


def test_a_client_that_may_not_exchange_is_told_so(wire: Wire) -> None:
    answer = wire.exchange(client="bystander")
    assert refused(answer)[:3] == (400, "unauthorized_client", "client_not_permitted")


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ("grant_type=a&grant_type=a", "grant_type"),
        ("subject_token=&subject_token=", "subject_token"),
        ("x=1&x=2", "x"),
    ],
)
def test_a_repeated_parameter_is_refused_even_if_unknown_or_empty(wire: Wire, body: str, where: str) -> None:
    assert refused(post_raw(wire, body)) == (400, "invalid_request", "parameter_repeated", where)


@pytest.mark.parametrize(
    "body", ["a=%zz", "a=%f", "a=%ff%fe", b"a=\xff", "%=1", "&".join(f"p{n}=1" for n in range(65))]
)
def test_a_body_with_no_one_reading_is_refused(wire: Wire, body: str | bytes) -> None:
    assert refused(post_raw(wire, body)) == (400, "invalid_request", "request_malformed", "body")


def test_a_body_beyond_the_limit_is_refused_whole_or_in_chunks(wire: Wire) -> None:
    big = b"a=" + b"x" * 200_000
    assert refused(post_raw(wire, big)) == (413, "invalid_request", "request_too_large", "body")
    chunks = (b"x" * 1_000 for _ in range(200))
    headers = {"content-type": "application/x-www-form-urlencoded", "authorization": basic("svc")}
    answer = wire.http.post("/token", content=chunks, headers=headers)
    assert refused(answer) == (413, "invalid_request", "request_too_large", "body")


@pytest.mark.parametrize("kind", ["application/json", "multipart/form-data; boundary=x", "text/plain", ""])
def test_another_content_type_is_refused(wire: Wire, kind: str) -> None:
    answer = wire.http.post("/token", content=b"{}", headers={"content-type": kind, "authorization": basic("svc")})
    assert refused(answer) == (400, "invalid_request", "request_malformed", "Content-Type")


def test_parameters_in_the_url_are_refused(wire: Wire) -> None:
    answer = wire.http.post(
        "/token?client_secret=leaked", data=exchange_form(), headers={"authorization": basic("svc")}
    )
    assert refused(answer) == (400, "invalid_request", "request_malformed", "query")
    assert "leaked" not in answer.text


@pytest.mark.parametrize("path", ["/token", "/introspect", "/revoke"])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS", "HEAD"])
def test_another_method_is_not_allowed(wire: Wire, path: str, method: str) -> None:
    answer = wire.http.request(method, path)
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"


def test_no_refusal_and_no_record_repeats_a_token_or_an_argument(broker: BrokerProcess, wire: Wire) -> None:
    canary = "kanarie" + secrets.token_hex(8)
    elsewhere = subject_token(aud=f"https://other.example/{canary}")
    texts = [
        wire.exchange(authorization_details=detail(arguments={"note": canary, "id": 5})).text,
        wire.exchange(authorization_details=detail(arguments={"note": canary}, task="peek")).text,
        wire.exchange(authorization_details=[{"type": "mcp_tool_call", "tool": "ticket.edit", "x": canary}]).text,
        wire.exchange(authorization_details=json.dumps(canary) + "}").text,
        wire.exchange(authorization_details=detail(version=f"{canary} "), subject_token=elsewhere).text,
        wire.exchange(subject_token=canary).text,
        wire.exchange(subject_token=elsewhere).text,
        wire.exchange(subject_token=sign({"iss": canary}, "idp", typ="at+jwt")).text,
        wire.exchange(subject_token=sign({"iss": ISSUER, "aud": RESOURCE, "sub": canary}, "idp", typ="at+jwt")).text,
        wire.exchange(grant_type=canary, actor_token=canary).text,
        wire.exchange(resource=f"https://{canary}@tools.example/mcp").text,
        wire.exchange(requested_token_type=canary).text,
        post_raw(wire, f"a={canary}&a={canary}").text,
    ]
    for number, text in enumerate(texts):
        assert canary not in text, number
        assert '"reason"' in text
    token = subject_token()
    made = wire.mint(subject_token=token, authorization_details=detail(arguments={"note": canary}))
    log = json.dumps(read_log(broker)) + broker.said()
    assert canary not in log
    for part in (*token.split("."), *made["access_token"].split(".")[1:]):
        assert part not in log


def test_every_refusal_leaves_its_record_with_its_request_id(broker: BrokerProcess, wire: Wire) -> None:
    answer = wire.exchange(authorization_details=detail(task="destroy"))
    found = [record for record in read_log(broker) if record["id"] == answer.json()["request_id"]]
    assert [(record["type"], record["reason"], record["account"]) for record in found] == [
        ("mint.deny", "task_unknown", "alice")
    ]
    early = post_raw(wire, "a=%zz")
    found = [record for record in read_log(broker) if record["id"] == early.json()["request_id"]]
    assert [(record["type"], record["reason"], record["client"]) for record in found] == [
        ("mint.deny", "request_malformed", None)
    ]


def test_every_vector_names_its_source() -> None:
    groups = [cases for cases in VECTORS.values() if isinstance(cases, list)]
    assert len(groups) == 7
    assert all(case["source"].startswith("https://") for cases in groups for case in cases)
