"""What was verified once, by the SHA-256 of the token: a signature does not change, so it is not checked again.

1. Only the signature is remembered. Times, trust, keys and whether a credential is active are looked at each time.
2. The token itself is not kept. At most `KEPT` are remembered, the oldest goes first.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Final, Generic, TypeVar

KEPT: Final = 16_384
What = TypeVar("What")


class Remembered(Generic[What]):
    """A bounded memory of tokens."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, What] = OrderedDict()

    def get(self, token: str) -> What | None:
        """What is remembered of a token."""
        return self._known.get(_name_of(token))

    def keep(self, token: str, what: What) -> None:
        """Remember something of a token."""
        self._known[_name_of(token)] = what
        if len(self._known) > KEPT:
            self._known.popitem(last=False)

    def drop(self, token: str) -> None:
        """Forget a token."""
        self._known.pop(_name_of(token), None)


def _name_of(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
