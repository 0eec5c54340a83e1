"""Compact JWS (RFC 7515 §7.1): framing read strictly once, signatures by PyJWT's algorithm objects.

1. At most `MAX_TOKEN_BYTES` characters, unless the caller says otherwise; three non-empty segments (so an unsigned token is no
   token here).
2. Each segment is base64url without padding, in its one canonical spelling (RFC 7515 §2, RFC 4648 §3.5).
3. Header and payload are JSON objects that have one reading (`domain.canonical`).
4. The algorithm is the key's; a header that names another one is refused (RFC 8725 §3.1).
5. Nothing in a token leads to a fetch: keys come from the caller.

PyJWT's own `decode` would parse the header a second time and let through what `domain.tokens.verify` refuses.
"""

from __future__ import annotations

import binascii
import json
from functools import lru_cache
from typing import Any, Final

from jwt.algorithms import Algorithm, get_default_algorithms

from broker.domain.canonical import JsonError, JsonObject, parse_json_object
from broker.domain.errors import Reason, Refusal
from broker.domain.policy.document import ALGORITHMS
from broker.domain.tokens.keys import VerificationKey
from broker.domain.tokens.verify import Header, read_header

MAX_TOKEN_BYTES: Final = 16_384
_CACHED_HEADER_CHARACTERS: Final = 1_024

_ENGINES: Final[dict[str, Algorithm]] = {
    name: engine for name, engine in get_default_algorithms().items() if name in ALGORITHMS
}
# The alphabet of base64url mapped onto base64's; what base64 has and base64url has not becomes an illegal character.
_TO_BASE64: Final = bytes.maketrans(b"-_+/=", b"+/!!!")
_FROM_BASE64: Final = bytes.maketrans(b"+/", b"-_")
_PADDING: Final = (b"", None, b"==", b"=")
# With two or three characters left over, the unused low bits of the last one are zero in the canonical spelling.
_LAST: Final = (b"", b"", b"AQgw", b"AEIMQUYcgkosw048")
_dump_text: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class UnverifiedToken:
    """A token that is well formed and nothing more. The payload is read at most once, when first asked for."""

    __slots__ = ("_claims", "_payload", "header", "signature", "signing_input")

    def __init__(self, header: Header, *, payload: bytes, signing_input: bytes, signature: bytes) -> None:
        self.header = header
        self.signing_input = signing_input
        self.signature = signature
        self._payload = payload
        self._claims: JsonObject | Refusal | None = None

    def unverified_claims(self) -> JsonObject | Refusal:
        """What the payload says, whoever wrote it; refused where it is no JSON object with one reading."""
        if self._claims is None:
            try:
                self._claims = parse_json_object(self._payload)
            except JsonError as error:
                self._claims = Refusal(Reason.TOKEN_MALFORMED, f"the payload: {error}")
        return self._claims


def read_unverified(token: str, *, limit: int = MAX_TOKEN_BYTES) -> UnverifiedToken | Refusal:
    """Take a compact JWS apart; nothing about it is trusted yet."""
    if len(token) > limit:
        return _malformed(f"a token has at most {limit} characters")
    segments = token.encode("ascii", "replace").split(b".")
    if len(segments) != 3:
        return _malformed("three segments joined by full stops were expected")
    head, body, tail = segments
    header = _cached_header(head) if len(head) <= _CACHED_HEADER_CHARACTERS else _read_header(head)
    if isinstance(header, Refusal):
        return header
    payload, signature = _decode(body), _decode(tail)
    if not payload or not signature:
        return _malformed("a segment is empty or not canonical base64url")
    return UnverifiedToken(header, payload=payload, signing_input=head + b"." + body, signature=signature)


def unverified_issuer(token: UnverifiedToken) -> str | None:
    """The `iss` that the token claims, to choose whose keys must verify it; None where it claims none."""
    claims = token.unverified_claims()
    issuer = None if isinstance(claims, Refusal) else claims.get("iss")
    return issuer if isinstance(issuer, str) else None


def verify(token: UnverifiedToken, key: VerificationKey) -> JsonObject | Refusal:
    """The claims, if the key made the signature."""
    if token.header.algorithm != key.algorithm:
        return Refusal(Reason.TOKEN_ALGORITHM_REFUSED, "the key is of another algorithm", where="alg")
    if not _ENGINES[key.algorithm].verify(token.signing_input, key.key, token.signature):
        return Refusal(Reason.TOKEN_SIGNATURE_INVALID, "the signature does not verify")
    return token.unverified_claims()


def sign(header: JsonObject, claims: JsonObject, private_key: Any, *, algorithm: str) -> str:
    """A compact JWS. `private_key` is what `engines.jwk` made; `alg` in the header is set from `algorithm`."""
    return sign_with_header(encode_header({**header, "alg": algorithm}), claims, private_key, algorithm=algorithm)


def encode_header(header: JsonObject) -> bytes:
    """A header as the first segment, ready for `sign_with_header`."""
    return encode_base64url(_dump(header))


def sign_with_header(header: bytes, claims: JsonObject, private_key: Any, *, algorithm: str) -> str:
    """A compact JWS under a header that was encoded before, which spares encoding it for every token."""
    signing_input = header + b"." + encode_base64url(_dump(claims))
    signature = _ENGINES[algorithm].sign(signing_input, private_key)
    return (signing_input + b"." + encode_base64url(signature)).decode("ascii")


def decode_base64url(text: str) -> bytes | None:
    """The bytes of unpadded base64url in its canonical spelling, or None where it is none."""
    return _decode(text.encode("ascii", "replace"))


def _decode(text: bytes) -> bytes | None:
    over = len(text) % 4
    padding = _PADDING[over]
    if padding is None or (over and text[-1] not in _LAST[over]):
        return None
    try:
        return binascii.a2b_base64(text.translate(_TO_BASE64) + padding, strict_mode=True)
    except ValueError:
        return None


def encode_base64url(data: bytes) -> bytes:
    """Unpadded base64url."""
    return binascii.b2a_base64(data, newline=False).translate(_FROM_BASE64, b"=")


def _dump(value: JsonObject) -> bytes:
    return _dump_text(value).encode("ascii")


def _read_header(segment: bytes) -> Header | Refusal:
    raw = _decode(segment)
    if not raw:
        return _malformed("the header is empty or not canonical base64url")
    try:
        members = parse_json_object(raw)
    except JsonError as error:
        return _malformed(f"the header: {error}")
    return read_header(members)


_cached_header: Final = lru_cache(maxsize=256)(_read_header)  # an issuer's headers are few and come again and again


def _malformed(detail: str) -> Refusal:
    return Refusal(Reason.TOKEN_MALFORMED, detail)
