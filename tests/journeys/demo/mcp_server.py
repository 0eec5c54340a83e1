"""The MCP server: `db.query` in versions 3 and 4 side by side, and `files.read`, behind the gate.

Its tools reach the APIs with the credential of their own call, `credential()`; nothing else is in their reach.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from typing import Any

import httpx2
from broker.domain.policy.document import ClaimNames
from broker.gate import credential
from broker.gate.fastmcp import version_gate
from broker.gate.subject import trusted_issuer
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.tools import FunctionTool
from mcp_types import ToolAnnotations

from .stage import Stage, port_of, read_stage


def make_server(stage: Stage) -> FastMCP[Any]:
    gate = version_gate(
        issuer=stage.broker,
        client_id="reporting-mcp",
        client_key=stage.key("reporting-mcp"),
        resource=stage.mcp,
        issuers=[trusted_issuer(stage.idp, jwks_url=f"{stage.idp}/jwks.json", claims=ClaimNames(agent="azp"))],
        application="demo-server 1",
    )
    server: FastMCP[Any] = FastMCP("reports", auth=gate.auth(), middleware=[gate])
    database = httpx2.AsyncClient(base_url=stage.database, trust_env=False)
    files = httpx2.AsyncClient(base_url=stage.files, trust_env=False)

    async def query_3(query: str, timeout_ms: int = 30_000, mode: str = "read") -> dict[str, Any]:
        return await run_query(database, query, seconds=timeout_ms / 1000, write=mode == "write")

    async def query_4(query: str, timeout: int = 30, mode: str = "read") -> dict[str, Any]:
        return await run_query(database, query, seconds=timeout, write=mode == "write")

    async def read_file(path: str) -> dict[str, Any]:
        answer = await files.get(path, headers=credential().authorization)
        return {"text": _accepted(answer, "the report folder").text}

    server.add_tool(published(stage, "db.query", "3", query_3))
    server.add_tool(published(stage, "db.query", "4", query_4))
    server.add_tool(published(stage, "files.read", "1", read_file))
    return server


def published(stage: Stage, tool: str, version: str, run: Callable[..., Any]) -> FunctionTool:
    """A tool that is listed exactly as its contract says, which the gate holds it to."""
    contract: dict[str, Any] = stage.contract(tool, version)
    made = FunctionTool.from_function(
        run,
        name=tool,
        version=version,
        title=contract["title"],
        description=contract["description"],
        output_schema=contract["outputSchema"],
        annotations=ToolAnnotations(**contract["annotations"]),
    )
    return made.model_copy(update={"parameters": contract["inputSchema"]})


async def run_query(database: httpx2.AsyncClient, query: str, *, seconds: float, write: bool) -> dict[str, Any]:
    """All rows of a statement, page by page; each page spends the call's credential."""
    columns: list[str] = []
    rows: list[list[Any]] = []
    more = True
    try:
        async with asyncio.timeout(seconds):
            while more:
                answer = await database.post(
                    "/write" if write else "/read",
                    json={"query": query, "offset": len(rows)},
                    headers=credential().authorization,
                )
                page = _accepted(answer, "the database", after=len(rows)).json()
                columns, more = page["columns"], page["more"]
                rows += page["rows"]
    except TimeoutError:
        raise ToolError(f"The statement was not done in {seconds:g} s.") from None
    return {"columns": columns, "rows": rows}


def _accepted(answer: httpx2.Response, who: str, *, after: int = 0) -> httpx2.Response:
    if answer.is_success:
        return answer
    said = answer.json()
    progress = f" after {after} rows" if after else ""
    raise ToolError(f"{who} refused{progress}: {answer.status_code} {said['reason']}: {said.get('error_description')}")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    _stage = read_stage(sys.argv)
    make_server(_stage).run(
        transport="http", host="127.0.0.1", port=port_of(_stage.mcp), path="/mcp", show_banner=False
    )
