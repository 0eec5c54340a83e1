"""The OAuth and feed endpoints in the OpenAPI document: written by hand, since they are plain ASGI; FastAPI does not see them."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from broker.domain.canonical import MAX_INTEGER
from broker.domain.tokens.client_auth import ASSERTION_TYPE
from broker.domain.tokens.exchange_request import GRANT_TYPE, TOKEN_TYPES

_STRING: Final = {"type": "string"}
_CLIENT: Final[dict[str, Any]] = {
    "client_id": _STRING,
    "client_secret": _STRING,
    "client_assertion": _STRING,
    "client_assertion_type": {"type": "string", "enum": [ASSERTION_TYPE]},
}
_ERROR: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["error", "request_id"],
    "properties": dict.fromkeys(("error", "error_description", "error_uri", "reason", "where", "request_id"), _STRING)
    | {"data": {"type": "object"}},
}
_TYPES: Final = {"type": "string", "enum": sorted(TOKEN_TYPES)}


def _form(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    schema = {"type": "object", "properties": {**properties, **_CLIENT}, "required": required}
    return {"required": True, "content": {"application/x-www-form-urlencoded": {"schema": schema}}}


def _answers(ok: dict[str, Any], *, method: str = "POST") -> dict[str, Any]:
    problem = {"content": {"application/json": {"schema": _ERROR}}}
    return {
        "200": ok,
        "400": {"description": "Refused; `reason` says why", **problem},
        "401": {"description": "The client did not authenticate", **problem},
        "405": {"description": f"Not a {method}", **problem},
        "413": {"description": "The body is too large", **problem},
        "503": {"description": "Store or audit log away; `Retry-After`", **problem},
    }


def _feed_answers(ok: dict[str, Any], *, method: str = "POST") -> dict[str, Any]:
    problem = {"content": {"application/json": {"schema": _ERROR}}}
    return {
        **_answers(ok, method=method),
        "409": {"description": "Another client has a verifier of this name", **problem},
        "429": {"description": "The client has too many verifiers, or streams, at once", **problem},
    }


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": "Success", "content": {"application/json": {"schema": schema}}}


PATHS: Final[dict[str, Any]] = {
    "/token": {
        "post": {
            "summary": "Exchange a caller's token for a credential for one tool call (RFC 8693)",
            "operationId": "token",
            "tags": ["oauth"],
            "requestBody": _form(
                {
                    "grant_type": {"type": "string", "enum": [GRANT_TYPE]},
                    "subject_token": _STRING,
                    "subject_token_type": _TYPES,
                    "actor_token": _STRING,
                    "actor_token_type": _TYPES,
                    "requested_token_type": _TYPES,
                    "resource": {"type": "string", "format": "uri"},
                    "audience": _STRING,
                    "scope": _STRING,
                    "authorization_details": _STRING,
                },
                ["grant_type", "subject_token", "subject_token_type", "authorization_details"],
            ),
            "responses": _answers(
                _json(
                    {
                        "type": "object",
                        "required": ["access_token", "issued_token_type", "token_type", "expires_in", "scope"],
                        "properties": {
                            "access_token": _STRING,
                            "issued_token_type": _TYPES,
                            "token_type": {"type": "string", "enum": ["Bearer"]},
                            "expires_in": {"type": "integer"},
                            "scope": _STRING,
                            "authorization_details": {"type": "array", "items": {"type": "object"}},
                        },
                    }
                )
            ),
        }
    },
    "/introspect": {
        "post": {
            "summary": "Whether a credential is active now (RFC 7662)",
            "operationId": "introspect",
            "tags": ["oauth"],
            "requestBody": _form({"token": _STRING, "token_type_hint": _STRING, "use": _STRING}, ["token"]),
            "responses": _answers(
                _json({"type": "object", "required": ["active"], "properties": {"active": {"type": "boolean"}}})
            ),
        }
    },
    "/revoke": {
        "post": {
            "summary": "Give a credential back (RFC 7009)",
            "operationId": "revoke",
            "tags": ["oauth"],
            "requestBody": _form({"token": _STRING, "token_type_hint": _STRING}, ["token"]),
            "responses": _answers({"description": "It is gone now, or never was"}),
        }
    },
}

_COUNTER: Final[dict[str, Any]] = {"type": "integer", "minimum": 0, "maximum": MAX_INTEGER}
_POINT: Final[dict[str, Any]] = {"type": "string", "pattern": "^[0-9]{1,16}:[0-9]{1,16}$"}
_EVENT: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["event", "v", "gen", "seq", "marks", "versions"],
    "properties": {
        "event": {"type": "string", "enum": ["snapshot", "change"]},
        "v": {"const": 1},
        "gen": _COUNTER,
        "seq": _COUNTER,
        "marks": {"type": "object", "additionalProperties": _COUNTER},
        "versions": {"type": "object", "additionalProperties": _STRING},
        "covered": _COUNTER,
    },
}

FEED_PATHS: Final[dict[str, Any]] = {
    "/revocations/stream": {
        "get": {
            "summary": "What is revoked, as it happens: server-sent events",
            "operationId": "revocation_stream",
            "tags": ["feed"],
            "parameters": [{"name": "Last-Event-ID", "in": "header", "schema": _POINT}],
            "responses": _feed_answers(
                {"description": "Events, on and on", "content": {"text/event-stream": {"schema": _STRING}}},
                method="GET",
            ),
        }
    },
    "/revocations": {
        "get": {
            "summary": "What was revoked since, for those that cannot listen to the stream",
            "operationId": "revocations",
            "tags": ["feed"],
            "parameters": [
                {"name": "since", "in": "query", "schema": _POINT},
                {"name": "wait", "in": "query", "schema": {"type": "integer", "minimum": 0, "maximum": 10}},
            ],
            "responses": _feed_answers(
                _json(
                    {
                        "type": "object",
                        "required": ["v", "events"],
                        "properties": {"v": {"const": 1}, "events": {"type": "array", "items": _EVENT}},
                    }
                ),
                method="GET",
            ),
        }
    },
    "/revocations/lease": {
        "post": {
            "summary": "A verifier's lease: how long it may go on without hearing anything",
            "operationId": "revocation_lease",
            "tags": ["feed"],
            "requestBody": {
                "required": True,
                "content": {
                    "application/json": {
                        "schema": {
                            "type": "object",
                            "required": ["v", "verifier", "gen", "applied"],
                            "additionalProperties": False,
                            "properties": {
                                "v": {"const": 1},
                                "verifier": {"type": "string", "pattern": "^[A-Za-z0-9_-]{16,64}$"},
                                "gen": _COUNTER,
                                "applied": _COUNTER,
                            },
                        }
                    }
                },
            },
            "responses": _feed_answers(
                _json(
                    {
                        "type": "object",
                        "required": ["v", "gen", "seq", "lease_seconds"],
                        "properties": {
                            "v": {"const": 1},
                            "gen": _COUNTER,
                            "seq": _COUNTER,
                            "lease_seconds": {"type": "number"},
                        },
                    }
                )
            ),
        }
    },
}


def install_openapi(app: FastAPI) -> None:
    """Make `/openapi.json` show the plain endpoints too."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            made["paths"] = {**PATHS, **FEED_PATHS, **made.get("paths", {})}
            app.openapi_schema = made
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]
