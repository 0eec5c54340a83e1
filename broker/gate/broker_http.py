"""HTTP to a broker that answers under one or several addresses: JSON in and out, every failure the same exception.

1. Each call has one deadline, connecting and reading included. Redirects are not followed, proxies not asked.
2. An answer is read up to a limit, `MAX_ANSWER_BYTES` if nothing else is said, and must be JSON with one reading.
3. A try that failed is followed by one at the next address (any replica serves any request), as often as the caller says
   that a request may reach a broker; where no connection came about it has reached none.
4. No token, argument or secret is logged or put into an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import anyio
import httpx2

from broker.domain.addresses import base_url_problem
from broker.domain.canonical import JsonError, JsonObject, JsonValue, parse_json_object
from broker.domain.errors import BrokerError, ConfigurationError
from broker.gate.tls import tls_context

MAX_ANSWER_BYTES: Final = 4_194_304
_MAX_WAIT_SECONDS: Final = 3_600
_CONNECT_SECONDS: Final = 1.0

Answer: TypeAlias = tuple[int, Mapping[str, str], JsonObject]
MakeRequest: TypeAlias = Callable[[str], httpx2.Request]
"""A request to the broker at an address; made anew for each try, since a client assertion is used once."""
_NOT_SENT: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


class BrokerUnreachableError(BrokerError):
    """The broker did not answer in time, answered 5xx, or answered something that a broker does not say.

    Raised: by every call to it; whether the request took effect is unknown.
    Wire:   JSON-RPC -31006 from a gate, 503 with `Retry-After` from a verifier. Not 401: the token may be good.
    Retry:  yes, after `retry_after_seconds`.
    Units:  whole seconds.
    """

    def __init__(self, message: str, *, retry_after_seconds: int = 1) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


@dataclass(frozen=True, slots=True)
class Refused:
    """The broker said no. `reason` is stable; `description` is for the caller; `data` holds further facts."""

    status: int
    error: str
    reason: str
    description: str
    where: str | None = None
    request_id: str | None = None
    data: Mapping[str, JsonValue] = field(default_factory=dict)


def addresses(broker_url: str | Sequence[str] | None, *, issuer: str) -> tuple[str, ...]:
    """Where a broker is reached: what was said, else under its issuer's name. Raises `ConfigurationError`."""
    urls = (issuer,) if broker_url is None else (broker_url,) if isinstance(broker_url, str) else tuple(broker_url)
    if not urls:
        raise ConfigurationError("broker_url: at least one address of the broker was expected")
    found = tuple(url.rstrip("/") for url in urls)
    for url in found:
        problem = base_url_problem(url)
        if problem is not None:  # secrets go there, and what is revoked is heard from there
            raise ConfigurationError(f"{'issuer' if broker_url is None else 'broker_url'} {url!r}: {problem}")
    return found


class BrokerHttp:
    """One connection pool to the addresses of one broker. Use it from one event loop."""

    def __init__(
        self,
        urls: Sequence[str],
        *,
        timeout_seconds: float,
        max_connections: int,
        max_answer_bytes: int = MAX_ANSWER_BYTES,
    ) -> None:
        self._urls = tuple(url.rstrip("/") for url in urls)
        self._at = 0
        self._deadline_seconds = timeout_seconds
        self._max_bytes = max_answer_bytes
        # With several addresses one that hangs leaves time for another.
        each = timeout_seconds if len(self._urls) == 1 else timeout_seconds / 2
        self.client = httpx2.AsyncClient(
            timeout=httpx2.Timeout(each, connect=min(_CONNECT_SECONDS, each)),
            # Idle connections go before a server's usual 5 s, so that a request seldom meets one that is being closed.
            limits=httpx2.Limits(
                max_connections=max_connections, max_keepalive_connections=max_connections, keepalive_expiry=2.0
            ),
            follow_redirects=False,
            trust_env=False,
            verify=tls_context(trust_env=False),
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self.client.aclose()

    @property
    def url(self) -> str:
        """The address that the next try goes to."""
        return self._urls[self._at]

    def pass_on(self) -> None:
        """What stands behind this address does not serve: try the next one from now on."""
        self._at = (self._at + 1) % len(self._urls)

    async def send(self, make: MakeRequest, *, tries: int) -> Answer:
        """The broker's answer. tries: how often the request may reach a broker."""
        deadline = self._deadline_seconds
        try:
            with anyio.fail_after(deadline):
                return await self._send(make, tries)
        except TimeoutError:
            self.pass_on()
            raise BrokerUnreachableError(f"no answer within {deadline:g} s") from None

    async def _send(self, make: MakeRequest, tries: int) -> Answer:
        broken = BrokerUnreachableError("no try was made")
        for _ in range(tries + len(self._urls) - 1):
            try:
                return await self._try(make(self.url))
            except httpx2.TransportError as error:
                broken = BrokerUnreachableError(f"the connection failed: {type(error).__name__}")
                reached = not isinstance(error, _NOT_SENT)
            except httpx2.HTTPError as error:
                raise BrokerUnreachableError(f"no answer: {type(error).__name__}") from None
            except BrokerUnreachableError as error:
                if len(self._urls) == 1:
                    raise  # the same broker would say the same again
                broken, reached = error, True
            self.pass_on()
            tries -= reached
            if not tries:
                break
        raise broken

    async def _try(self, request: httpx2.Request) -> Answer:
        answer = await self.client.send(request, stream=True)
        try:
            text = await _read(answer, limit=self._max_bytes)
        finally:
            await answer.aclose()
        return _judge(answer.status_code, answer.headers, text)


async def _read(answer: httpx2.Response, *, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in answer.aiter_bytes():
        size += len(part)
        if size > limit:
            raise BrokerUnreachableError(f"an answer of more than {limit} bytes")
        parts.append(part)
    return b"".join(parts)


def _judge(status: int, headers: Mapping[str, str], text: bytes) -> Answer:
    if status >= 500 or status == 429:
        raise BrokerUnreachableError(f"the broker answered {status}", retry_after_seconds=retry_after(headers))
    if not text:
        return status, headers, {}
    try:
        return status, headers, parse_json_object(text)
    except JsonError:
        if status == 200:
            raise BrokerUnreachableError("the answer is not JSON with one reading") from None
        return status, headers, {}


def retry_after(headers: Mapping[str, str]) -> int:
    """The seconds that an answer says to wait; 1 where it does not."""
    text = headers.get("retry-after", "")
    return min(int(text), _MAX_WAIT_SECONDS) if text.isascii() and text.isdecimal() and len(text) < 10 else 1


def refused(status: int, body: JsonObject) -> Refused:
    """What the broker says no with. Raises `BrokerUnreachableError` where it is no error that a broker says."""
    error, reason = body.get("error"), body.get("reason")
    if not 400 <= status < 500 or not isinstance(error, str):
        raise BrokerUnreachableError(f"the broker answered {status} without an error that a broker says")
    description, where, request_id = body.get("error_description"), body.get("where"), body.get("request_id")
    data = body.get("data")
    return Refused(
        status=status,
        error=error,
        reason=reason if isinstance(reason, str) else error,
        description=description if isinstance(description, str) else error,
        where=where if isinstance(where, str) else None,
        request_id=request_id if isinstance(request_id, str) else None,
        data=data if isinstance(data, dict) else {},
    )
