"""The broker as a gate or a verifier sees it: HTTP in, values out.

| call       | request                     | a no                              | anything else           |
|------------|-----------------------------|-----------------------------------|-------------------------|
| exchange   | `POST /token` (RFC 8693)    | `Refused`: a 4xx with `error`     | `BrokerUnreachableError` |
| introspect | `POST /introspect` (RFC 7662) | `Refused`; `active: false` is an answer | the same          |
| release    | `POST /revoke` (RFC 7009)   | `Refused`                         | the same                |
| versions   | `GET /tools/{tool}`         | `Refused`; no such tool is an answer | the same             |
| report     | `POST /calls`               | `Refused`                         | the same                |

1. Each call has one deadline, connecting and reading included. Redirects are not followed, proxies not asked.
2. An answer is read up to `MAX_ANSWER_BYTES` and must be JSON with one reading.
3. Where the connection broke, all but `report` are tried once more within the deadline: a credential that nobody
   received expires unused, and the others act once however often they are asked.
4. No token, argument or secret is logged or put into an error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias
from urllib.parse import quote

import anyio
import httpx2

from broker.domain.canonical import JsonError, JsonObject, JsonValue, parse_json_object
from broker.domain.errors import BrokerError, Reason
from broker.domain.tokens.exchange_request import ACCESS_TOKEN, DETAIL_TYPE, GRANT_TYPE
from broker.gate.client_auth import ClientAuth

MAX_ANSWER_BYTES: Final = 4_194_304
_MAX_WAIT_SECONDS: Final = 3_600


_Answer: TypeAlias = tuple[int, Mapping[str, str], JsonObject]


class BrokerUnreachableError(BrokerError):
    """The broker did not answer in time, answered 5xx, or answered something that a broker does not say.

    Raised: by every method of `BrokerClient`; whether the request took effect is unknown.
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


@dataclass(frozen=True, slots=True)
class Granted:
    """A credential, as the token endpoint answered. expires_in_seconds counts from the answer."""

    token: str = field(repr=False)
    scope: str
    expires_in_seconds: int
    details: tuple[JsonObject, ...]


@dataclass(frozen=True, slots=True)
class ExchangeCall:
    """What a gate asks a credential for."""

    tool: str
    version: str
    contract: str
    task: str | None
    arguments: JsonObject = field(repr=False)
    txn: str
    protocol_version: str | None
    application: str | None
    resource: str

    def detail(self) -> JsonObject:
        """The authorization detail (RFC 9396 §2)."""
        optional: dict[str, JsonValue] = {
            "task": self.task,
            "protocol_version": self.protocol_version,
            "application": self.application,
        }
        return {
            "type": DETAIL_TYPE,
            "tool": self.tool,
            "version": self.version,
            "contract": self.contract,
            "arguments": self.arguments,
            "txn": self.txn,
            **{name: value for name, value in optional.items() if value is not None},
        }


@dataclass(frozen=True, slots=True)
class Versions:
    """What `GET /tools/{tool}` answered. body is None where nothing has changed since `etag`."""

    etag: str | None
    body: JsonObject | None


class BrokerClient:
    """One connection pool to one broker, for one client. Use it from one event loop.

    timeout_seconds: a little more than the broker's own deadline, so that its answer comes before ours.
    """

    def __init__(self, url: str, auth: ClientAuth, *, timeout_seconds: float = 2.5, max_connections: int = 64) -> None:
        """url: where the broker is reached, which may be another address than its issuer."""
        self.auth = auth
        self._base = url.rstrip("/")
        self._deadline_seconds = timeout_seconds
        self._http = httpx2.AsyncClient(
            timeout=httpx2.Timeout(timeout_seconds, connect=min(1.0, timeout_seconds)),
            # Idle connections go before a server's usual 5 s, so that a request seldom meets one that is being closed.
            limits=httpx2.Limits(
                max_connections=max_connections, max_keepalive_connections=max_connections, keepalive_expiry=2.0
            ),
            follow_redirects=False,
            trust_env=False,
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def exchange(self, call: ExchangeCall, *, subject_token: str) -> Granted | Refused:
        """A credential for one call (RFC 8693 §2)."""
        detail = json.dumps([call.detail()], separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        form = {
            "grant_type": GRANT_TYPE,
            "subject_token": subject_token,
            "subject_token_type": ACCESS_TOKEN,
            "resource": call.resource,
            "authorization_details": detail,
        }
        status, _, body = await self._post("/token", form)
        if status != 200:
            return _refused(status, body)
        token, scope, expires = body.get("access_token"), body.get("scope"), body.get("expires_in")
        details = body.get("authorization_details")
        if not isinstance(token, str) or not isinstance(scope, str) or not isinstance(expires, int):
            raise BrokerUnreachableError("the broker's answer to an exchange is not a token response")
        rich = details if isinstance(details, list) else []
        return Granted(
            token=token,
            scope=scope,
            expires_in_seconds=expires,
            details=tuple(detail for detail in rich if isinstance(detail, dict)),
        )

    async def introspect(self, token: str, *, use: str | None = None) -> JsonObject | Refused:
        """What the broker says of a token now (RFC 7662 §2.2). `use`: counts one use under this id."""
        form = {"token": token, "token_type_hint": "access_token"}
        status, _, body = await self._post("/introspect", form if use is None else {**form, "use": use})
        if status != 200:
            return _refused(status, body)
        if not isinstance(body.get("active"), bool):
            raise BrokerUnreachableError("the broker's answer to an introspection has no active member")
        return body

    async def release(self, token: str) -> Refused | None:
        """Give a credential back (RFC 7009 §2); None once it is gone."""
        status, _, body = await self._post("/revoke", {"token": token, "token_type_hint": "access_token"})
        return None if status == 200 else _refused(status, body)

    async def versions(self, tool: str, *, etag: str | None = None) -> Versions | Refused | None:
        """The versions of a tool; None where the broker knows no such tool."""
        path = f"/tools/{quote(tool, safe='')}"
        unless = {} if etag is None else {"If-None-Match": etag}
        status, answered, body = await self._send(
            lambda: self._request("GET", path, {**self.auth.api_headers(), **unless}), tries=2
        )
        match status:
            case 200:
                return Versions(etag=answered.get("etag"), body=body)
            case 304:
                return Versions(etag=answered.get("etag") or etag, body=None)
        refused = _refused(status, body)
        return None if refused.reason == Reason.TOOL_UNKNOWN.value else refused

    async def report(self, records: Sequence[JsonObject]) -> Refused | None:
        """Hand call records over; None once they are durable."""
        headers = {**self.auth.api_headers(), "Content-Type": "application/json"}
        content = json.dumps({"records": list(records)}, separators=(",", ":"), allow_nan=False).encode()
        status, _, body = await self._send(lambda: self._request("POST", "/calls", headers, content=content), tries=1)
        return None if status == 204 else _refused(status, body)

    async def _post(self, path: str, form: Mapping[str, str]) -> _Answer:
        return await self._send(
            lambda: self._request("POST", path, self.auth.headers(), data={**form, **self.auth.form()}), tries=2
        )

    def _request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        *,
        data: dict[str, str] | None = None,
        content: bytes | None = None,
    ) -> httpx2.Request:
        headers = {"Accept": "application/json", **headers}
        return self._http.build_request(method, self._base + path, headers=headers, data=data, content=content)

    async def _send(self, make: Callable[[], httpx2.Request], *, tries: int) -> _Answer:
        """Send a request, made anew for each try, since a client assertion is used once."""
        broken = "no try was made"
        try:
            with anyio.fail_after(self._deadline_seconds):
                for _ in range(tries):
                    try:
                        answer = await self._http.send(make(), stream=True)
                        try:
                            text = await _read(answer)
                        finally:
                            await answer.aclose()
                        return _judge(answer.status_code, answer.headers, text)
                    except httpx2.TransportError as error:
                        broken = f"the connection failed: {type(error).__name__}"
        except TimeoutError:
            broken = f"no answer within {self._deadline_seconds} s"
        except httpx2.HTTPError as error:
            broken = f"no answer: {type(error).__name__}"
        raise BrokerUnreachableError(broken)


async def _read(answer: httpx2.Response) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in answer.aiter_bytes():
        size += len(part)
        if size > MAX_ANSWER_BYTES:
            raise BrokerUnreachableError(f"an answer of more than {MAX_ANSWER_BYTES} bytes")
        parts.append(part)
    return b"".join(parts)


def _judge(status: int, headers: Mapping[str, str], text: bytes) -> _Answer:
    if status >= 500 or status == 429:
        raise BrokerUnreachableError(f"the broker answered {status}", retry_after_seconds=_retry_after(headers))
    if not text:
        return status, headers, {}
    try:
        return status, headers, parse_json_object(text)
    except JsonError:
        if status == 200:
            raise BrokerUnreachableError("the answer is not JSON with one reading") from None
        return status, headers, {}


def _retry_after(headers: Mapping[str, str]) -> int:
    text = headers.get("retry-after", "")
    return min(int(text), _MAX_WAIT_SECONDS) if text.isascii() and text.isdecimal() and len(text) < 10 else 1


def _refused(status: int, body: JsonObject) -> Refused:
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
