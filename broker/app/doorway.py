"""Before the broker has started: a replica that waits for the others must be able to tell them what it knows.

Until `open`, everything but health, readiness and the replicas' own questions is answered with 503.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import orjson

from broker.domain.errors import BrokerError, StoreUnclaimedError
from broker.http.errors import JSON, NO_STORE, Headers, render_failure

PASSED: Final = ("/healthz", "/replicas/")


class Doorway:
    """An ASGI app before the API. why: what stands in the way. request_id: makes one."""

    def __init__(
        self, api: Any, *, issuer: str, why: Callable[[], BrokerError | None], request_id: Callable[[], str]
    ) -> None:
        self._api = api
        self._issuer = issuer
        self._why = why
        self._request_id = request_id
        self._is_open = False

    def open(self) -> None:
        """The broker has started."""
        self._is_open = True

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._is_open or scope["type"] != "http" or scope["path"].startswith(PASSED):
            await self._api(scope, receive, send)
            return
        status, headers, body = self._answer(scope["path"])
        headers.append((b"content-length", b"%d" % len(body)))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _answer(self, path: str) -> tuple[int, Headers, bytes]:
        why = self._why() or StoreUnclaimedError("the broker has not started yet")
        if path == "/readyz":
            body = orjson.dumps({"status": "not ready", "checks": {"store": str(why)}})
            return 503, [JSON, NO_STORE, (b"retry-after", b"1")], body
        return render_failure(why, issuer=self._issuer, request_id=self._request_id())
