"""Whether a signed token is acceptable: its header before the signature is checked, its claims after.

Header (RFC 7515 §4.1, RFC 8725 §3.1, §3.10, §3.11), in this order:
1. `crit`, whatever it holds: refused; no extension is understood here.
2. `alg`: one of the algorithms allowed for the issuer, in this very spelling; `none` and HMAC are in no list.
3. `typ`: one of the allowed types, case-insensitive, with or without `application/`; it may be absent only where plain
   `JWT` is allowed (RFC 7519 §5.1).
4. `kid`: a non-empty string where present. `jwk jku x5c x5u` are never looked at.

Claims (RFC 7519 §4.1, RFC 9068 §2.2, RFC 7523 §3), in this order:

| claim | must                                                                                                |
|-------|-----------------------------------------------------------------------------------------------------|
| iss   | be the expected issuer, character by character                                                      |
| aud   | be one string, or a list of just one, and an expected audience, character by character               |
| sub   | be 1–255 characters, none of them a control character; the expected subject where one is expected    |
| exp   | be a number later than now − leeway                                                                 |
| iat   | be a number, not later than now + leeway, and earlier than exp; exp − iat at most the allowed lifetime |
| nbf   | where present, be a number not later than now + leeway                                              |
| jti   | be 1–255 characters as `sub`; it may be absent only where the expectation says so                   |

A number is a JSON number, finite (RFC 7519 §2 allows fractions), and never a boolean. Other claims are not judged.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final, TypeGuard

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.errors import Reason, Refusal

MAX_NAME_CHARACTERS: Final = 255
_UNPRINTABLE: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Header:
    """The members of a JOSE header that are looked at. critical: it has a `crit` member, whatever that holds."""

    algorithm: str
    kid: str | None
    type: str | None
    critical: bool


@dataclass(frozen=True, slots=True)
class Expectation:
    """What claims must say. An empty `audiences` accepts nobody."""

    issuer: str
    audiences: tuple[str, ...]
    leeway_seconds: int
    max_lifetime_seconds: int
    subject: str | None = None
    require_jti: bool = True


@dataclass(frozen=True, slots=True)
class VerifiedClaims:
    """Claims that met an expectation. Instants are Unix seconds, rounded down; `claims` is all that the token says."""

    issuer: str
    audience: str
    subject: str
    issued_at: int
    expires_at: int
    jti: str | None
    claims: JsonObject


def read_header(members: JsonObject) -> Header | Refusal:
    """The header as values; refused where `alg`, `typ` or `kid` is not of its form."""
    algorithm, kid, kind = members.get("alg"), members.get("kid"), members.get("typ")
    if not isinstance(algorithm, str):
        return Refusal(Reason.TOKEN_MALFORMED, "the header has no alg", where="alg")
    if "typ" in members and not isinstance(kind, str):
        return Refusal(Reason.TOKEN_TYPE_INVALID, "typ is not a string", where="typ")
    if "kid" in members and not (isinstance(kid, str) and 0 < len(kid) <= MAX_NAME_CHARACTERS):
        return Refusal(Reason.TOKEN_MALFORMED, f"kid is not a string of 1 to {MAX_NAME_CHARACTERS}", where="kid")
    return Header(
        algorithm=algorithm,
        kid=kid if isinstance(kid, str) else None,
        type=kind if isinstance(kind, str) else None,
        critical="crit" in members,
    )


def check_header(header: Header, *, algorithms: tuple[str, ...], types: tuple[str, ...]) -> Refusal | None:
    """Header rules 1 to 3."""
    if header.critical:
        return Refusal(Reason.TOKEN_HEADER_CRITICAL, "no header extension is understood here", where="crit")
    if header.algorithm not in algorithms:
        return Refusal(Reason.TOKEN_ALGORITHM_REFUSED, f"expected one of {', '.join(algorithms)}", where="alg")
    kind = "JWT" if header.type is None else header.type
    bare = kind.lower().removeprefix("application/")
    if not any(bare == allowed.lower() for allowed in types):
        return Refusal(Reason.TOKEN_TYPE_INVALID, f"expected typ {' or '.join(types)}", where="typ")
    return None


def verify_claims(claims: JsonObject, expectation: Expectation, *, now: int) -> VerifiedClaims | Refusal:
    """Judge the claims of a token whose signature was right; `now` is Unix seconds."""
    if claims.get("iss") != expectation.issuer:
        if "iss" not in claims:
            return _missing("iss")
        return Refusal(Reason.TOKEN_ISSUER_UNKNOWN, "the token is of another issuer", where="iss")
    audience = _audience(claims, expectation.audiences)
    if isinstance(audience, Refusal):
        return audience
    subject = _name(claims, "sub")
    if isinstance(subject, Refusal):
        return subject
    if expectation.subject is not None and subject != expectation.subject:
        return Refusal(Reason.TOKEN_CLAIM_INVALID, "sub is not the expected subject", where="sub")
    times = _times(claims, expectation, now=now)
    if isinstance(times, Refusal):
        return times
    jti = _name(claims, "jti") if expectation.require_jti or "jti" in claims else None
    if isinstance(jti, Refusal):
        return jti
    issued_at, expires_at = times
    return VerifiedClaims(
        issuer=expectation.issuer,
        audience=audience,
        subject=subject,
        issued_at=issued_at,
        expires_at=expires_at,
        jti=jti,
        claims=claims,
    )


def _audience(claims: JsonObject, expected: tuple[str, ...]) -> str | Refusal:
    value = claims.get("aud")
    if isinstance(value, list):
        if not all(isinstance(member, str) for member in value):
            return Refusal(Reason.TOKEN_CLAIM_INVALID, "aud holds something that is not a string", where="aud")
        if len(value) != 1:
            return Refusal(Reason.TOKEN_AUDIENCE_MISMATCH, "a token is for exactly one audience", where="aud")
        value = value[0]
    if isinstance(value, str):
        if value in expected:
            return value
        return Refusal(Reason.TOKEN_AUDIENCE_MISMATCH, "the token is meant for another audience", where="aud")
    return _missing("aud") if "aud" not in claims else _invalid("aud", "a string, or a list of one")


def _name(claims: JsonObject, claim: str) -> str | Refusal:
    value = claims.get(claim)
    if isinstance(value, str) and 0 < len(value) <= MAX_NAME_CHARACTERS and not _UNPRINTABLE.search(value):
        return value
    if claim not in claims:
        return _missing(claim)
    return _invalid(claim, f"a string of 1 to {MAX_NAME_CHARACTERS} characters without control characters")


def _times(claims: JsonObject, expectation: Expectation, *, now: int) -> tuple[int, int] | Refusal:
    expires = claims.get("exp")
    if not _is_number(expires):
        return _no_number(claims, "exp")
    leeway = expectation.leeway_seconds
    if expires <= now - leeway:
        return Refusal(Reason.TOKEN_EXPIRED, "the token has expired: get a new one", where="exp")
    issued = claims.get("iat")
    if not _is_number(issued):
        return _no_number(claims, "iat")
    if issued > now + leeway:
        return Refusal(Reason.TOKEN_NOT_YET_VALID, "iat is in the future: check the clocks", where="iat")
    if expires <= issued:
        return _invalid("exp", "later than iat")
    if expires - issued > expectation.max_lifetime_seconds:
        return Refusal(
            Reason.TOKEN_LIFETIME_EXCESSIVE,
            f"exp is more than {expectation.max_lifetime_seconds} s after iat",
            where="exp",
        )
    if "nbf" in claims:
        begins = claims["nbf"]
        if not _is_number(begins):
            return _no_number(claims, "nbf")
        if begins > now + leeway:
            return Refusal(Reason.TOKEN_NOT_YET_VALID, "nbf is in the future", where="nbf")
    return math.floor(issued), math.floor(expires)


def _is_number(value: JsonValue) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _no_number(claims: JsonObject, claim: str) -> Refusal:
    return _invalid(claim, "a finite number") if claim in claims else _missing(claim)


def _missing(claim: str) -> Refusal:
    return Refusal(Reason.TOKEN_CLAIM_MISSING, f"the token has no {claim}", where=claim)


def _invalid(claim: str, expected: str) -> Refusal:
    return Refusal(Reason.TOKEN_CLAIM_INVALID, f"{claim} must be {expected}", where=claim)
