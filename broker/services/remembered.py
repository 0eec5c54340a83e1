"""What was verified once, by the SHA-256 of the token: a signature does not change, so it is not checked again.

1. Only the signature is remembered. Times, trust, keys and whether a credential is active are looked at each time.
2. The token itself is not kept. At most `KEPT` are remembered, of at most `KEPT_CHARACTERS` together, since what a token
   says is kept with it; the oldest goes first.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Final, Generic, TypeVar

KEPT: Final = 16_384
KEPT_CHARACTERS: Final = 16_777_216
What = TypeVar("What")


class Remembered(Generic[What]):
    """A bounded memory of tokens."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, tuple[What, int]] = OrderedDict()
        self._characters = 0

    def get(self, token: str) -> What | None:
        """What is remembered of a token."""
        found = self._known.get(_name_of(token))
        return None if found is None else found[0]

    def keep(self, token: str, what: What) -> None:
        """Remember something of a token."""
        name = _name_of(token)
        self._drop(name)
        self._known[name] = (what, len(token))
        self._characters += len(token)
        while len(self._known) > KEPT or self._characters > KEPT_CHARACTERS:
            self._characters -= self._known.popitem(last=False)[1][1]

    def drop(self, token: str) -> None:
        """Forget a token."""
        self._drop(_name_of(token))

    def _drop(self, name: bytes) -> None:
        dropped = self._known.pop(name, None)
        if dropped is not None:
            self._characters -= dropped[1]


def _name_of(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
