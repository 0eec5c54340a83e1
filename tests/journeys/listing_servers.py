"""MCP servers to list, each a process of its own: `python listing_servers.py KIND [PORT]`; stdio without a port.

| kind       | is                                                                            |
|------------|-------------------------------------------------------------------------------|
| `fastmcp`  | a fastmcp server                                                              |
| `official` | the official server, its tools in one page                                      |
| `pages`    | the official low-level server, one tool a page                                  |
| `circle`   | the same, whose last cursor leads to the first page again                        |
| `old`      | one that knows the handshake of 2025-06-18 and nothing newer, written by hand      |
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pydantic import BaseModel

COUNT = 5


class Part(BaseModel):
    """A type of its own, which fastmcp writes into the schema."""

    path: str
    note: str | None = None


def fastmcp_server() -> Any:
    from fastmcp import FastMCP

    server: Any = FastMCP("listed")

    @server.tool(name="files.read", annotations={"readOnlyHint": True})
    def read(path: str, limit: float = 1.0) -> str:
        """Reads one file.

        # decide: this is no comment of ours
        """
        return path + str(limit)

    @server.tool(name="parts.write", version="2.0")
    def write(parts: list[Part], label: str | None = None) -> list[int]:
        """Writes some files."""
        return [len(parts), len(label or "")]

    return server


def official_server() -> Any:
    from mcp.server import MCPServer

    server = MCPServer("listed")

    @server.tool(name="host.look_up")
    def look_up(hostname: str, kind: str = "A") -> dict[str, str]:
        """Looks a name up."""
        return {hostname: kind}

    return server


def paged_server(*, circle: bool) -> Any:
    import mcp_types as types
    from mcp.server.lowlevel import Server

    async def listed(context: Any, params: Any) -> types.ListToolsResult:
        at = int(params.cursor) if params is not None and params.cursor else 0
        following = str(at + 1) if at + 1 < COUNT else "0" if circle else None
        schema = {"type": "object", "properties": {"n": {"const": at}}}
        return types.ListToolsResult(tools=[types.Tool(name=f"page.{at}", input_schema=schema)], next_cursor=following)

    return Server("listed", on_list_tools=listed)


def old_server() -> None:
    tool = {
        "name": "old.tool",
        "description": None,
        "inputSchema": {"type": "object", "properties": {"query": {"type": "string", "default": None}}},
        "execution": {"taskSupport": "forbidden"},
    }
    for line in sys.stdin:
        asked = json.loads(line)
        match asked.get("method"):
            case "initialize":
                info = {"name": "old", "version": "1"}
                answer: dict[str, object] = {
                    "result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
                }
            case "tools/list":
                answer = {"result": {"tools": [tool]}}
            case _:
                answer = {"error": {"code": -32601, "message": "Method not found"}}
        if "id" in asked:
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)


async def run_low_level(server: Any) -> None:
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


def main() -> None:
    kind = sys.argv[1]
    port = int(sys.argv[2]) if len(sys.argv) > 2 else None
    if kind == "old":
        old_server()
    elif kind == "fastmcp":
        if port is None:
            fastmcp_server().run(show_banner=False)
        else:
            fastmcp_server().run(transport="http", port=port, show_banner=False)
    elif kind == "official":
        if port is None:
            official_server().run()
        else:
            official_server().run("streamable-http", port=port)
    else:
        import anyio
        import uvicorn

        server = paged_server(circle=kind == "circle")
        if port is None:
            anyio.run(run_low_level, server)
        else:
            uvicorn.run(server.streamable_http_app(), port=port, log_level="error")


if __name__ == "__main__":
    main()
