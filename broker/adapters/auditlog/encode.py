"""A record as the bytes that are stored: compact JSON, UTF-8, members sorted by name.

1. What is stored is what is hashed and what is read: a verifier never spells a record again.
2. A record is at most `MAX_RECORD_BYTES`. One that is longer gets its long texts cut and says so (`truncated`); where
   that does not help, it is refused.
3. A control record is what the store is rebuilt from, so nothing is ever cut in it, nor in a signed receipt; they are at
   most `MAX_CONTROL_BYTES`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import orjson

from broker.domain.audit.records import CONTROL, WHOLE, Record, record_json
from broker.domain.errors import AuditUnavailableError

MAX_RECORD_BYTES: Final = 16_384
MAX_CONTROL_BYTES: Final = 65_535
"""What an entry of a tlog-tiles bundle can hold."""

_LONG_TEXT: Final = 256
_OPTIONS: Final = orjson.OPT_SORT_KEYS


@dataclass(frozen=True, slots=True)
class Row:
    """A record, ready to be stored."""

    id: str
    type: str
    control: bool
    bytes: bytes


def encode_record(record: Record) -> Row:
    """The record as a row. Raises `AuditUnavailableError` where it is too large to be stored."""
    kind = record.type
    control = kind in CONTROL
    members = record_json(record)
    data = _spell(members)
    whole = kind in WHOLE
    limit = MAX_CONTROL_BYTES if whole else MAX_RECORD_BYTES
    if len(data) > limit and not whole:
        data = _spell({**members, **_shorten_members(members), "truncated": True})
    if len(data) > limit:
        raise AuditUnavailableError(f"a {kind} record of {len(data)} bytes cannot be stored; at most {limit} can")
    return Row(record.id, kind, control, data)


def _spell(members: dict[str, object]) -> bytes:
    try:
        return orjson.dumps(members, default=_plain, option=_OPTIONS)
    except TypeError:
        # Lone surrogates and integers beyond 64 bits, which JSON has and orjson has not.
        text = json.dumps(members, default=_plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return text.encode("ascii")


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, frozenset):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} has no place in a record")


def _shorten_members(members: dict[str, object]) -> dict[str, object]:
    # The names that bind a record to others are short by their own rules, so cutting cannot make two of them alike.
    return {name: _shorten(value) for name, value in members.items()}


def _shorten(value: object) -> object:
    match value:
        case str() if len(value) > _LONG_TEXT:
            return value[:_LONG_TEXT] + "…"
        case Mapping():
            return {name: _shorten(item) for name, item in value.items()}
        case list() | tuple():
            return [_shorten(item) for item in value]
    return value
