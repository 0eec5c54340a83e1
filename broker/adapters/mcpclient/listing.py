"""`tools/list` of a running MCP server, in wire form.

1. The official client speaks: streamable HTTP or stdio, whichever era of the protocol the server knows. What it makes of the
   answer is not looked at; the JSON that came over the wire is, since that is what a contract's digest is over.
2. Every page is fetched. A cursor that comes back, too many pages or tools, an answer that is too large: an error.
3. One deadline for everything, connecting and ending included.
4. A token goes over https, or to loopback, and to the one URL that was named: redirects are not followed. It is in no message.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final

import anyio
import httpx2

from broker.domain.addresses import is_loopback
from broker.domain.canonical import JsonValue
from broker.domain.errors import ConfigurationError

MAX_PAGES: Final = 200
MAX_TOOLS: Final = 1_000
MAX_BYTES: Final = 33_554_432
DEADLINE_SECONDS: Final = 60
_URL: Final = re.compile(r"https?://[\x21\x22\x24-\x7e]{1,2048}")
# What the client says in its log is said in the error, without a trace.
logging.getLogger("mcp").addHandler(logging.NullHandler())
_INSTALL: Final = "the MCP client is not installed: pip install 'mayfly-broker[fastmcp]'"


def list_over_http(
    url: str, *, token: str | None = None, deadline_seconds: float = DEADLINE_SECONDS
) -> list[JsonValue]:
    """The tools that a server lists at a URL. Raises `ConfigurationError` with what went wrong."""
    if not _URL.fullmatch(url):
        raise ConfigurationError("a URL such as https://tools.example/mcp was expected")
    if token is not None and not url.startswith("https://") and not is_loopback(url):
        raise ConfigurationError("a token goes over https only, or to loopback")
    return anyio.run(_over_http, url, token, deadline_seconds)


def list_over_stdio(command: Sequence[str], *, deadline_seconds: float = DEADLINE_SECONDS) -> list[JsonValue]:
    """The tools that a server lists which is started as a process. Raises `ConfigurationError` with what went wrong."""
    return anyio.run(_over_stdio, tuple(command), deadline_seconds)


async def _over_http(url: str, token: str | None, deadline_seconds: float) -> list[JsonValue]:
    try:
        from mcp.client.streamable_http import streamable_http_client
    except ImportError:
        raise ConfigurationError(_INSTALL) from None
    headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
    async with httpx2.AsyncClient(
        headers=headers, timeout=deadline_seconds, trust_env=False, follow_redirects=False, transport=_Bounded()
    ) as http:
        return await _list(streamable_http_client(url, http_client=http), deadline_seconds, what=url.partition("?")[0])


async def _over_stdio(command: tuple[str, ...], deadline_seconds: float) -> list[JsonValue]:
    try:
        from mcp.client.stdio import StdioServerParameters, stdio_client
    except ImportError:
        raise ConfigurationError(_INSTALL) from None
    server = StdioServerParameters(command=command[0], args=list(command[1:]), env=dict(os.environ), cwd=Path.cwd())
    with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: ASYNC230  # opens at once
        return await _list(stdio_client(server, errlog=nowhere), deadline_seconds, what=command[0])


async def _list(transport: AbstractAsyncContextManager[Any], deadline_seconds: float, *, what: str) -> list[JsonValue]:
    from mcp import Client

    try:
        with anyio.fail_after(deadline_seconds):
            async with Client(transport) as client:
                return await _pages(client)
    except TimeoutError:
        raise ConfigurationError(f"{what}: no complete answer within {deadline_seconds:g} seconds") from None
    except ConfigurationError:
        raise
    except Exception as error:
        # the client raises what its transports, its models and the server's code raise, often in groups
        raise ConfigurationError(f"{what}: {_words(error)}") from None


async def _pages(client: Any) -> list[JsonValue]:
    from mcp_types import ListToolsRequest, PaginatedRequestParams
    from pydantic import TypeAdapter

    raw: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])
    tools: list[JsonValue] = []
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(MAX_PAGES):
        params = PaginatedRequestParams(cursor=cursor) if cursor is not None else None
        page = await client.session.send_request(ListToolsRequest(params=params), raw)
        listed = page.get("tools")
        tools += listed if isinstance(listed, list) else []
        if len(tools) > MAX_TOOLS:
            raise ConfigurationError(f"more than {MAX_TOOLS} tools; name a saved list with fewer")
        cursor = page.get("nextCursor")
        if not isinstance(cursor, str):
            return tools
        if cursor in seen:
            raise ConfigurationError("the server gives the same cursor again and again")
        seen.add(cursor)
    raise ConfigurationError(f"more than {MAX_PAGES} pages of tools")


def _words(error: BaseException) -> str:
    """The first thing that went wrong, on one line."""
    while isinstance(error, BaseExceptionGroup):
        inner = next((one for one in error.exceptions if isinstance(one, ConfigurationError)), error.exceptions[0])
        error = inner
    if isinstance(error, ConfigurationError):
        return str(error)
    said = " ".join("".join(c if c.isprintable() else " " for c in str(error)).split())
    return f"the server could not be asked: {type(error).__name__}{f': {said[:300]}' if said else ''}"


class _Bounded(httpx2.AsyncBaseTransport):
    """The usual transport, which stops reading what is too large."""

    def __init__(self) -> None:
        self._inner = httpx2.AsyncHTTPTransport(trust_env=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Counted(response.stream)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        count = 0
        async for chunk in self._inner:
            count += len(chunk)
            if count > MAX_BYTES:
                raise ConfigurationError(f"an answer of more than {MAX_BYTES} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
