"""Authorization server metadata (RFC 8414) and the key set it points to (RFC 7517)."""

from __future__ import annotations

import jwt
import pytest
from authlib.oauth2.rfc8414 import AuthorizationServerMetadata, get_well_known_url

from broker_parts import BrokerProcess, Wire


def test_the_document_is_valid_and_all_it_names_answers(broker: BrokerProcess, wire: Wire) -> None:
    where = get_well_known_url(broker.url, external=True)
    answer = wire.http.get(where)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    document = answer.json()
    assert document["issuer"] == broker.url
    # the model takes https alone; the loopback issuer of this test is http
    secured = {
        name: value.replace("http://", "https://") if isinstance(value, str) else value
        for name, value in document.items()
    }
    AuthorizationServerMetadata(secured).validate()
    for name in ("token_endpoint", "introspection_endpoint", "revocation_endpoint"):
        assert wire.http.post(document[name], data={"a": "b"}).status_code == 401
        methods = document[f"{name}_auth_methods_supported"]
        assert sorted(methods) == ["client_secret_basic", "client_secret_post", "private_key_jwt"]
        assert "RS256" in document[f"{name}_auth_signing_alg_values_supported"]
        assert "none" not in document[f"{name}_auth_signing_alg_values_supported"]
    assert document["grant_types_supported"] == ["urn:ietf:params:oauth:grant-type:token-exchange"]
    assert document["authorization_details_types_supported"] == ["mcp_tool_call"]


def test_a_credential_verifies_with_the_published_keys_alone(wire: Wire, broker: BrokerProcess) -> None:
    keys = wire.http.get("/jwks.json").json()
    assert all(not {"d", "p", "q"} & set(key) for key in keys["keys"])
    token = wire.mint()["access_token"]
    header = jwt.get_unverified_header(token)
    key = jwt.PyJWKSet.from_dict(keys)[header["kid"]]
    claims = jwt.decode(token, key, algorithms=[header["alg"]], audience="https://tools.example/mcp", issuer=broker.url)
    assert (header["typ"], claims["client_id"]) == ("at+jwt", "svc")


def test_there_is_no_openid_discovery(wire: Wire) -> None:
    assert wire.http.get("/.well-known/openid-configuration").status_code == 404


@pytest.mark.parametrize("path", ["/docs/errors", "/docs/../errors", "/docs/policy.schema", "/nowhere"])
def test_what_is_not_there_is_not_found_and_nothing_breaks(wire: Wire, path: str) -> None:
    assert wire.http.get(path).status_code in (200, 404)
