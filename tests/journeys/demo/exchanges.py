"""An exchange made by hand, as any OAuth client can make one: Authlib's, which shares no code with the gate."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2
import jwt
from authlib.integrations.httpx_client import AsyncOAuth2Client
from authlib.oauth2.rfc7523 import PrivateKeyJWT
from broker.domain.tokens.exchange_request import ACCESS_TOKEN, DETAIL_TYPE, GRANT_TYPE
from joserfc.jwk import ECKey

from .stage import DATABASE_AUDIENCE, REVENUE, Stage
from .telling import Teller, shorten

ASSERTION_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Credential:
    """A credential, and what a reader of it sees."""

    token: str = field(repr=False)
    claims: Mapping[str, Any]

    @property
    def seconds_left(self) -> int:
        return int(self.claims["exp"]) - int(time.time())

    @property
    def detail(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.claims["authorization_details"][0]
        return found


@dataclass(frozen=True, slots=True)
class Spent:
    """What came of a credential that was spent. reason: why not, None where it was accepted."""

    sent: str
    said: str
    status: int
    reason: str | None
    milliseconds: float


class Exchanges:
    """`reporting-mcp` at the token endpoint, and its credentials at the database."""

    def __init__(self, stage: Stage, teller: Teller, http: httpx2.AsyncClient, digests: Mapping[str, str]) -> None:
        """http: connections to the database. digests: contract digest of each version of db.query."""
        self._stage = stage
        self._teller = teller
        self._http = http
        self._digests = digests

    async def exchange(
        self, subject_token: str, *, version: str, task: str, arguments: Mapping[str, Any]
    ) -> Credential:
        """A credential for one call of db.query."""
        detail: dict[str, Any] = {
            "type": DETAIL_TYPE,
            "tool": "db.query",
            "version": version,
            "contract": self._digests[version],
        }
        detail |= {"task": task, "arguments": arguments}
        key = ECKey.import_key(self._stage.key("reporting-mcp").read_text())
        method = PrivateKeyJWT(self._stage.broker, alg="ES256", claims={"exp": int(time.time()) + ASSERTION_SECONDS})
        self._teller.sent(
            f"reporting-mcp: POST /token  subject_token {subject_token[:12]}…  resource {DATABASE_AUDIENCE}"
        )
        self._teller.sent(f"  db.query@{version}, task {task}, {shorten(arguments)}")
        async with AsyncOAuth2Client(
            client_id="reporting-mcp", client_secret=key, token_endpoint_auth_method=method, trust_env=False
        ) as client:
            began = time.perf_counter()
            answer = await client.fetch_token(
                f"{self._stage.broker}/token",
                grant_type=GRANT_TYPE,
                subject_token=subject_token,
                subject_token_type=ACCESS_TOKEN,
                resource=DATABASE_AUDIENCE,
                authorization_details=json.dumps([detail]),
            )
        took = (time.perf_counter() - began) * 1000
        self._teller.got(f"200  {answer['token_type']}, {answer['expires_in']} s, scope {answer['scope']!r}", took)
        claims = jwt.decode(answer["access_token"], options={"verify_signature": False})
        return Credential(answer["access_token"], claims)

    async def spend(self, token: str, *, path: str = "/read", query: str = REVENUE) -> Spent:
        """One request to the database with a bearer token, past the MCP server, told."""
        return self.tell(await self.try_spending(token, path=path, query=query))

    async def try_spending(self, token: str, *, path: str = "/read", query: str = REVENUE) -> Spent:
        """The same, not told."""
        began = time.perf_counter()
        answer = await self._http.post(
            self._stage.database + path, json={"query": query}, headers={"authorization": f"Bearer {token}"}
        )
        took = (time.perf_counter() - began) * 1000
        body = answer.json()
        said = f"{len(body['rows'])} rows" if answer.is_success else f"{body['reason']}: {body['error_description']}"
        sent = f"POST {DATABASE_AUDIENCE}{path}  {query}"
        return Spent(sent, said, status=answer.status_code, reason=body.get("reason"), milliseconds=took)

    def tell(self, spent: Spent) -> Spent:
        self._teller.sent(f"with the bare token: {spent.sent}")
        self._teller.got(f"{spent.status}  {spent.said}", spent.milliseconds)
        return spent
