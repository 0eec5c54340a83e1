"""Client authentication (RFC 6749 §2.3, §5.2, Appendix B; RFC 7617): one way a request, decoded as it was encoded."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from authlib.integrations.httpx_client import AsyncOAuth2Client
from authlib.oauth2.rfc7523 import PrivateKeyJWT
from joserfc.jwk import ECKey, RSAKey
from wire_vectors import VECTORS, as_refused, names

from broker_parts import (
    EXCHANGE,
    KEYED,
    SECRETS,
    BrokerProcess,
    Wire,
    exchange_form,
    pem_of,
    subject_token,
)


def ask(wire: Wire, case: dict[str, Any], path: str = "/token") -> httpx2.Response:
    form = {**exchange_form(), "token": "garbage", **case.get("form", {})}
    headers = [("authorization", value) for value in case.get("authorization", [])]
    return wire.http.post(path, data=form, headers=headers)


@pytest.mark.parametrize("case", VECTORS["client_authentication"], ids=names)
def test_a_client_authenticates_as_the_vector_says(wire: Wire, case: dict[str, Any]) -> None:
    answer = ask(wire, case)
    if case["expect"] == "accept":
        assert answer.status_code == 200, answer.text
    else:
        assert as_refused(answer) == case["expect"]


@pytest.mark.parametrize("path", ["/introspect", "/revoke"])
@pytest.mark.parametrize("case", VECTORS["client_authentication"], ids=names)
def test_every_endpoint_authenticates_alike(wire: Wire, case: dict[str, Any], path: str) -> None:
    answer = ask(wire, case, path)
    if case["expect"] == "accept":
        assert answer.status_code == 200, answer.text
    else:
        assert as_refused(answer) == case["expect"]


@pytest.mark.parametrize("case", VECTORS["client_authentication"], ids=names)
def test_a_401_challenges_and_nothing_else_does(wire: Wire, case: dict[str, Any]) -> None:
    answer = ask(wire, case)
    challenge = answer.headers.get("www-authenticate", "")
    assert challenge.startswith('Basic realm="') == (answer.status_code == 401)


def test_no_refusal_repeats_a_secret(wire: Wire) -> None:
    for case in VECTORS["client_authentication"]:
        text = ask(wire, case).text
        assert all(secret not in text for _, secret in SECRETS.values()), case["name"]
        assert all(value not in text for value in case.get("authorization", []) if len(value) > 10)


def test_an_unknown_client_and_a_wrong_secret_look_alike(wire: Wire) -> None:
    answers = []
    for pair in ("bm9ib2R5Om5vcGU=", "c3ZjOm5vcGU="):
        body = ask(wire, {"authorization": [f"Basic {pair}"]}).json()
        del body["request_id"]
        answers.append(body)
    assert answers[0] == answers[1]


async def test_authlib_gets_in_with_basic(broker: BrokerProcess) -> None:
    await exchange_with_authlib(broker, "svc", SECRETS["svc"][1], "client_secret_basic")  # it does not form-encode


async def test_authlib_gets_in_with_a_posted_secret(broker: BrokerProcess) -> None:
    await exchange_with_authlib(broker, "poster", SECRETS["poster"][1], "client_secret_post")


@pytest.mark.parametrize("client", ["key-mcp", "rsa-mcp"])  # Authlib warns of EdDSA under that name (RFC 9864)
async def test_authlib_gets_in_with_private_key_jwt(broker: BrokerProcess, client: str) -> None:
    algorithm = KEYED[client]
    kind = ECKey if algorithm == "ES256" else RSAKey
    endpoint = f"{broker.url}/token"
    proof = PrivateKeyJWT(endpoint, headers={"kid": client}, alg=algorithm)
    await exchange_with_authlib(broker, client, kind.import_key(pem_of(client, algorithm)), proof)


async def exchange_with_authlib(broker: BrokerProcess, client: str, secret: Any, method: Any) -> None:
    name = method if isinstance(method, str) else method.name
    async with AsyncOAuth2Client(
        client_id=client,
        client_secret=secret,
        token_endpoint_auth_method=name,
        revocation_endpoint_auth_method=name,
    ) as oauth:
        if not isinstance(method, str):
            oauth.register_client_auth_method(method)
        form = exchange_form()
        token = await oauth.fetch_token(
            f"{broker.url}/token",
            grant_type=EXCHANGE,
            subject_token=subject_token(),
            subject_token_type=form["subject_token_type"],
            authorization_details=form["authorization_details"],
        )
        assert token["scope"] == "ticket.read"
        hint = {"token_type_hint": "access_token"}
        found = await oauth.introspect_token(f"{broker.url}/introspect", token=token["access_token"], **hint)
        assert found.json()["active"] is True
        gone = await oauth.revoke_token(f"{broker.url}/revoke", token=token["access_token"], **hint)
        assert gone.status_code == 200
        found = await oauth.introspect_token(f"{broker.url}/introspect", token=token["access_token"], **hint)
        assert json.loads(found.content) == {"active": False}
