"""`txn`: one id for one logical call, over all its rounds (RFC 8417 §2.2; MCP 2026-07-28, multi-round-trip requests).

1. A call gets a new `txn`; a call that a tool makes while it runs has the `txn` of the tool's own call, also where it makes it
   at another server, with its credential.
2. A round that asks the client for input ends with a `requestState`; the round that brings this state back, from the same
   principal for the same tool, continues the same call. What a client sends is looked up, never taken for a `txn`.
3. At most `MAX_OPEN` rounds are remembered, for `OPEN_SECONDS`; a forgotten one continues under a new `txn`.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

MAX_OPEN: Final = 1_024
OPEN_SECONDS: Final = 600


class Transactions:
    """Hands out and remembers the ids of logical calls."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._open: OrderedDict[bytes, tuple[str, float]] = OrderedDict()
        self._clock = clock

    def of(self, *, principal: tuple[str, ...], tool: str, state: str | None) -> str:
        """The id of a call, the earlier round's where `state` continues one."""
        if state is not None:
            found = self._open.pop(_key(principal, tool, state), None)
            if found is not None and self._clock() - found[1] <= OPEN_SECONDS:
                return found[0]
        return self.new()

    def new(self) -> str:
        """The id of a call that continues nothing."""
        return secrets.token_urlsafe(16)

    def await_next(self, txn: str, *, principal: tuple[str, ...], tool: str, state: str | None) -> None:
        """A round has ended that the client is to continue with `state`."""
        if state is None:
            return
        self._open[_key(principal, tool, state)] = (txn, self._clock())
        while len(self._open) > MAX_OPEN:
            self._open.popitem(last=False)


def _key(principal: tuple[str, ...], tool: str, state: str) -> bytes:
    return hashlib.sha256("\x00".join((*principal, tool, state)).encode("utf-8", "surrogatepass")).digest()
