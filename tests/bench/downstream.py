"""The downstream check: CPU of this process for one request through `CredentialVerifier`.

`check` asks the broker for each request, its answer included. `check_locally` follows the broker's revocations, and takes the
check apart: what it would cost to check the signature alone, and what the feed adds to that.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broker.domain.errors import Refusal
from broker.domain.revocation.view import Standing
from broker.engines import jws
from broker.gate.broker_http import addresses
from broker.gate.client_auth import load_client_auth
from broker.gate.credentials import CredentialReader, Presented
from broker.gate.downstream import CredentialVerifier
from broker.gate.following import Following
from broker.gate.keys import broker_keys
from tests.bench.setup import SECRET

AUDIENCE = "https://db.internal"
FEED_LIMIT_US = 10.0
ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Local:
    """CPU microseconds a credential. signature: the check of its signature alone, as often, in the same loop of nothing else.

    first: never seen. again: seen before. feed: what the feed says of it, which is part of both.
    """

    signature: float
    first: float
    again: float
    feed: float


async def _app(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def check(issuer: str, tokens: list[str], *, concurrency: int) -> float:
    """CPU seconds a request where the broker is asked about each."""
    verifier = CredentialVerifier(
        _app,
        issuer=issuer,
        audience=AUDIENCE,
        client_id="db-api",
        client_secret=SECRET,
        scope_for=lambda scope: "db:read",
        online=True,
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
    spent = (time.process_time() - begun) / len(tokens)
    await verifier.aclose()
    return spent


async def check_locally(issuer: str, tokens: list[str]) -> Local:
    """What the parts of a local check cost, medians of some rounds over all these credentials."""
    auth = load_client_auth("db-api", issuer=issuer, secret=SECRET)
    urls = addresses(None, issuer=issuer)
    source, keys = broker_keys(urls)
    with tempfile.TemporaryDirectory() as folder:
        following = Following(urls, auth, issuer=issuer, state_file=Path(folder) / "state.json")
        try:
            following.start()
            header = _unverified(tokens[0]).header
            key = await keys.find(source, kid=header.kid, algorithm=header.algorithm)
            assert not isinstance(key, Refusal)
            unverified = [_unverified(token) for token in tokens]
            rounds = []
            for _ in range(ROUNDS):
                reader = CredentialReader(keys, source, issuer=issuer, audience=AUDIENCE)
                seen: list[Presented] = []

                async def whole(token: str, reader: CredentialReader = reader, seen: list[Presented] = seen) -> None:
                    presented = await reader.read(token)
                    if isinstance(presented, Refusal) or await following.judge(presented) is not Standing.ALIVE:
                        raise SystemExit("the local check refused a good credential")
                    seen.append(presented)

                async def feed(presented: Presented) -> None:
                    await following.judge(presented)

                async def signature(token: jws.UnverifiedToken) -> None:
                    if not jws._ENGINES["ES256"].verify(token.signing_input, key.key, token.signature):
                        raise SystemExit("a signature of the broker's does not verify")

                rounds.append(
                    (
                        await _spent(signature, unverified),
                        await _spent(whole, tokens),
                        await _spent(whole, tokens),
                        await _spent(feed, list(seen[: len(tokens)])),
                    )
                )
        finally:
            await following.aclose()
            await keys.close()
    return Local(*(statistics.median(column) * 1e6 for column in zip(*rounds, strict=True)))


def _unverified(token: str) -> jws.UnverifiedToken:
    found = jws.read_unverified(token)
    assert not isinstance(found, Refusal)
    return found


async def _spent(work: Callable[[Any], Awaitable[None]], over: list[Any]) -> float:
    """CPU seconds each, of this thread alone."""
    begun = time.thread_time()
    for one in over:
        await work(one)
    return (time.thread_time() - begun) / len(over)
