"""The broker's or an issuer's keys inside an MCP server: fetched over HTTP, kept by the same schedule as at the broker.

1. https, or http to a loopback address; redirects are not followed.
2. `DEADLINE_SECONDS` for everything together, and at most `MAX_BYTES` of a body that is not compressed.
3. The set and its schedule are `engines.key_cache` and `domain.tokens.keyset`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections.abc import Callable
from typing import Final

import httpx2

from broker.domain.errors import Refusal
from broker.domain.tokens.keys import VerificationKey
from broker.domain.tokens.keyset import Schedule
from broker.engines.key_cache import KeyCache, KeysUnreadableError
from broker.gate.tls import tls_context

DEADLINE_SECONDS: Final = 2.0
MAX_BYTES: Final = 262_144
_HEADERS: Final = {"Accept": "application/jwk-set+json, application/json", "Accept-Encoding": "identity"}


class GateKeys:
    """The keys behind one `jwks_uri`, which may be had at several addresses: the one that last gave them is asked first.

    Raises `ValueError` for a URL that is neither https nor http on loopback.
    """

    def __init__(
        self, *urls: str, schedule: Schedule | None = None, seconds: Callable[[], float] = time.monotonic
    ) -> None:
        for url in urls:
            if not _is_fetchable(url):
                raise ValueError(f"{url} is neither https nor http on loopback: keys from it cannot be trusted")
        self._urls = list(urls)
        trusted = tls_context(trust_env=True)
        plain = httpx2.AsyncHTTPTransport(verify=trusted)
        self._client = httpx2.AsyncClient(timeout=DEADLINE_SECONDS, verify=trusted, mounts={"http://": plain})
        self._cache = KeyCache(urls[0], self._fetch, schedule=schedule or Schedule(), seconds=seconds)

    async def find(self, *, kid: str | None, algorithm: str) -> VerificationKey | Refusal:
        """The one key that fits. Refused: `TOKEN_KEY_UNKNOWN`, or `TOKEN_KEYS_UNAVAILABLE` where no set is known."""
        return await self._cache.find(kid=kid, algorithm=algorithm)

    async def close(self) -> None:
        """Give up a fetch under way and close the connections."""
        await self._cache.close()
        await self._client.aclose()

    async def _fetch(self) -> bytes:
        for _ in self._urls[1:]:
            try:
                return await self._fetch_first()
            except KeysUnreadableError:
                self._urls.append(self._urls.pop(0))
        return await self._fetch_first()

    async def _fetch_first(self) -> bytes:
        try:
            async with asyncio.timeout(DEADLINE_SECONDS / len(self._urls)):
                return await self._get()
        except TimeoutError:
            raise KeysUnreadableError(f"no complete answer within {DEADLINE_SECONDS:g} s") from None
        except (httpx2.HTTPError, OSError) as error:
            raise KeysUnreadableError(f"the request failed: {type(error).__name__}") from error

    async def _get(self) -> bytes:
        async with self._client.stream("GET", self._urls[0], headers=_HEADERS, follow_redirects=False) as response:
            if response.status_code != 200:
                raise KeysUnreadableError(f"status {response.status_code}; 200 was expected")
            if response.headers.get("content-encoding", "identity") != "identity":
                raise KeysUnreadableError("the body is compressed, which was not asked for")
            body = bytearray()
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > MAX_BYTES:
                    raise KeysUnreadableError(f"the body is over {MAX_BYTES} bytes")
            return bytes(body)


def _is_fetchable(url: str) -> bool:
    try:
        parsed = httpx2.URL(url)
    except (httpx2.InvalidURL, ValueError):
        return False
    if parsed.scheme != "http":
        return bool(parsed.host) and parsed.scheme == "https"
    if parsed.host == "localhost":
        return True
    try:
        return ipaddress.ip_address(parsed.host).is_loopback
    except ValueError:
        return False
