"""The broker as a gate or a verifier sees it: HTTP in, values out.

| call       | request                     | a no                              | anything else           |
|------------|-----------------------------|-----------------------------------|-------------------------|
| exchange   | `POST /token` (RFC 8693)    | `Refused`: a 4xx with `error`     | `BrokerUnreachableError` |
| introspect | `POST /introspect` (RFC 7662) | `Refused`; `active: false` is an answer | the same          |
| release    | `POST /revoke` (RFC 7009)   | `Refused`                         | the same                |
| versions   | `GET /tools/{tool}`         | `Refused`; no such tool is an answer | the same             |
| report     | `POST /calls`               | `Refused`                         | the same                |

All but `report` may reach a broker twice where the connection broke: a credential that nobody received expires unused, and
the others act once however often they are asked. Deadlines, sizes and addresses are `broker_http`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

import httpx2

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.errors import Reason
from broker.domain.tokens.exchange_request import ACCESS_TOKEN, DETAIL_TYPE, GRANT_TYPE
from broker.gate.broker_http import Answer, BrokerHttp, BrokerUnreachableError, Refused, refused
from broker.gate.client_auth import ClientAuth


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

    def __init__(
        self, urls: str | Sequence[str], auth: ClientAuth, *, timeout_seconds: float = 2.5, max_connections: int = 64
    ) -> None:
        """urls: where the broker is reached, which may be other addresses than its issuer; any of them serves any call."""
        self.auth = auth
        listed = (urls,) if isinstance(urls, str) else urls
        self._http = BrokerHttp(listed, timeout_seconds=timeout_seconds, max_connections=max_connections)

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
            return refused(status, body)
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
            return refused(status, body)
        if not isinstance(body.get("active"), bool):
            raise BrokerUnreachableError("the broker's answer to an introspection has no active member")
        return body

    async def release(self, token: str) -> Refused | None:
        """Give a credential back (RFC 7009 §2); None once it is gone."""
        status, _, body = await self._post("/revoke", {"token": token, "token_type_hint": "access_token"})
        return None if status == 200 else refused(status, body)

    async def versions(self, tool: str, *, etag: str | None = None) -> Versions | Refused | None:
        """The versions of a tool; None where the broker knows no such tool."""
        path = f"/tools/{quote(tool, safe='')}"
        unless = {} if etag is None else {"If-None-Match": etag}

        def make(url: str) -> httpx2.Request:
            headers = _headers({**self.auth.api_headers(), **unless})
            return self._http.client.build_request("GET", url + path, headers=headers)

        status, answered, body = await self._http.send(make, tries=2)
        match status:
            case 200:
                return Versions(etag=answered.get("etag"), body=body)
            case 304:
                return Versions(etag=answered.get("etag") or etag, body=None)
        no = refused(status, body)
        return None if no.reason == Reason.TOOL_UNKNOWN.value else no

    async def report(self, records: Sequence[JsonObject]) -> Refused | None:
        """Hand call records over; None once they are durable."""
        content = json.dumps({"records": list(records)}, separators=(",", ":"), allow_nan=False).encode()

        def make(url: str) -> httpx2.Request:
            headers = _headers({**self.auth.api_headers(), "Content-Type": "application/json"})
            return self._http.client.build_request("POST", url + "/calls", headers=headers, content=content)

        status, _, body = await self._http.send(make, tries=1)
        return None if status == 204 else refused(status, body)

    async def _post(self, path: str, form: Mapping[str, str]) -> Answer:
        def make(url: str) -> httpx2.Request:
            data = {**form, **self.auth.form()}
            return self._http.client.build_request("POST", url + path, headers=_headers(self.auth.headers()), data=data)

        return await self._http.send(make, tries=2)


def _headers(more: Mapping[str, str]) -> dict[str, str]:
    return {"Accept": "application/json", **more}
