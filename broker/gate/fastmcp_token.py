"""While a tool runs, the caller's own token is nowhere that the framework hands out or passes on (DESIGN §3, "T1").

The framework gives tools the request and the access token, and its proxies copy the `Authorization` header to the server
behind them. So for as long as a tool runs, each place that holds the token holds the same without it:

| place                             | meanwhile                                                                    |
|-----------------------------------|------------------------------------------------------------------------------|
| the request, wherever it is kept    | without `Authorization`; all other headers, and the body, as they were         |
| the access token and its user       | who the caller is, with all claims; `token` is empty                           |
| `calling()`, for the gate alone     | the caller's token, for the calls that the tool makes here                     |
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from fastmcp.server.auth import AccessToken
from fastmcp.server.dependencies import fastmcp_request_ctx, get_access_token
from fastmcp.server.http import _current_http_request
from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from starlette.requests import Request

_calling: ContextVar[AccessToken | None] = ContextVar("broker_gate_calling", default=None)


def calling() -> AccessToken | None:
    """The token of whoever made the call that is being served, also inside a tool; None where nobody authenticated."""
    return _calling.get() or get_access_token()


@contextmanager
def token_hidden() -> Iterator[None]:
    """Run the code inside without the caller's token."""
    context, request, user = fastmcp_request_ctx.get(), _current_http_request.get(), auth_context_var.get()
    resets: list[tuple[ContextVar[Any], Any]] = [(_calling, _calling.set(calling()))]
    if context is not None and context.request is not None:
        bare = _without_token(context.request)
        inner = replace(context._srctx, request=bare)
        hidden = replace(context, request=bare, _srctx=inner)
        resets.append((fastmcp_request_ctx, fastmcp_request_ctx.set(hidden)))
    if request is not None:
        resets.append((_current_http_request, _current_http_request.set(_without_token(request))))
    if user is not None:
        resets.append((auth_context_var, auth_context_var.set(_tokenless(user))))
    try:
        yield
    finally:
        for variable, token in reversed(resets):
            variable.reset(token)


def _without_token(request: Request) -> Request:
    headers = [(name, value) for name, value in request.scope["headers"] if name.lower() != b"authorization"]
    scope = {**request.scope, "headers": headers}
    if isinstance(scope.get("user"), AuthenticatedUser):
        scope["user"] = _tokenless(scope["user"])
    bare = Request(scope, request.receive)
    if hasattr(request, "_body"):
        bare._body = request._body
    return bare


def _tokenless(user: AuthenticatedUser) -> AuthenticatedUser:
    """The same user with an access token that can be shown to nobody."""
    changes: dict[str, Any] = {"token": ""}
    if "verified" in type(user.access_token).model_fields:
        changes["verified"] = None
    return AuthenticatedUser(user.access_token.model_copy(update=changes))
