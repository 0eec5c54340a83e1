"""Fetching a JWK Set over HTTP.

1. https, or http to a loopback address.
2. One GET; redirects are not followed, cookies and credentials are not sent.
3. `DEADLINE_SECONDS` for everything together, and at most `MAX_BYTES` of a body that is not compressed.
"""

from __future__ import annotations

import asyncio
import ipaddress
from typing import Final

import httpx2

from broker.engines.key_cache import KeysUnreadableError

DEADLINE_SECONDS: Final = 2.0
MAX_BYTES: Final = 262_144

_HEADERS: Final = {"Accept": "application/jwk-set+json, application/json", "Accept-Encoding": "identity"}


def open_client() -> httpx2.AsyncClient:
    """A client for `fetch_jwks`. A proxy of the environment serves https; http goes to loopback alone, so past it."""
    return httpx2.AsyncClient(timeout=DEADLINE_SECONDS, mounts={"http://": httpx2.AsyncHTTPTransport()})


async def fetch_jwks(client: httpx2.AsyncClient, url: str, *, deadline_seconds: float = DEADLINE_SECONDS) -> bytes:
    """The bytes of a JWK Set. Raises `KeysUnreadableError`."""
    if not is_fetchable(url):
        raise KeysUnreadableError("the URL is neither https nor http on loopback")
    try:
        async with asyncio.timeout(deadline_seconds):
            return await _get(client, url)
    except TimeoutError:
        raise KeysUnreadableError(f"no complete answer within {deadline_seconds:g} s") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise KeysUnreadableError(f"the request failed: {type(error).__name__}") from error


async def _get(client: httpx2.AsyncClient, url: str) -> bytes:
    async with client.stream("GET", url, headers=_HEADERS, follow_redirects=False) as response:
        if response.status_code != 200:
            raise KeysUnreadableError(f"status {response.status_code}; 200 was expected, redirects are not followed")
        if response.headers.get("content-encoding", "identity") != "identity":
            raise KeysUnreadableError("the body is compressed, which was not asked for")
        body = bytearray()
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > MAX_BYTES:
                raise KeysUnreadableError(f"the body is over {MAX_BYTES} bytes")
        return bytes(body)


def is_fetchable(url: str) -> bool:
    """Rule 1."""
    try:
        parsed = httpx2.URL(url)
    except (httpx2.InvalidURL, ValueError):
        return False
    if not parsed.host or parsed.scheme != "http":
        return bool(parsed.host) and parsed.scheme == "https"
    if parsed.host == "localhost":
        return True
    try:
        return ipaddress.ip_address(parsed.host).is_loopback
    except ValueError:
        return False
