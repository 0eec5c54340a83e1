"""RFC 7515: compact framing, and the examples of its appendix A.3 and of RFC 8037 A.4."""

from __future__ import annotations

import json

import pytest
from broker.domain.errors import Reason, Refusal
from broker.domain.tokens.keys import KeySet, VerificationKey
from broker.engines.jwk import generate_private_key, parse_jwks, public_jwk
from broker.engines.jws import MAX_TOKEN_BYTES, UnverifiedToken, read_unverified, sign, unverified_issuer, verify
from jwt_cases import b64

HEAD = b64(b'{"alg":"ES256"}')
BODY = b64(b'{"iss":"joe"}')
ISS_5 = b64(b'{"iss":5}')
ALG_TWICE = b64(b'{"alg":"ES256","alg":"none"}')
NOT_UTF8 = b64(b'{"alg":"\xff"}')
ED_HEAD = b64(b'{"alg":"EdDSA"}')

A3_KEY = {
    "kty": "EC",
    "crv": "P-256",
    "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
}
A3_TOKEN = (
    "eyJhbGciOiJFUzI1NiJ9"
    ".eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
    ".DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
)
RFC8037_KEY = {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
RFC8037_TOKEN = (
    "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc"
    ".hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"
)


def only_key(jwk: dict[str, str]) -> VerificationKey:
    found = parse_jwks({"keys": [dict(jwk)]})
    assert isinstance(found, KeySet)
    return found.keys[0]


def read(token: str) -> UnverifiedToken:
    found = read_unverified(token)
    assert isinstance(found, UnverifiedToken)
    return found


def test_the_ecdsa_example_verifies() -> None:
    claims = verify(read(A3_TOKEN), only_key(A3_KEY))
    assert claims == {"iss": "joe", "exp": 1_300_819_380, "http://example.com/is_root": True}


def test_the_eddsa_example_verifies_and_only_then_is_its_text_seen_to_be_no_json() -> None:
    outcome = verify(read(RFC8037_TOKEN), only_key(RFC8037_KEY))
    assert isinstance(outcome, Refusal)
    assert outcome.reason is Reason.TOKEN_MALFORMED
    bent = RFC8037_TOKEN[:-3] + "AAg"
    spoilt = verify(read(bent), only_key(RFC8037_KEY))
    assert isinstance(spoilt, Refusal)
    assert spoilt.reason is Reason.TOKEN_SIGNATURE_INVALID


def test_the_issuer_is_read_before_the_signature_and_called_unverified() -> None:
    assert unverified_issuer(read(f"{HEAD}.{BODY}.AAAA")) == "joe"
    assert unverified_issuer(read(f"{HEAD}.{b64(b'[1]')}.AAAA")) is None
    assert unverified_issuer(read(f"{HEAD}.{ISS_5}.AAAA")) is None


@pytest.mark.parametrize(
    ("name", "token"),
    [
        ("nothing", ""),
        ("two segments", f"{HEAD}.{BODY}"),
        ("four segments", f"{HEAD}.{BODY}.AAAA.AAAA"),
        ("five segments, as an encrypted token has", f"{HEAD}.A.A.A.A"),
        ("no header", f".{BODY}.AAAA"),
        ("no payload", f"{HEAD}..AAAA"),
        ("no signature", f"{HEAD}.{BODY}."),
        ("padding", f"{HEAD}.{BODY}.AA=="),
        ("a character of plain base64", f"{HEAD}.{BODY}.AA+/"),
        ("a length that base64url cannot have", f"{HEAD}.{BODY}.AAAAA"),
        ("unused bits that are not zero, of two characters", f"{HEAD}.{BODY}.AB"),
        ("unused bits that are not zero, of three characters", f"{HEAD}.{BODY}.AAB"),
        ("white space", f"{HEAD}.{BODY}. AAA"),
        ("a line feed at the end", f"{HEAD}.{BODY}.AAAA\n"),
        ("a character that is not ASCII", f"{HEAD}.{BODY}.AAA\u00c4"),
        ("a lone surrogate", f"{HEAD}.{BODY}.AAA\ud800"),
        ("a header that is no JSON", f"{b64(b'alg')}.{BODY}.AAAA"),
        ("a header that is no object", f"{b64(b'[]')}.{BODY}.AAAA"),
        ("a header member twice", f"{ALG_TWICE}.{BODY}.AAAA"),
        ("a header without alg", f"{b64(b'{}')}.{BODY}.AAAA"),
        ("a header that is not UTF-8", f"{NOT_UTF8}.{BODY}.AAAA"),
        ("too much", f"{HEAD}.{'A' * MAX_TOKEN_BYTES}.AAAA"),
    ],
)
def test_what_is_not_a_compact_jws_is_refused(name: str, token: str) -> None:
    outcome = read_unverified(token)
    assert isinstance(outcome, Refusal), name
    assert outcome.reason is Reason.TOKEN_MALFORMED


@pytest.mark.parametrize("payload", [b'{"iss":"joe","iss":"eve"}', b"[1]", b'{"a":1e999}', b"\xff\xfe"])
def test_a_signed_payload_with_no_single_reading_is_refused(payload: bytes) -> None:
    private = generate_private_key("EdDSA")
    signed = f"{ED_HEAD}.{b64(payload)}"
    token = f"{signed}.{b64(private.sign(signed.encode()))}"  # type: ignore[union-attr, call-arg]
    outcome = verify(read(token), only_key(public_jwk(private, algorithm="EdDSA")))  # type: ignore[arg-type]
    assert isinstance(outcome, Refusal)
    assert outcome.reason is Reason.TOKEN_MALFORMED


@pytest.mark.parametrize("algorithm", ["ES256", "RS256", "EdDSA"])
def test_what_is_signed_here_verifies_here_and_in_pyjwt(algorithm: str) -> None:
    import jwt

    private = generate_private_key(algorithm)
    jwk = public_jwk(private, algorithm=algorithm)
    claims = {"iss": "joe", "n": 2**53 - 1, "t": "é€😀", "nested": {"list": [1, None, True]}}
    token = sign({"typ": "at+jwt", "kid": jwk["kid"]}, claims, private, algorithm=algorithm)  # type: ignore[arg-type]
    assert verify(read(token), only_key(jwk)) == claims  # type: ignore[arg-type]
    assert jwt.decode(token, jwt.PyJWK(jwk).key, algorithms=[algorithm], options={"verify_iat": False}) == claims
    assert json.loads(json.dumps(jwt.get_unverified_header(token)))["alg"] == algorithm


def test_a_key_of_another_algorithm_does_not_judge() -> None:
    private = generate_private_key("RS256")
    jwk = {**public_jwk(private, algorithm="RS256"), "alg": "PS256"}
    token = sign({}, {"iss": "joe"}, private, algorithm="RS256")
    outcome = verify(read(token), only_key(jwk))  # type: ignore[arg-type]
    assert isinstance(outcome, Refusal)
    assert outcome.reason is Reason.TOKEN_ALGORITHM_REFUSED
