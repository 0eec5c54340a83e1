"""The reporting database's API. It knows nothing of MCP, of users or of policy: one line has it ask for a credential.

| request       | scope      | connection          |
|---------------|------------|---------------------|
| `POST /read`  | `db:read`  | cannot write         |
| `POST /write` | `db:write` | can                  |

A read is answered page by page, and every page is a use of the credential.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import uvicorn
from broker.gate.bearer import App
from broker.gate.downstream import CredentialVerifier
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from .stage import DATABASE_AUDIENCE, Stage, port_of, read_stage
from .use_log import UseLog

READINGS: Final = 200_000
PAGE_ROWS: Final = 20

_SCOPES: Final = {"/read": "db:read", "/write": "db:write"}


def make_app(stage: Stage) -> App:
    file = stage.path("reporting.sqlite")
    _fill(file)

    async def read(request: Request) -> JSONResponse:
        body = await request.json()
        return await _answer(lambda: _read(file, body["query"], int(body.get("offset", 0))))

    async def write(request: Request) -> JSONResponse:
        body = await request.json()
        return await _answer(lambda: _write(file, body["query"]))

    api = Starlette(routes=[Route("/read", read, methods=["POST"]), Route("/write", write, methods=["POST"])])
    protected = CredentialVerifier(
        api,
        issuer=stage.broker,
        audience=DATABASE_AUDIENCE,
        client_id="db-api",
        client_key=stage.key("db-api"),
        tool="db.query",
        scope_for=lambda scope: _SCOPES.get(scope["path"]),
    )
    return UseLog(protected, stage.path("database-uses.jsonl"))


async def _answer(work: Callable[[], dict[str, Any]]) -> JSONResponse:
    try:
        return JSONResponse(await asyncio.to_thread(work))
    except sqlite3.Error as error:
        return JSONResponse({"reason": "statement_refused", "error_description": str(error)}, 400)


def _read(file: Path, query: str, offset: int) -> dict[str, Any]:
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        cursor = connection.execute(f"select * from ({query}) limit {PAGE_ROWS + 1} offset {offset}")
        rows = cursor.fetchall()
        columns = [column[0] for column in cursor.description]
    return {"columns": columns, "rows": rows[:PAGE_ROWS], "more": len(rows) > PAGE_ROWS}


def _write(file: Path, query: str) -> dict[str, Any]:
    with closing(sqlite3.connect(file)) as connection, connection:
        changed = connection.execute(query).rowcount
    return {"columns": ["changed"], "rows": [[changed]], "more": False}


def _fill(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("create table revenue (region text primary key, amount integer)")
        connection.executemany("insert into revenue values (?, ?)", [("north", 120), ("south", 80), ("west", 45)])
        connection.execute("create table readings (id integer primary key, value integer)")
        connection.executemany("insert into readings values (?, ?)", ((n, n * 7 % 101) for n in range(READINGS)))


if __name__ == "__main__":
    _stage = read_stage(sys.argv)
    uvicorn.run(make_app(_stage), host="127.0.0.1", port=port_of(_stage.database), log_level="info", access_log=False)
