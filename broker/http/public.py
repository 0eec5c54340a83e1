"""What anyone may read: metadata, keys, health; and what authenticated gates may read and report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response

from broker.domain.canonical import JsonError, parse_json_object
from broker.domain.errors import Reason, Refusal
from broker.domain.ids import parse_tool_name
from broker.domain.lifecycle.states import record_json
from broker.http.context import Refused, UseCases, credentials_of, settled
from broker.services.calls import may_act_for

router = APIRouter()


def _json(value: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(orjson.dumps(value), status, headers=headers, media_type="application/json")


def _use_cases(request: Request) -> UseCases:
    found = request.app.state.use_cases
    assert isinstance(found, UseCases)
    return found


@router.get("/.well-known/oauth-authorization-server", summary="Authorization server metadata (RFC 8414)")
async def metadata(request: Request) -> Response:
    return _json(request.app.state.metadata, headers={"cache-control": "public, max-age=300"})


@router.get("/jwks.json", summary="Public signing keys (RFC 7517)")
async def jwks(request: Request) -> Response:
    return _json(_use_cases(request).signer.jwks(), headers={"cache-control": "public, max-age=300"})


@router.get("/healthz", summary="Whether the process lives")
async def healthz() -> Response:
    return _json({"status": "ok"})


@router.get(
    "/readyz",
    summary="Whether the process can do its work",
    responses={503: {"description": "Something stands in the way; `checks` says what"}},
)
async def readyz(request: Request) -> Response:
    report = await _use_cases(request).readiness.report()
    body = {"status": "ready" if report.is_ready else "not ready", "checks": report.checks}
    headers = {"cache-control": "no-store"}
    if not report.is_ready:
        headers["retry-after"] = "1"
    return _json(body, status=200 if report.is_ready else 503, headers=headers)


_AUTHENTICATED: dict[int | str, dict[str, Any]] = {
    400: {"description": "Refused; `reason` says why"},
    401: {"description": "The caller did not authenticate"},
    503: {"description": "Store or audit log away; `Retry-After`"},
}


@router.get(
    "/tools/{tool}",
    summary="A tool's versions and contracts, for the gate that serves it",
    responses={**_AUTHENTICATED, 304: {"description": "Not changed since `If-None-Match`"}},
)
async def tool_versions(request: Request, tool: str) -> Response:
    use_cases = _use_cases(request)
    client = settled(await use_cases.calls.authorize(credentials_of(request), "exchange"))
    request.state.by = client.client_id
    name = parse_tool_name(tool)
    policy = use_cases.policy.current().tools.get(name) if name else None
    if name is None or policy is None or not may_act_for(client, name):
        raise Refused(
            Refusal(Reason.TOOL_UNKNOWN, "a tool of the loaded policy that this client acts for was expected", "tool")
        )
    view = await use_cases.versions.view()
    tag = f'"{view.gen}-{view.seq}"'
    headers = {"etag": tag, "cache-control": "private, no-cache"}
    if tag in request.headers.getlist("if-none-match"):
        return Response(status_code=304, headers=headers)
    # who may have what is nobody's business but the broker's
    records = [(record_json(replace(record, grant=None)), record) for record in view.of(name)]
    versions = [{**shown, "members": use_cases.versions.contract_members(record)} for shown, record in records]
    body = {"tool": name, "audience": policy.audience, "gen": view.gen, "seq": view.seq, "versions": versions}
    return _json(body, headers=headers)


@router.post(
    "/calls",
    summary="Tool calls that a gate started, ended or refused, for the audit log",
    status_code=204,
    responses={**_AUTHENTICATED, 413: {"description": "The body is too large"}},
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {
                        "type": "object",
                        "required": ["records"],
                        "properties": {"records": {"type": "array", "items": {"type": "object"}, "maxItems": 256}},
                    }
                }
            },
        }
    },
)
async def report_calls(request: Request) -> Response:
    use_cases = _use_cases(request)
    client = settled(await use_cases.calls.authorize(credentials_of(request), "report"))
    request.state.by = client.client_id
    try:
        value = parse_json_object(await request.body())
    except JsonError as error:
        raise Refused(Refusal(Reason.REQUEST_MALFORMED, f"not acceptable JSON: {error}", "body")) from None
    settled(await use_cases.calls.report(client, value))
    return Response(status_code=204)
