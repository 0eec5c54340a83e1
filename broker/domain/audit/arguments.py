"""Arguments in the log: keyed digests, one a leaf, so that equal values can be found and none can be read.

1. A leaf is a value that is neither an object nor an array, and an empty object or array; it is named by its JSON pointer
   (RFC 6901).
2. Its digest is HMAC-SHA-256 over the pointer, a zero byte and the value's RFC 8785 spelling, numbers and booleans
   included, under a versioned key: `hk1:<32 hex>`, the first 16 bytes.
3. A pointer that is longer than `MAX_POINTER_CHARACTERS`, or not plain ASCII, is somebody's text and no name: a digest of it
   stands in its place, after `…`. So a record keeps its size, whatever a caller makes up.
4. More than `MAX_LEAVES` leaves are not named one by one: the rest is one digest under the name `…`.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from broker.domain.canonical import JsonObject, JsonValue, canonical_json
from broker.domain.schema.dialect import escape

MAX_LEAVES: Final = 64
MAX_POINTER_CHARACTERS: Final = 96


@dataclass(frozen=True, slots=True)
class DigestKey:
    """A key for argument digests; `version` is written with every digest."""

    version: int
    secret: bytes = field(repr=False)


def digest_arguments(arguments: JsonObject, *, key: DigestKey) -> dict[str, str]:
    """Pointer → `hk<version>:<hex>` for every leaf of the arguments."""
    leaves = list(_leaves(arguments, ""))
    made = {_name(pointer, key): _digest(pointer, value, key) for pointer, value in leaves[:MAX_LEAVES]}
    if len(leaves) > MAX_LEAVES:
        made["…"] = _digest("…", [[pointer, value] for pointer, value in leaves[MAX_LEAVES:]], key)
    return made


def _name(pointer: str, key: DigestKey) -> str:
    if len(pointer) <= MAX_POINTER_CHARACTERS and pointer.isascii() and pointer.isprintable():
        return pointer
    return "…" + _digest(pointer, None, key)


def _leaves(value: JsonValue, pointer: str) -> Iterator[tuple[str, JsonValue]]:
    if isinstance(value, dict) and value:
        for name, child in value.items():
            yield from _leaves(child, f"{pointer}/{escape(name)}")
    elif isinstance(value, list) and value:
        for index, child in enumerate(value):
            yield from _leaves(child, f"{pointer}/{index}")
    else:
        yield pointer, value


def _digest(pointer: str, value: JsonValue, key: DigestKey) -> str:
    made = _keyed(key.secret).copy()
    made.update(pointer.encode("utf-8", "surrogatepass") + b"\x00" + canonical_json(value))
    return f"hk{key.version}:{made.hexdigest()[:32]}"


@lru_cache(maxsize=16)
def _keyed(secret: bytes) -> hmac.HMAC:
    """HMAC with the key taken in; a copy of it costs a fraction of a new one."""
    return hmac.new(secret, digestmod="sha256")
