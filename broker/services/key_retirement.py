"""Revoked signing keys: what the feed says of them, to the key store.

A mark on a key counts for ever, so a snapshot says it again each time; giving up a key that was given up does nothing.
"""

from __future__ import annotations

import asyncio
from urllib.parse import unquote

from broker.domain.revocation.feed import Change, Snapshot
from broker.domain.revocation.scopes import is_key_scope
from broker.ports.keys import Signer


class KeyRetirement:
    """One for a process."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer
        self._done: set[str] = set()

    async def on_event(self, event: Change | Snapshot) -> None:
        """Give up the keys that an event revokes."""
        for scope in event.marks:
            if is_key_scope(scope) and scope not in self._done:
                await asyncio.to_thread(self._signer.retire, unquote(scope.partition(":")[2]))
                self._done.add(scope)
