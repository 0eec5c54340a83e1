"""Tokens as `tests/vectors/jwt_jwks.json` describes them, made with cryptography alone, so that nothing judges itself."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from broker.domain.errors import Refusal
from broker.domain.tokens.keys import KeySet
from broker.domain.tokens.verify import Expectation, VerifiedClaims, check_header, verify_claims
from broker.engines.jwk import parse_jwks
from broker.engines.jws import read_unverified, verify
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

NOW = 1_790_000_000
ISSUER = "https://broker.example"
AUDIENCE = "https://tools.example/mcp"
VECTORS: dict[str, Any] = json.loads((Path(__file__).parent.parent / "vectors" / "jwt_jwks.json").read_text())

SUBJECT_TOKEN = Expectation(ISSUER, (AUDIENCE,), leeway_seconds=10, max_lifetime_seconds=43_200)
CREDENTIAL = Expectation(ISSUER, (AUDIENCE,), leeway_seconds=10, max_lifetime_seconds=300)

_HASHES = {"RS256": hashes.SHA256(), "RS512": hashes.SHA512()}


@cache
def key(name: str) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65_537, key_size=2_048)


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def public_members(name: str) -> dict[str, Any]:
    numbers = key(name).public_key().public_numbers()
    size = (numbers.n.bit_length() + 7) // 8
    return {"kty": "RSA", "e": b64(numbers.e.to_bytes(3)), "n": b64(numbers.n.to_bytes(size))}


def key_set(case: dict[str, Any]) -> KeySet:
    algorithms = case.get("key_algorithms", ["RS256"])
    members = [{**public_members(name), "kid": name, "alg": alg} for alg in algorithms for name in ("k1", "k2")]
    found = parse_jwks({"keys": members})
    assert isinstance(found, KeySet)
    return found


def make_token(case: dict[str, Any]) -> str:
    header = {**VECTORS["base"]["header"], **case.get("header", {})}
    claims = {**VECTORS["base"]["claims"], **case.get("claims", {})}
    for name in case.get("unset", []):
        del claims[name]
    for name in case.get("unset_header", []):
        del header[name]
    header = {name: public_members("evil") if value == "PUBLIC(evil)" else value for name, value in header.items()}
    payload = json.dumps({name: _instant(value) for name, value in claims.items()})
    for name, raw in case.get("raw_claims", {}).items():
        text = "9" * 5_000 if raw == "9*5000" else raw
        payload = re.sub(rf'"{name}": [0-9.]+', f'"{name}": {text}', payload)
    signed = f"{b64(json.dumps(header).encode())}.{b64(payload.encode())}"
    return f"{signed}.{_signature(signed.encode(), case.get('sign', {'key': 'k1'}))}"


def _instant(value: Any) -> Any:
    match = re.fullmatch(r'("?)\$NOW([+-][0-9.]+)?"?', value) if isinstance(value, str) else None
    if match is None:
        return value
    made = NOW + float(match[2] or 0)
    made = int(made) if made == int(made) else made
    return str(made) if match[1] else made


def _signature(signed: bytes, how: dict[str, str]) -> str:
    if "raw" in how:
        return how["raw"]
    if "hmac" in how:
        encoding = serialization.Encoding.PEM if how["hmac"] == "pem" else serialization.Encoding.DER
        secret = key("k1").public_key().public_bytes(encoding, serialization.PublicFormat.SubjectPublicKeyInfo)
        return b64(hmac.new(secret, signed, hashlib.sha256).digest())
    return b64(key(how["key"]).sign(signed, padding.PKCS1v15(), _HASHES[how.get("algorithm", "RS256")]))


def judge(token: str, keys: KeySet, expectation: Expectation) -> VerifiedClaims | Refusal:
    """The whole road of a token: framing, header, key, signature, claims."""
    unverified = read_unverified(token)
    if isinstance(unverified, Refusal):
        return unverified
    refusal = check_header(unverified.header, algorithms=("RS256", "ES256"), types=("at+jwt",))
    if refusal is not None:
        return refusal
    found = keys.find(kid=unverified.header.kid, algorithm=unverified.header.algorithm)
    if isinstance(found, Refusal):
        return found
    claims = verify(unverified, found)
    return claims if isinstance(claims, Refusal) else verify_claims(claims, expectation, now=NOW)


def verdict(outcome: VerifiedClaims | Refusal) -> str:
    return outcome.reason.value if isinstance(outcome, Refusal) else "accept"
