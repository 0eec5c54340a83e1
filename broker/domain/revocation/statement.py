"""The signed statement of a receipt: claims of a JWS whose `typ` is `TYPE`. Format 1; grows only.

| claim              | says                                                                                              |
|--------------------|---------------------------------------------------------------------------------------------------|
| v                  | format                                                                                            |
| iss · iat · jti    | which broker, when it was given (Unix seconds), id of its audit record                            |
| gen · seq          | the point of the revocation                                                                       |
| revoked            | the revocation scopes: what was minted before and stands in one of them is dead                   |
| change · at · by   | audit record, time and administrator of the revocation; null where another broker has that record |
| recorded           | whether the audit log had the revocation when this was given                                      |
| lease_ms           | how long a lease is                                                                               |
| elapsed_ms         | how long ago the store had acted, at least, by its own clock; at most what a lease can last       |
| expired            | verifiers that had not said that they applied it, and whose leases had run out                    |
| acknowledged       | verifiers that had said so                                                                        |
| unlisted           | how many more of each there were; only where they are more than `MAX_LISTED_BYTES` hold           |

A verifier is `{verifier, client, applied}`: its own name for itself, the client that it authenticated as, and how far it had
got, `gen:seq`. Those whose leases ran out are listed first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from broker.domain.canonical import MAX_INTEGER, JsonObject, JsonValue
from broker.domain.revocation.feed import Point, parse_point, spell_point
from broker.domain.revocation.lease import Holder, Receipt
from broker.domain.revocation.scopes import RevocationScope

TYPE: Final = "revocation-receipt+jwt"
FORMAT: Final = 1
MAX_LISTED_BYTES: Final = 40_000
"""In Base64url, with the rest of the record, still what one entry of the audit log can hold."""

_encode: Final = json.JSONEncoder(separators=(",", ":")).encode


class StatementError(ValueError):
    """The claims are not those of a receipt, or of a format that is not known here."""


@dataclass(frozen=True, slots=True)
class Revocation:
    """What was revoked. change, at, by: of its own audit record, None where that is in another log."""

    point: Point
    revoked: tuple[RevocationScope, ...]
    change: str | None = None
    at: str | None = None
    by: str | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """A receipt as it is signed. unlisted: how many acknowledged and expired verifiers are not named for want of room."""

    issuer: str
    id: str
    issued_at: int
    revocation: Revocation
    recorded: bool
    lease_ms: int
    elapsed_ms: int
    acknowledged: tuple[Holder, ...]
    expired: tuple[Holder, ...]
    unlisted_acknowledged: int = 0
    unlisted_expired: int = 0

    @property
    def acknowledged_count(self) -> int:
        return len(self.acknowledged) + self.unlisted_acknowledged

    @property
    def expired_count(self) -> int:
        return len(self.expired) + self.unlisted_expired


def state(
    receipt: Receipt,
    revocation: Revocation,
    *,
    issuer: str,
    id: str,  # noqa: A002
    issued_at: int,
    recorded: bool,
    lease_ms: int,
    elapsed_ms: int,
) -> Statement:
    """The statement of a complete receipt. Raises `ValueError` for one that is not complete, or of another point."""
    if not receipt.is_complete or receipt.point != revocation.point:
        raise ValueError("a receipt is stated once it is complete, and of its own revocation")
    expired, room = _listed(receipt.expired, MAX_LISTED_BYTES)
    acknowledged, _ = _listed(receipt.acknowledged, room)
    return Statement(
        issuer=issuer,
        id=id,
        issued_at=issued_at,
        revocation=revocation,
        recorded=recorded,
        lease_ms=lease_ms,
        elapsed_ms=elapsed_ms,
        acknowledged=acknowledged,
        expired=expired,
        unlisted_acknowledged=len(receipt.acknowledged) - len(acknowledged),
        unlisted_expired=len(receipt.expired) - len(expired),
    )


def _listed(holders: Iterable[Holder], room: int) -> tuple[tuple[Holder, ...], int]:
    """As many of them as there is room for, and the room that is left."""
    listed: list[Holder] = []
    for holder in holders:
        size = len(_encode(holder_json(holder))) + 1
        if size > room:
            return tuple(listed), 0
        room -= size
        listed.append(holder)
    return tuple(listed), room


def holder_json(holder: Holder) -> JsonObject:
    """A verifier as a statement names it."""
    return {"verifier": holder.verifier, "client": holder.client, "applied": spell_point(holder.applied)}


def statement_claims(statement: Statement) -> JsonObject:
    """The claims to sign."""
    told = statement.revocation
    claims: JsonObject = {
        "v": FORMAT,
        "iss": statement.issuer,
        "iat": statement.issued_at,
        "jti": statement.id,
        "gen": told.point.gen,
        "seq": told.point.seq,
        "revoked": [str(scope) for scope in told.revoked],
        "change": told.change,
        "at": told.at,
        "by": told.by,
        "recorded": statement.recorded,
        "lease_ms": statement.lease_ms,
        "elapsed_ms": statement.elapsed_ms,
        "expired": [holder_json(holder) for holder in statement.expired],
        "acknowledged": [holder_json(holder) for holder in statement.acknowledged],
    }
    if statement.unlisted_acknowledged or statement.unlisted_expired:
        claims["unlisted"] = {
            "expired": statement.unlisted_expired,
            "acknowledged": statement.unlisted_acknowledged,
        }
    return claims


def read_statement(claims: JsonObject) -> Statement:
    """A statement from verified claims. Raises `StatementError`."""
    if claims.get("v") != FORMAT or isinstance(claims.get("v"), bool):
        raise StatementError(f"a receipt of format {claims.get('v')!r}; format {FORMAT} is known here")
    unlisted = claims.get("unlisted", {"expired": 0, "acknowledged": 0})
    recorded = claims.get("recorded")
    if not isinstance(unlisted, dict) or not isinstance(recorded, bool):
        raise StatementError("unlisted is no object, or recorded neither true nor false")
    point = Point(_number(claims, "gen"), _number(claims, "seq"))
    return Statement(
        issuer=_text(claims, "iss"),
        id=_text(claims, "jti"),
        issued_at=_number(claims, "iat"),
        revocation=Revocation(
            point,
            tuple(RevocationScope(_name(scope, "revoked")) for scope in _list(claims, "revoked")),
            change=_text_or_none(claims, "change"),
            at=_text_or_none(claims, "at"),
            by=_text_or_none(claims, "by"),
        ),
        recorded=recorded,
        lease_ms=_number(claims, "lease_ms"),
        elapsed_ms=_number(claims, "elapsed_ms"),
        acknowledged=tuple(_holder(each) for each in _list(claims, "acknowledged")),
        expired=tuple(_holder(each) for each in _list(claims, "expired")),
        unlisted_acknowledged=_number(unlisted, "acknowledged"),
        unlisted_expired=_number(unlisted, "expired"),
    )


def _holder(value: JsonValue) -> Holder:
    if not isinstance(value, dict):
        raise StatementError("a verifier is no object")
    applied = parse_point(_text(value, "applied"))
    if applied is None:
        raise StatementError("a verifier's applied is not gen:seq")
    return Holder(_text(value, "verifier"), _text(value, "client"), applied)


def _number(value: JsonObject, name: str) -> int:
    found = value.get(name)
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found <= MAX_INTEGER:
        raise StatementError(f"{name} is not a whole number")
    return found


def _list(value: JsonObject, name: str) -> list[JsonValue]:
    found = value.get(name)
    if not isinstance(found, list):
        raise StatementError(f"{name} is not a list")
    return found


def _name(value: JsonValue, name: str) -> str:
    if not isinstance(value, str):
        raise StatementError(f"{name} is not a text")
    return value


def _text(value: JsonObject, name: str) -> str:
    return _name(value.get(name), name)


def _text_or_none(value: JsonObject, name: str) -> str | None:
    return None if name in value and value[name] is None else _text(value, name)
