"""Connections of strangers: what one may send beside bodies, and how long it may take over a head.

1. Request line, headers, trailers and chunk marks of one request are at most `MAX_HEAD_BYTES` together, give or take what
   one read brings. uvicorn bounds them in its slower parser only, and pays for a long one with the square of its length.
2. A head is there `HEAD_SECONDS` after its first byte, the first one of a connection that long after it was opened.
3. Who goes beyond that is hung up on; there is no request yet that could be answered.
4. There are as many connections as the process may have open files, less `KEPT_BACK` for its own: store, logs, keys, policy.
   Who comes then is hung up on. The process may have as many files as it may allow itself.
5. An endpoint can hang up, too, on who does not take what is sent (`http/feed.py`).
"""

from __future__ import annotations

import asyncio
import sys
from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from broker.http.feed import HANG_UP

if sys.platform != "win32":
    import resource

MAX_HEAD_BYTES: Final = 131_072
HEAD_SECONDS: Final = 5.0
KEPT_BACK: Final = 128
MOST_FILES: Final = 65_536


def most_connections() -> int:
    """How many there may be (rule 4); raises the soft limit of open files."""
    if sys.platform == "win32":
        return MOST_FILES - KEPT_BACK
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
        except (OSError, ValueError):
            pass  # it stays as it is
    return max(1, (MOST_FILES if soft == resource.RLIM_INFINITY else soft) - KEPT_BACK)


class BoundedConnection(HttpToolsProtocol):
    """For `uvicorn.Config(http=…)`."""

    _beside_bodies = 0
    _patience: asyncio.TimerHandle | None = None
    most = MOST_FILES

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.most:
            transport.abort()
        else:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._be_patient()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._beside_bodies += len(data)
        super().data_received(data)
        if self._beside_bodies > MAX_HEAD_BYTES:
            self._hang_up()

    def on_message_begin(self) -> None:
        self._beside_bodies = 0
        self._await_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._be_patient()
        super().on_headers_complete()
        self.scope["extensions"] = {**(self.scope.get("extensions") or {}), HANG_UP: self._hang_up}  # type: ignore[dict-item]

    def on_body(self, body: bytes) -> None:
        self._beside_bodies -= len(body)
        super().on_body(body)

    def _await_head(self) -> None:
        self._be_patient()
        self._patience = self.loop.call_later(HEAD_SECONDS, self._hang_up)

    def _be_patient(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _hang_up(self) -> None:
        self._be_patient()
        if not self.transport.is_closing():
            self.logger.debug("hung up on a connection whose head is too long or does not come")
            self.transport.abort()
