"""RFC 7517 and RFC 7518 §6: which sets are believed, and what stands in them. RFC 7638: thumbprints."""

from __future__ import annotations

import json
from typing import Any

import pytest
from broker.domain.errors import Reason, Refusal
from broker.domain.tokens.keys import JwksError, KeySet, VerificationKey
from broker.engines.jwk import generate_private_key, load_private_pem, parse_jwks, private_pem, public_jwk, thumbprint
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt_cases import b64, public_members

EC_KEY = {
    "kty": "EC",
    "crv": "P-256",
    "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
}
ED_KEY = {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
RFC7638_MODULUS = (
    "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMs"
    "tn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5ha"
    "jrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw"
)


def parse(*jwks: object) -> KeySet | JwksError:
    return parse_jwks(json.dumps({"keys": jwks}).encode())


def good(*jwks: object) -> KeySet:
    found = parse(*jwks)
    assert isinstance(found, KeySet), found
    return found


def weak_rsa(**numbers: int) -> dict[str, Any]:
    private = rsa.generate_private_key(public_exponent=65_537, key_size=1_024).public_key().public_numbers()
    return {"kty": "RSA", "n": b64(private.n.to_bytes(128)), "e": b64((65_537).to_bytes(3))}


@pytest.mark.parametrize(
    ("jwk", "algorithms"),
    [
        (EC_KEY, ["ES256"]),
        (ED_KEY, ["EdDSA"]),
        (public_members("k1"), ["RS256", "PS256"]),
        ({**public_members("k1"), "alg": "RS512"}, ["RS512"]),
        ({**EC_KEY, "use": "sig", "key_ops": ["verify"], "x5c": ["AAAA"], "unknown": {}}, ["ES256"]),
    ],
)
def test_a_key_serves_its_algorithm_and_no_other(jwk: dict[str, Any], algorithms: list[str]) -> None:
    assert [key.algorithm for key in good(jwk).keys] == algorithms


@pytest.mark.parametrize(
    ("name", "jwk"),
    [
        ("a symmetric key", {"kty": "oct", "k": "AAAA"}),
        ("a symmetric key whose secret was left out", {"kty": "oct", "kid": "a"}),
        ("a private EC member", {**EC_KEY, "d": "AAAA"}),
        ("a private RSA member", {**public_members("k1"), "p": "AAAA"}),
        ("RSA of 1024 bits", weak_rsa()),
        ("RSA with exponent 1", {**public_members("k1"), "e": "AQ"}),
        ("a point that is not on its curve", {**EC_KEY, "y": EC_KEY["x"]}),
        ("a coordinate that is too short", {**EC_KEY, "x": "AAAA"}),
        ("a coordinate with padding", {**EC_KEY, "x": EC_KEY["x"] + "="}),
        ("an Ed25519 key of 31 bytes", {**ED_KEY, "x": b64(bytes(31))}),
        ("no modulus", {"kty": "RSA", "e": "AQAB"}),
        ("an algorithm that contradicts the curve", {**EC_KEY, "alg": "ES384"}),
        ("an algorithm that contradicts the type", {**EC_KEY, "alg": "RS256"}),
        ("a kid that is a number", {**EC_KEY, "kid": 1}),
        ("something that is no object", "key"),
    ],
)
def test_a_set_with_a_broken_key_is_refused_whole(name: str, jwk: object) -> None:
    outcome = parse(ED_KEY, jwk)
    assert isinstance(outcome, JwksError), name
    assert outcome.problem.startswith("key 1 ")


@pytest.mark.parametrize(
    "document", [b"<html>", b"", b"[]", b"{}", b'{"keys":[]}', b'{"keys":{}}', b'{"keys":[],"keys":[{}]}', b"\xff"]
)
def test_what_is_not_a_set_is_refused(document: bytes) -> None:
    assert isinstance(parse_jwks(document), JwksError)


@pytest.mark.parametrize(
    "other",
    [
        {"kty": "AKP", "alg": "ML-DSA-44", "pub": "AAAA"},
        {"kty": "EC", "crv": "secp256k1", "x": "AAAA", "y": "AAAA"},
        {"kty": "OKP", "crv": "X25519", "x": "AAAA"},
        {**public_members("k1"), "use": "enc"},
        {**public_members("k1"), "alg": "RSA-OAEP"},
        {**public_members("k1"), "key_ops": ["encrypt"]},
        {},
    ],
)
def test_a_key_for_something_else_is_skipped_and_said(other: dict[str, Any]) -> None:
    found = good(ED_KEY, other)
    assert [key.algorithm for key in found.keys] == ["EdDSA"]
    assert [line.split(" ")[:2] for line in found.skipped] == [["key", "1"]]
    assert isinstance(parse(other), JwksError)


def test_one_kid_twice_is_refused_only_where_it_is_ambiguous() -> None:
    assert isinstance(parse({**EC_KEY, "kid": "a"}, {**EC_KEY, "kid": "a"}), JwksError)
    assert len(good({**EC_KEY, "kid": "a"}, {**ED_KEY, "kid": "a"}).keys) == 2


def test_more_keys_than_an_issuer_has_are_refused() -> None:
    assert isinstance(parse(*[{**ED_KEY, "kid": str(n)} for n in range(65)]), JwksError)


def test_a_key_is_found_by_kid_and_algorithm_and_never_by_one_of_them() -> None:
    found = good({**EC_KEY, "kid": "a"}, {**ED_KEY, "kid": "b"})
    assert isinstance(found.find(kid="a", algorithm="ES256"), VerificationKey)
    for kid, algorithm in (("a", "EdDSA"), ("c", "ES256"), ("", "ES256")):
        outcome = found.find(kid=kid, algorithm=algorithm)
        assert isinstance(outcome, Refusal)
        assert outcome.reason is Reason.TOKEN_KEY_UNKNOWN


def test_a_token_without_kid_is_judged_by_the_one_key_there_is() -> None:
    found = good({**EC_KEY, "kid": "a"}, {**ED_KEY, "kid": "b"})
    assert found.find(kid=None, algorithm="ES256") == found.find(kid="a", algorithm="ES256")


def test_key_material_is_not_shown() -> None:
    assert "object at" not in repr(good(EC_KEY).keys[0])
    assert EC_KEY["x"] not in str(parse({**EC_KEY, "d": "secretsecret"}))
    assert "secretsecret" not in str(parse({**EC_KEY, "d": "secretsecret"}))


def test_the_thumbprint_example_of_rfc_7638() -> None:
    required = {"e": "AQAB", "kty": "RSA", "n": RFC7638_MODULUS}
    assert thumbprint(required) == "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"  # type: ignore[arg-type]


def test_the_thumbprint_example_of_rfc_8037() -> None:
    assert thumbprint(dict(ED_KEY)) == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


@pytest.mark.parametrize("algorithm", ["ES256", "RS256", "EdDSA"])
def test_a_private_key_survives_its_file(algorithm: str) -> None:
    made = generate_private_key(algorithm)
    loaded = load_private_pem(private_pem(made))
    assert loaded is not None
    assert public_jwk(loaded, algorithm=algorithm) == public_jwk(made, algorithm=algorithm)


def test_a_private_key_that_a_broker_does_not_sign_with_is_none() -> None:
    p384 = ec.generate_private_key(ec.SECP384R1())
    assert load_private_pem(private_pem(p384)) is None
    assert load_private_pem(private_pem(rsa.generate_private_key(public_exponent=65_537, key_size=1_024))) is None
    assert load_private_pem(b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n") is None
    assert isinstance(load_private_pem(private_pem(ed25519.Ed25519PrivateKey.generate())), ed25519.Ed25519PrivateKey)
