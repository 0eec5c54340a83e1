"""What goes over the wire: raw requests of both eras, listings, and what a client without our helper sees."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from typing import Any

import httpx2
import pytest
from broker.domain.contracts.contract import ContractError, parse_contract, published_form
from broker.gate.fastmcp_tools import contract_tool
from gate_parts import TASK, VERSION, Site, gate_for, make_site, members, serving
from mcp import Client as OfficialClient
from mcp import MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult

from broker_parts import RESOURCE, subject_token, unverified_claims

CONTRACT = "io.github.mayfly-broker/contract"
TOOL = "io.github.mayfly-broker/tool"
MODERN = {"protocolVersion": "2026-07-28", "clientCapabilities": {}}


class Raw:
    """JSON-RPC over HTTP, typed by hand."""

    def __init__(self, site: Site, token: str | None) -> None:
        self.site = site
        self.token = subject_token(groups=["dba"]) if token is None else token
        self.http = httpx2.AsyncClient()

    async def post(self, body: str, **headers: str) -> httpx2.Response:
        sent = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json", **headers}
        if self.token:
            sent["Authorization"] = f"Bearer {self.token}"
        return await self.http.post(self.site.url, content=body, headers=sent)

    async def modern(self, arguments: str, meta: dict[str, Any]) -> httpx2.Response:
        prefixed = {f"io.modelcontextprotocol/{name}": value for name, value in MODERN.items()}
        body = (
            f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{self.site.tool}",'
            f'"arguments":{arguments},"_meta":{json.dumps({**prefixed, TASK: "report", **meta})}}}}}'
        )
        headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": self.site.tool}
        return await self.post(body, **headers)

    async def legacy(self, arguments: str, meta: dict[str, Any]) -> httpx2.Response:
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
        hello = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        answer = await self.post(hello)
        assert answer.status_code == 200, answer.text
        headers = {"MCP-Protocol-Version": "2025-11-25", "Mcp-Session-Id": answer.headers["mcp-session-id"]}
        await self.post('{"jsonrpc":"2.0","method":"notifications/initialized"}', **headers)
        body = (
            f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{self.site.tool}",'
            f'"arguments":{arguments},"_meta":{json.dumps({TASK: "report", **meta})}}}}}'
        )
        return await self.post(body, **headers)

    async def call(self, era: str, arguments: str, meta: dict[str, Any]) -> httpx2.Response:
        return await (self.modern if era == "modern" else self.legacy)(arguments, meta)


@pytest.fixture
async def raw(site: Site) -> Any:
    made = Raw(site, None)
    yield made
    await made.http.aclose()


def message(answer: httpx2.Response) -> dict[str, Any]:
    """The JSON-RPC answer, also out of an event stream."""
    if answer.headers["content-type"].startswith("text/event-stream"):
        lines = [line[5:] for line in answer.text.splitlines() if line.startswith("data:") and line[5:].strip()]
        found = json.loads(lines[-1])
    else:
        found = answer.json()
    assert isinstance(found, dict)
    return found


ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])


@ERAS
async def test_a_call_of_either_era_runs(raw: Raw, era: str) -> None:
    said = message(await raw.call(era, '{"query":"q"}', {VERSION: "3"}))
    assert said["result"]["structuredContent"]["database"]["version"] == "3"
    (record,) = raw.site.records("tool.call.start")
    assert record["protocol_version"] == ("2026-07-28" if era == "modern" else "2025-11-25")


@ERAS
@pytest.mark.parametrize(
    "arguments",
    ['{"query":"a","query":"b"}', '{"query":"q","timeout_ms":NaN}', '{"query":"q","timeout_ms":1e999}'],
    ids=["a name twice", "NaN", "an overflow"],
)
async def test_arguments_with_two_readings_are_refused(raw: Raw, era: str, arguments: str) -> None:
    answer = await raw.call(era, arguments, {VERSION: "3"})
    said = message(answer)
    assert "result" not in said
    assert said["error"]["code"] in (-32602, -32700)
    assert raw.site.ran == []


async def test_a_name_given_twice_in_the_meta_is_refused(raw: Raw) -> None:
    answer = await raw.modern('{"query":"q"},"_meta":{}', {VERSION: "3"})
    assert message(answer)["error"]["code"] == -32602
    assert raw.site.ran == []


@ERAS
async def test_a_gate_error_goes_out_with_http_200_or_clients_lose_it(raw: Raw, era: str) -> None:
    answer = await raw.call(era, '{"query":"q"}', {VERSION: "9"})
    assert answer.status_code == 200
    assert message(answer)["error"]["code"] == -31002


async def test_a_null_declaration_is_none_of_the_versions(raw: Raw) -> None:
    said = message(await raw.modern('{"query":"q","timeout_ms":1}', {VERSION: None}))
    assert said["error"]["code"] == -31002


@pytest.mark.parametrize(
    "token",
    [
        "",
        "a.b.c",
        subject_token(aud="https://other.example"),
        subject_token(exp=1),
        subject_token(iss="https://x.example"),
    ],
    ids=["none", "no token", "another audience", "expired", "another issuer"],
)
async def test_nothing_is_said_of_versions_to_a_caller_who_is_not_believed(site: Site, token: str) -> None:
    raw = Raw(site, token)
    answer = await raw.modern('{"query":"q"}', {VERSION: "9"})
    await raw.http.aclose()
    assert answer.status_code == 401
    assert "www-authenticate" in answer.headers
    assert "version" not in answer.text


async def test_an_unknown_tool_is_the_protocols_own_error(site: Site) -> None:
    async with site.client() as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("db.nothing", {})
    assert caught.value.code == -32602
    assert "Unknown tool" in caught.value.message


async def test_a_tool_that_the_broker_does_not_know_is_neither_listed_nor_run(site: Site) -> None:
    ran = []
    site.server.tool(name="helper")(lambda: ran.append(1))
    async with site.client() as client:
        assert [tool.name for tool in await client.list_tools()] == [site.tool]
        with pytest.raises(MCPError) as caught:
            await client.call_tool("helper", {})
    assert caught.value.code == -32602
    assert ran == []


async def listed(site: Site, **claims: Any) -> Any:
    async with site.client(subject_token(groups=["dba"], **claims)) as client:
        tools = await client.list_tools()
    return tools[0] if tools else None


async def test_a_listing_shows_the_version_that_the_caller_is_routed_to_with_its_digest(site: Site) -> None:
    site.broker.wire.command(f"{site.tool}@4", "publish")
    site.broker.wire.command(f"{site.tool}@4", "canary", principals=["carol"])
    for account, version in (("carol", "4"), ("alice", "3")):
        tool = await listed(site, sub=account)
        contract = parse_contract(members(site.tool, version))
        assert (tool.meta[TOOL], tool.meta[VERSION], tool.meta[CONTRACT]) == (site.tool, version, contract.digest)
        wire = published_form(tool.model_dump(mode="json", by_alias=True, exclude_none=True))
        assert parse_contract(wire).digest == contract.digest


async def test_a_deprecated_version_says_so_in_the_last_paragraph(site: Site) -> None:
    site.broker.wire.command(f"{site.tool}@3", "deprecate")
    tool = await listed(site)
    assert "[Deprecated] Version 3" in tool.description.rpartition("\n\n")[2]
    wire = published_form(tool.model_dump(mode="json", by_alias=True, exclude_none=True))
    assert parse_contract(wire).digest == tool.meta[CONTRACT]


async def test_a_tool_that_is_not_served_as_published_is_not_listed_and_not_run(site: Site) -> None:
    published = await site.server.get_tool(site.tool)
    drifted = published.model_copy(update={"description": "Does something else now."})
    site.server.local_provider.remove_tool(site.tool)
    for version in ("3", "4"):
        site.server.add_tool(drifted.model_copy(update={"version": version}))
    assert await listed(site) is None
    with pytest.raises(MCPError) as caught:
        await site.call({"query": "q"}, meta={VERSION: "3"})
    assert caught.value.code == -31004
    assert caught.value.data["published"] != caught.value.data["served"]
    (record,) = await site.recorded("tool.call.deny")
    assert record["reason"] == "contract_drift"


async def test_a_tool_without_a_version_runs_only_where_its_digest_is_the_published_one(site: Site) -> None:
    site.promote_4()
    three = next(tool for tool in await site.server.local_provider.list_tools() if tool.version == "3")
    site.server.local_provider.remove_tool(site.tool)
    site.server.add_tool(three.model_copy(update={"version": None}))
    result = await site.call({"query": "q"}, meta={VERSION: "3"})
    assert result.structured_content["served"] == "3"
    with pytest.raises(MCPError) as caught:
        await site.call({"query": "q"}, meta={VERSION: "4"})
    assert caught.value.code == -31004


async def test_a_version_that_is_only_spelled_alike_is_another_one(site: Site) -> None:
    for tool in list(await site.server.local_provider.list_tools()):
        if tool.version == "3":
            site.server.local_provider.remove_tool(site.tool, version="3")
            site.server.add_tool(tool.model_copy(update={"version": "3.0"}))
    with pytest.raises(MCPError) as caught:
        await site.call({"query": "q"}, meta={VERSION: "3"})
    assert caught.value.code == -31004


async def test_a_listing_is_private_and_fresh_whatever_the_server_asked_for(gate_broker: Any, tool: str) -> None:
    gate_broker.wire.serve(f"{tool}@3")
    made = make_site(gate_broker, tool, gate=gate_for(gate_broker.url), cache_ttl=3_600, cache_scope="public")
    async with serving(made) as site, site.client() as client:
        answer = await client.list_tools_mcp()
    assert answer.cache_scope == "private"
    assert answer.ttl_ms <= 1_000


async def test_the_callers_token_reaches_no_backend_and_no_log(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", logger="broker.gate")
    token, seen = subject_token(groups=["dba"]), []
    site.database.event_hooks["request"] = [_collector(seen)]
    await site.call({"query": "select secret_column"}, meta={VERSION: "3"}, token=token)
    (spent,) = seen
    assert token not in spent
    claims = unverified_claims(spent.removeprefix("Bearer "))
    assert (claims["aud"], claims["iss"], claims["client_id"]) == ("https://db.internal", site.broker.url, "key-mcp")
    assert claims["aud"] != RESOURCE
    said = caplog.text
    assert token not in said
    assert spent.removeprefix("Bearer ") not in said
    assert "secret_column" not in said
    assert all("secret_column" not in json.dumps(record) for record in site.records("tool.call.start"))


def _collector(seen: list[str]) -> Any:
    async def collect(request: httpx2.Request) -> None:
        seen.append(request.headers["authorization"])

    return collect


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_official_client_of_either_era_gets_result_code_and_data(site: Site, mode: str) -> None:
    async with AsyncExitStack() as stack:
        headers = {"Authorization": f"Bearer {subject_token(groups=['dba'])}"}
        http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers))
        transport = streamable_http_client(site.url, http_client=http)
        client = await stack.enter_async_context(OfficialClient(transport, mode=mode))  # type: ignore[arg-type]
        (tool,) = (await client.list_tools()).tools
        assert tool.meta is not None
        result = await client.call_tool(site.tool, {"query": "q"}, meta={VERSION: tool.meta[VERSION], TASK: "report"})
        assert isinstance(result, CallToolResult)
        assert result.structured_content["served"] == "3"
        with pytest.raises(MCPError) as caught:
            await client.call_tool(site.tool, {"query": "q"}, meta={TASK: "report"})
    assert caught.value.code == -31003
    assert caught.value.data["action"] == "relist"


async def test_a_server_that_says_its_address_publishes_whose_tokens_it_takes(gate_broker: Any, tool: str) -> None:
    gate_broker.wire.serve(f"{tool}@3")
    made = make_site(gate_broker, tool)
    made.server.auth = made.gate.auth(base_url="http://127.0.0.1:8430")
    async with serving(made) as site, httpx2.AsyncClient() as http:
        refused = await http.post(site.url, content="{}")
        described = await http.get(site.url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp"))
    assert refused.status_code == 401
    challenge = refused.headers["www-authenticate"]
    assert 'resource_metadata="http://127.0.0.1:8430/.well-known/oauth-protected-resource/mcp"' in challenge
    said = described.json()
    assert said["resource"] == "http://127.0.0.1:8430/mcp"
    assert [server.rstrip("/") for server in said["authorization_servers"]] == ["https://idp.example"]


def test_a_contract_that_the_framework_cannot_list_as_published_is_said_at_once() -> None:
    def run(query: str) -> dict[str, Any]:
        return {"query": query}

    untitled = {name: value for name, value in members("db.x", "4").items() if name != "title"}
    with pytest.raises(ContractError, match="title"):
        contract_tool(run, parse_contract(untitled), version="4")
    assert contract_tool(run, parse_contract(members("db.x", "4")), version="4").version == "4"
