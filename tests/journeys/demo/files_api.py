"""The report folder's API: `GET` of a path gives the file, to a credential whose scope names that very path."""

from __future__ import annotations

import sys

import uvicorn
from broker.gate.bearer import App
from broker.gate.downstream import CredentialVerifier
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from .stage import FILES_AUDIENCE, REPORTS, Stage, port_of, read_stage
from .use_log import UseLog


def make_app(stage: Stage) -> App:
    root = stage.path(REPORTS.lstrip("/")).resolve()

    async def read(request: Request) -> Response:
        path = stage.path(request.scope["path"].lstrip("/")).resolve()
        if not path.is_relative_to(root) or not path.is_file():
            return JSONResponse({"reason": "no_such_report"}, 404)
        return PlainTextResponse(path.read_text())

    protected = CredentialVerifier(
        Starlette(routes=[Route("/{path:path}", read)]),
        issuer=stage.broker,
        audience=FILES_AUDIENCE,
        client_id="files-api",
        client_key=stage.key("files-api"),
        tool="files.read",
        scope_for=lambda scope: f"files:read:{scope['path']}",
    )
    return UseLog(protected, stage.path("files-uses.jsonl"))


if __name__ == "__main__":
    _stage = read_stage(sys.argv)
    uvicorn.run(make_app(_stage), host="127.0.0.1", port=port_of(_stage.files), log_level="info", access_log=False)
