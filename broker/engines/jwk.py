"""JWK Sets (RFC 7517, RFC 7518 §6, RFC 8037): strict reading, thumbprints, making and storing private keys.

A whole set is refused, with the reason, where it is not one that an issuer can have meant to publish:
1. not a JSON object with a `keys` list of 1 to `MAX_KEYS` objects, or a member name twice;
2. a symmetric key (`oct`), or a private member: the secret is out, and nothing signed with it is worth anything;
3. an RSA modulus under 2048 bits (RFC 8725 §3.5) or over 8192, or a point that is not on its curve;
4. an `alg` that contradicts the key, a `kid` that is no string, or one `kid` twice for one algorithm;
5. nothing left that can verify.

A single key is skipped, and said so, where it is for something else: encryption, an unknown `kty`, `crv` or `alg`.
A key without `alg` serves what its type can: P-256 ES256, P-384 ES384, P-521 ES512, Ed25519 EdDSA, RSA RS256 and PS256.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final, TypeAlias

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from broker.domain.canonical import JsonError, JsonObject, canonical_json, parse_json_object
from broker.domain.policy.document import ALGORITHMS
from broker.domain.tokens.keys import JwksError, KeySet, VerificationKey
from broker.engines.jws import decode_base64url, encode_base64url

PrivateKey: TypeAlias = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey
PublicKey: TypeAlias = ec.EllipticCurvePublicKey | rsa.RSAPublicKey | ed25519.Ed25519PublicKey

MAX_KEYS: Final = 64
MAX_KID_CHARACTERS: Final = 255
MIN_RSA_BITS: Final = 2_048
MAX_RSA_BITS: Final = 8_192

_PRIVATE_MEMBERS: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
_CURVES: Final[dict[str, tuple[ec.EllipticCurve, int, str]]] = {
    "P-256": (ec.SECP256R1(), 32, "ES256"),
    "P-384": (ec.SECP384R1(), 48, "ES384"),
    "P-521": (ec.SECP521R1(), 66, "ES512"),
}
_RSA_ALGORITHMS: Final = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
_RSA_DEFAULT: Final = ("RS256", "PS256")


class _Broken(Exception):
    """The whole set is refused."""


class _Skipped(Exception):
    """One key is for something else."""


def parse_jwks(document: bytes | JsonObject) -> KeySet | JwksError:
    """The keys of a JWK Set that can verify signatures."""
    try:
        return _read_set(parse_json_object(document) if isinstance(document, bytes) else document)
    except JsonError as error:
        return JwksError(f"not a JWK Set: {error}")
    except _Broken as broken:
        return JwksError(str(broken))


def _read_set(document: JsonObject) -> KeySet:
    listed = document.get("keys")
    if not isinstance(listed, list) or not listed:
        raise _Broken("not a JWK Set with at least one key")
    if len(listed) > MAX_KEYS:
        raise _Broken(f"{len(listed)} keys; at most {MAX_KEYS} are read")
    keys: list[VerificationKey] = []
    skipped: list[str] = []
    for index, jwk in enumerate(listed):
        try:
            if not isinstance(jwk, dict):
                raise _Broken("is not an object")
            keys.extend(_read_key(jwk))
        except _Skipped as other:
            skipped.append(f"key {index} {other}")
        except _Broken as broken:
            raise _Broken(f"key {index} {broken}") from None
    named = [(key.kid, key.algorithm) for key in keys if key.kid is not None]
    if len(set(named)) != len(named):
        raise _Broken("one kid stands twice for the same algorithm")
    if not keys:
        raise _Broken("no key in it can verify a signature: " + "; ".join(skipped))
    return KeySet(tuple(keys), tuple(skipped))


def _read_key(jwk: JsonObject) -> list[VerificationKey]:
    if jwk.get("kty") == "oct":
        raise _Broken("is symmetric")
    if _PRIVATE_MEMBERS & jwk.keys():
        raise _Broken("holds private members")
    kid, algorithm = jwk.get("kid"), jwk.get("alg")
    if kid is not None and not (isinstance(kid, str) and 0 < len(kid) <= MAX_KID_CHARACTERS):
        raise _Broken(f"has a kid that is not a string of 1 to {MAX_KID_CHARACTERS}")
    operations = jwk.get("key_ops")
    if jwk.get("use", "sig") != "sig" or (operations is not None and "verify" not in _texts(operations)):
        raise _Skipped("is not for signatures")
    if algorithm is not None and algorithm not in ALGORITHMS:
        raise _Skipped("has an algorithm that is not used here")
    public, served = _read_public(jwk)
    if algorithm is None:
        return [VerificationKey(kid, each, public) for each in served]
    if algorithm in served or (isinstance(public, rsa.RSAPublicKey) and algorithm in _RSA_ALGORITHMS):
        return [VerificationKey(kid, str(algorithm), public)]
    raise _Broken("has an alg that its kty and crv contradict")


def _texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _read_public(jwk: JsonObject) -> tuple[PublicKey, tuple[str, ...]]:
    try:
        match jwk.get("kty"), jwk.get("crv"):
            case "RSA", _:
                return _read_rsa(jwk), _RSA_DEFAULT
            case "EC", str(name) if name in _CURVES:
                curve, size, algorithm = _CURVES[name]
                x, y = _bytes(jwk, "x", size=size), _bytes(jwk, "y", size=size)
                point = ec.EllipticCurvePublicNumbers(int.from_bytes(x), int.from_bytes(y), curve)
                return point.public_key(), (algorithm,)
            case "OKP", "Ed25519":
                return ed25519.Ed25519PublicKey.from_public_bytes(_bytes(jwk, "x", size=32)), ("EdDSA",)
            case _:
                raise _Skipped("has a kty or crv that is not used here")
    except (ValueError, UnsupportedAlgorithm):
        raise _Broken("is not a valid key of its kind") from None


def _read_rsa(jwk: JsonObject) -> rsa.RSAPublicKey:
    modulus, exponent = int.from_bytes(_bytes(jwk, "n")), int.from_bytes(_bytes(jwk, "e"))
    if not MIN_RSA_BITS <= modulus.bit_length() <= MAX_RSA_BITS:
        raise _Broken(f"is RSA of {modulus.bit_length()} bits; expected {MIN_RSA_BITS} to {MAX_RSA_BITS}")
    if not 3 <= exponent < 2**32:
        raise _Broken("is RSA with an exponent below 3 or above 32 bits")
    return rsa.RSAPublicNumbers(exponent, modulus).public_key()


def _bytes(jwk: JsonObject, member: str, *, size: int | None = None) -> bytes:
    value = jwk.get(member)
    raw = decode_base64url(value) if isinstance(value, str) and len(value) <= 4 * MAX_RSA_BITS else None
    if not raw or (size is not None and len(raw) != size):
        raise _Broken(f"has no valid {member}")
    return raw


def generate_private_key(algorithm: str) -> PrivateKey:
    """A new key for ES256, RS256 or EdDSA, the algorithms that a broker signs with."""
    match algorithm:
        case "ES256":
            return ec.generate_private_key(ec.SECP256R1())
        case "RS256":
            return rsa.generate_private_key(public_exponent=65_537, key_size=MIN_RSA_BITS)
        case "EdDSA":
            return ed25519.Ed25519PrivateKey.generate()
    raise ValueError(f"no keys are made for {algorithm}")


def signing_algorithm(key: Any) -> str | None:
    """The algorithm that a private key signs with, or None where it is none of a broker's."""
    match key:
        case ec.EllipticCurvePrivateKey(curve=ec.SECP256R1()):
            return "ES256"
        case rsa.RSAPrivateKey() if key.key_size >= MIN_RSA_BITS:
            return "RS256"
        case ed25519.Ed25519PrivateKey():
            return "EdDSA"
    return None


def public_jwk(key: PrivateKey, *, algorithm: str) -> JsonObject:
    """The public half as a JWK; `kid` is its thumbprint (RFC 7638)."""
    required: JsonObject
    match key:
        case ec.EllipticCurvePrivateKey():
            point = key.public_key().public_numbers()
            size = (key.curve.key_size + 7) // 8
            name = next(name for name, (curve, _, _) in _CURVES.items() if curve.name == key.curve.name)
            required = {"crv": name, "kty": "EC", "x": _uint(point.x, size), "y": _uint(point.y, size)}
        case rsa.RSAPrivateKey():
            numbers = key.public_key().public_numbers()
            required = {"e": _uint(numbers.e), "kty": "RSA", "n": _uint(numbers.n)}
        case ed25519.Ed25519PrivateKey():
            raw = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
            required = {"crv": "Ed25519", "kty": "OKP", "x": encode_base64url(raw).decode()}
    return {**required, "kid": thumbprint(required), "alg": algorithm, "use": "sig"}


def thumbprint(required: JsonObject) -> str:
    """RFC 7638 §3 over the required members of a public key, with SHA-256."""
    return encode_base64url(hashlib.sha256(canonical_json(required)).digest()).decode()


def _uint(value: int, size: int | None = None) -> str:
    return encode_base64url(value.to_bytes(size or (value.bit_length() + 7) // 8)).decode()


def private_pem(key: PrivateKey) -> bytes:
    """PKCS #8, PEM, not encrypted: the file's mode protects it."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def load_private_pem(pem: bytes) -> PrivateKey | None:
    """The private key in a PEM file, or None where it holds none that a broker signs with."""
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return key if signing_algorithm(key) else None  # type: ignore[return-value]  # signing_algorithm saw to it
