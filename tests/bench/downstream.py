"""The downstream check: CPU of this process for one request through `CredentialVerifier`, the broker's answer included."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from broker.gate.downstream import CredentialVerifier
from tests.bench.setup import SECRET


async def _app(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def check(issuer: str, tokens: list[str], *, concurrency: int) -> float:
    """CPU seconds a request."""
    verifier = CredentialVerifier(
        _app,
        issuer=issuer,
        audience="https://db.internal",
        client_id="db-api",
        client_secret=SECRET,
        scope_for=lambda scope: "db:read",
    )

    async def one(token: str) -> None:
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"authorization", f"Bearer {token}".encode())]
        scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers}
        await verifier(scope, receive, send)
        if sent[0]["status"] != 204:
            raise SystemExit(f"the downstream check refused a good credential: {sent}")

    async def worker(queue: list[str]) -> None:
        while queue:
            await one(queue.pop())

    await one(tokens[0])  # fetches the keys
    begun = time.process_time()
    await asyncio.gather(*(worker(tokens[number::concurrency]) for number in range(concurrency)))
    return (time.process_time() - begun) / len(tokens)
