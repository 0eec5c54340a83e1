"""Client assertions (RFC 7523 §3): whose they are, for whom, how long, and only once."""

from __future__ import annotations

import time
from typing import Any

import pytest

from broker_parts import JWT_BEARER, BrokerProcess, Wire, assertion, exchange_form, refused, sign

INVALID = (401, "invalid_client", "client_assertion_invalid", "client_assertion")
REPLAYED = (401, "invalid_client", "client_assertion_replayed", "client_assertion")


def ask(wire: Wire, made: str, path: str = "/token", **more: str) -> Any:
    proof = {"client_assertion_type": JWT_BEARER, "client_assertion": made}
    return wire.http.post(path, data={**exchange_form(), "token": "garbage", **proof, **more})


@pytest.mark.parametrize("suffix", ["", "/token"])
def test_it_is_addressed_to_the_issuer_or_the_token_endpoint(broker: BrokerProcess, wire: Wire, suffix: str) -> None:
    assert ask(wire, assertion("key-mcp", broker.url + suffix)).status_code == 200


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "https://elsewhere.example"},
        {"aud": None},
        {"aud": ["https://elsewhere.example", "$URL"]},
        {"aud": "$URL/"},
        {"aud": "$URL/introspect"},
        {"iss": "svc"},
        {"iss": None},
        {"iss": "nobody"},
        {"iss": 5},
        {"sub": "ed-mcp"},
        {"sub": None},
        {"jti": None},
        {"jti": ""},
        {"jti": 5},
        {"exp": None},
        {"exp": "$NOW-60"},
        {"exp": "$NOW+7200"},
        {"iat": None},
        {"iat": "$NOW+120"},
        {"iat": True},
        {"nbf": "$NOW+120"},
    ],
    ids=lambda claims: "-".join(f"{name}={value}" for name, value in claims.items()),
)
def test_an_assertion_that_is_not_this_clients_for_us_now_is_refused(
    broker: BrokerProcess, wire: Wire, claims: dict[str, Any]
) -> None:
    def fill(value: Any) -> Any:
        if isinstance(value, list):
            return [fill(item) for item in value]
        if isinstance(value, str) and value.startswith("$NOW"):
            return int(time.time()) + int(value.removeprefix("$NOW"))
        return value.replace("$URL", broker.url) if isinstance(value, str) else value

    made = assertion("key-mcp", broker.url, **{name: fill(value) for name, value in claims.items()})
    assert refused(ask(wire, made)) == INVALID


def test_a_list_of_one_audience_is_that_audience(broker: BrokerProcess, wire: Wire) -> None:
    assert ask(wire, assertion("key-mcp", broker.url, aud=[broker.url])).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"typ": "at+jwt"},
        {"crit": ["x"], "x": 1},
        {"kid": "ed-mcp"},
        {"kid": "nobody"},
    ],
)
def test_a_header_that_is_none_of_an_assertion_is_refused(
    broker: BrokerProcess, wire: Wire, headers: dict[str, Any]
) -> None:
    now = int(time.time())
    claims = {"iss": "key-mcp", "sub": "key-mcp", "aud": broker.url, "iat": now, "exp": now + 60, "jti": f"h{now}"}
    assert refused(ask(wire, sign(claims, "key-mcp", **headers))) == INVALID


def test_another_clients_key_does_not_sign_for_this_one(broker: BrokerProcess, wire: Wire) -> None:
    assert refused(ask(wire, assertion("key-mcp", broker.url, key="operator"))) == INVALID


def test_an_administrators_assertion_is_no_clients(broker: BrokerProcess, wire: Wire) -> None:
    assert refused(ask(wire, assertion("operator", broker.url))) == INVALID


def test_the_client_id_beside_it_must_be_its_own(broker: BrokerProcess, wire: Wire) -> None:
    assert ask(wire, assertion("key-mcp", broker.url), client_id="key-mcp").status_code == 200
    assert refused(ask(wire, assertion("key-mcp", broker.url), client_id="svc")) == INVALID


@pytest.mark.parametrize("text", ["", "x", "a.b.c", "e30.e30.", "é.é.é", "x" * 100_000])
def test_what_is_no_jwt_is_refused(wire: Wire, text: str) -> None:
    reason = refused(ask(wire, text))[2]
    assert reason == ("parameter_missing" if not text else "client_assertion_invalid")


@pytest.mark.parametrize("first", ["/token", "/introspect", "/revoke"])
@pytest.mark.parametrize("second", ["/token", "/introspect", "/revoke"])
def test_it_is_good_for_one_request_wherever_that_goes(
    broker: BrokerProcess, wire: Wire, first: str, second: str
) -> None:
    made = assertion("key-mcp", broker.url)
    assert ask(wire, made, first).status_code == 200
    assert refused(ask(wire, made, second)) == REPLAYED


def test_a_live_token_is_not_told_of_twice_with_one_assertion(broker: BrokerProcess, wire: Wire) -> None:
    live = wire.mint(client="key-mcp")["access_token"]
    made = assertion("key-mcp", broker.url)
    assert ask(wire, made, "/introspect", token=live).json()["active"] is True
    assert refused(ask(wire, made, "/introspect", token=live)) == REPLAYED
    assert refused(ask(wire, made, "/revoke", token=live)) == REPLAYED
    assert wire.is_active(live, client="key-mcp")


def test_one_jti_of_two_clients_is_two_assertions(broker: BrokerProcess, wire: Wire) -> None:
    for client, algorithm in (("key-mcp", "ES256"), ("ed-mcp", "EdDSA")):
        made = assertion(client, broker.url, algorithm=algorithm, jti="the same")
        assert ask(wire, made).status_code == 200


def test_a_refusal_does_not_repeat_the_assertion(broker: BrokerProcess, wire: Wire) -> None:
    made = assertion("key-mcp", broker.url, aud="https://elsewhere.example/kanarie")
    text = ask(wire, made).text
    assert "kanarie" not in text
    assert made.split(".")[1] not in text
