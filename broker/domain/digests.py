"""The digest of a JSON value: SHA-256 over its RFC 8785 spelling, so that equal values have equal digests."""

from __future__ import annotations

import hashlib

from broker.domain.canonical import canonical_json
from broker.domain.ids import Digest


def digest_of(value: object) -> Digest:
    """`sha256:` and 64 hex digits. Raises `JsonError` where the value has no canonical spelling."""
    return Digest("sha256:" + hashlib.sha256(canonical_json(value)).hexdigest())
