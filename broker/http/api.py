"""The FastAPI app: routes, the plain OAuth endpoints inside it, one place for errors."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from broker.domain.errors import BrokerError, Reason, Refusal
from broker.http import admin, keys, pages, public, receipts, replicas
from broker.http.admitted import authenticate
from broker.http.bounded import read_bounded, replay, send_no
from broker.http.context import Refused, UseCases, on_bug, on_failure, on_refused
from broker.http.feed import FeedEndpoints
from broker.http.metadata import make_metadata
from broker.http.oauth import OAuthEndpoints
from broker.http.openapi import install_openapi


class Api(FastAPI):
    """FastAPI, with the OAuth and feed endpoints before its own layers: those cost more than the store call does (DESIGN §9)."""

    oauth: OAuthEndpoints
    feed: FeedEndpoints

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            if await self.oauth.answered(scope, receive, send) or await self.feed.answered(scope, receive, send):
                return
            use_cases: UseCases = self.state.use_cases
            body = await read_bounded(receive, deadline_seconds=use_cases.deadline_seconds)
            if body is None:
                return
            if not isinstance(body, bytes):
                await send_no(body, send, issuer=use_cases.issuer, request_id=use_cases.entropy.token())
                return
            receive = replay(body, receive)
        await super().__call__(scope, receive, send)


def make_api(
    use_cases: UseCases, lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]] | None = None
) -> FastAPI:
    """The app over these use cases."""
    app = Api(
        title="Mayfly",
        version=version("mayfly-broker"),
        description="Ephemeral credentials for MCP tools, bound to a tool's version and revoked with it.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.use_cases = use_cases
    app.state.metadata = make_metadata(use_cases.issuer)
    app.include_router(public.router)
    app.include_router(pages.router)
    app.include_router(admin.router)
    app.include_router(keys.router)
    app.include_router(replicas.router)
    app.include_router(receipts.router)
    app.oauth = OAuthEndpoints(
        issuer=use_cases.issuer,
        exchange=use_cases.exchange,
        introspection=use_cases.introspection,
        release=use_cases.release,
        refusals=use_cases.refusals,
        entropy=use_cases.entropy,
        deadline_seconds=use_cases.deadline_seconds,
        trouble=use_cases.trouble,
    )
    app.feed = FeedEndpoints(
        issuer=use_cases.issuer,
        listeners=use_cases.following.listeners,
        verifiers=use_cases.verifiers,
        refusals=use_cases.refusals,
        entropy=use_cases.entropy,
        deadline_seconds=use_cases.deadline_seconds,
        trouble=use_cases.trouble,
    )
    app.add_exception_handler(Refused, on_refused)
    app.add_exception_handler(BrokerError, on_failure)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(Exception, on_bug)
    install_openapi(app)
    return app


async def _on_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = "/".join(str(part) for part in first["loc"])
    return await _malformed(request, Refusal(Reason.COMMAND_MALFORMED, str(first["msg"]), where=where))


async def _malformed(request: Request, refusal: Refusal) -> Response:
    """What is wrong with a request, said to administrators only where it is one of theirs."""
    if request.url.path.startswith("/admin/"):
        try:
            await authenticate(request)
        except Refused as refused:
            return await on_refused(request, refused)
        except BrokerError as failure:
            return await on_failure(request, failure)
    return await on_refused(request, Refused(refusal))


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        headers = dict(error.headers or {})
        response = await on_refused(
            request,
            Refused(
                Refusal(Reason.METHOD_NOT_ALLOWED, f"expected: {headers.get('Allow', 'another method')}", "method")
            ),
        )
        response.headers.update({key.lower(): value for key, value in headers.items()})
        return response
    if error.status_code == 400:
        refusal = Refusal(Reason.REQUEST_MALFORMED, "the body cannot be read as JSON", where="body")
        return await _malformed(request, refusal)
    return Response('{"error":"not_found"}', error.status_code, media_type="application/json")
