"""`/token`, `/introspect`, `/revoke` as plain ASGI endpoints: read, one service call, render (DESIGN §9 says why plain).

They stand inside the FastAPI app (`api.Api` asks here first) and in its OpenAPI document (`openapi.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

import orjson

from broker.domain.canonical import JsonObject
from broker.domain.errors import BrokerError, DeadlineError, Refusal
from broker.domain.tokens.client_auth import ClientCredentials, parse_client_credentials
from broker.http.errors import JSON, NO_STORE, Headers, render_bug, render_failure, render_refusal
from broker.http.form import Scope, check_form_request, header_values, parse_form, read_body
from broker.ports.system import Entropy
from broker.services.exchange import Exchange
from broker.services.introspection import Introspection
from broker.services.refusals import Attempt, Refusals
from broker.services.release import Release

log: Final = logging.getLogger("broker.http")

Answer: TypeAlias = "JsonObject | Refusal | None"
Operation: TypeAlias = Callable[["ClientCredentials | Refusal", Mapping[str, str], str], Awaitable[Answer]]
Trouble: TypeAlias = Callable[[BrokerError], None]


class OAuthEndpoints:
    """Answers the three paths.

    deadline_seconds: after which a request is answered with 503. trouble: told of every failure.
    """

    def __init__(
        self,
        *,
        issuer: str,
        exchange: Exchange,
        introspection: Introspection,
        release: Release,
        refusals: Refusals,
        entropy: Entropy,
        deadline_seconds: float,
        trouble: Trouble,
    ) -> None:
        self._issuer = issuer
        self._exchange = exchange
        self._introspection = introspection
        self._release = release
        self._refusals = refusals
        self._entropy = entropy
        self._deadline_seconds = deadline_seconds
        self._trouble = trouble
        self._operations: dict[str, Operation] = {
            "/token": self._token,
            "/introspect": self._introspect,
            "/revoke": self._revoke,
        }

    async def answered(self, scope: Scope, receive: Any, send: Any) -> bool:
        """Answer a request to one of the paths; False where it is to another."""
        operation = self._operations.get(scope["path"])
        if operation is None:
            return False
        answer = await self._answer(operation, scope, receive)
        if answer is not None:
            status, headers, body = answer
            headers.append((b"content-length", b"%d" % len(body)))
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": body})
        return True

    async def _answer(self, operation: Operation, scope: Scope, receive: Any) -> tuple[int, Headers, bytes] | None:
        request_id = self._entropy.token()
        try:
            async with asyncio.timeout(self._deadline_seconds):
                outcome = await self._read_and_run(operation, scope, receive, request_id)
                if isinstance(outcome, Refusal) and operation != self._token:
                    await self._refusals.record(outcome, Attempt(f"POST {scope['path']}"), request_id=request_id)
        except TimeoutError:
            return render_failure(DeadlineError(), issuer=self._issuer, request_id=request_id)
        except BrokerError as error:
            self._trouble(error)
            return render_failure(error, issuer=self._issuer, request_id=request_id)
        except Exception:
            log.exception("request %s failed", request_id)
            return render_bug(issuer=self._issuer, request_id=request_id)
        if isinstance(outcome, Refusal):
            return render_refusal(outcome, issuer=self._issuer, request_id=request_id)
        if outcome is _GONE:
            return None
        body = orjson.dumps(outcome) if outcome is not None else b""
        return 200, [JSON, NO_STORE, (b"x-request-id", request_id.encode())], body

    async def _read_and_run(self, operation: Operation, scope: Scope, receive: Any, request_id: str) -> Answer:
        refused = check_form_request(scope)
        body = await read_body(receive) if refused is None else b""
        if body is None:
            return _GONE
        form = body if isinstance(body, Refusal) else parse_form(body)
        if refused is not None or isinstance(form, Refusal):
            refusal = refused if refused is not None else form
            assert isinstance(refusal, Refusal)
            if operation == self._token:
                await self._exchange.record_refusal(refusal, request_id=request_id)
            return refusal
        credentials = parse_client_credentials(header_values(scope, b"authorization"), form)
        return await operation(credentials, form, request_id)

    async def _token(
        self, credentials: ClientCredentials | Refusal, form: Mapping[str, str], request_id: str
    ) -> Answer:
        granted = await self._exchange.exchange(credentials, form, request_id=request_id)
        if isinstance(granted, Refusal):
            return granted
        return {
            "access_token": granted.access_token,
            "issued_token_type": granted.issued_token_type,
            "token_type": "Bearer",
            "expires_in": granted.expires_in,
            "scope": granted.scope,
            "authorization_details": granted.authorization_details,
        }

    async def _introspect(
        self, credentials: ClientCredentials | Refusal, form: Mapping[str, str], request_id: str
    ) -> Answer:
        return await self._introspection.introspect(credentials, form)

    async def _revoke(
        self, credentials: ClientCredentials | Refusal, form: Mapping[str, str], request_id: str
    ) -> Answer:
        return await self._release.release(credentials, form, request_id=request_id)


_GONE: Final[JsonObject] = {}
