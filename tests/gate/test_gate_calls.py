"""What surrounds a tool's run: the credential in its reach, the records, and the end, however it comes."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import httpx2
import pytest
from broker.domain.contracts.contract import parse_contract
from broker.gate import HeldCredential, NoCredentialError, credential
from broker.gate.fastmcp_tools import contract_tool
from fastmcp import Client, Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.middleware import Middleware
from fastmcp.utilities.versions import VersionSpec
from gate_parts import KEYS, TASK, VERSION, Site, gate_for, make_site, members, serving, until, write_pool
from mcp import MCPError
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

from broker_parts import BrokerProcess, read_log, subject_token

PINNED = {VERSION: "3"}


async def test_the_start_is_on_record_before_the_tool_runs(site: Site) -> None:
    call = asyncio.create_task(site.call({"query": "block"}, meta=PINNED))
    await until(lambda: site.ran, "the tool runs")
    (start,) = site.records("tool.call.start")
    assert site.records("tool.call.end") == []
    site.blocked.set()
    result = await call
    (end,) = site.records("tool.call.end")
    reached = result.structured_content["database"]
    for record in (start, end):
        assert (record["tool"], record["version"], record["task"]) == (site.tool, "3", "report")
        assert (record["account"], record["agent"], record["client"]) == ("alice", "agent-7", "key-mcp")
        assert (record["jti"], record["txn"]) == (reached["jti"], reached["txn"])
        assert record["contract"] == parse_contract(members(site.tool, "3")).digest
        assert record["application"] == "tests 1"
    assert end["status"] == "ok"
    assert end["duration_us"] > 0
    (mint,) = site.records("mint")
    assert mint["txn"] == start["txn"]


async def test_the_credential_is_dead_once_the_call_has_ended(site: Site) -> None:
    seen: list[str] = []
    site.database.event_hooks["request"] = [_collect_into(seen)]
    await site.call({"query": "q"}, meta=PINNED)
    assert not site.broker.wire.is_active(seen[0].removeprefix("Bearer "), client="db-api")


def _collect_into(seen: list[str]) -> Any:
    async def collect(request: httpx2.Request) -> None:
        seen.append(request.headers["authorization"])

    return collect


async def test_a_tool_that_fails_gives_its_credential_back_and_ends_on_record(site: Site) -> None:
    with pytest.raises(ToolError, match="on fire"):
        await site.call({"query": "fail"}, meta=PINNED)
    (end,) = site.records("tool.call.end")
    assert end["status"] == "tool_error"
    await given_back(site, end["jti"])


async def test_a_cancelled_call_gives_its_credential_back_and_ends_on_record(site: Site) -> None:
    call = asyncio.create_task(site.call({"query": "block"}, meta=PINNED))
    await until(lambda: site.ran, "the tool runs")
    call.cancel()
    await asyncio.wait({call})
    (end,) = await site.recorded("tool.call.end")
    assert end["status"] == "cancelled"
    await given_back(site, end["jti"])


async def given_back(site: Site, jti: str) -> None:
    """The audit log says that the credential was."""
    await until(
        lambda: any(record["type"] == "release" and record["jti"] == jti for record in read_log(site.broker)),
        "the credential is given back",
    )


async def test_a_rollback_during_a_call_kills_its_credential_and_not_the_other_versions(site: Site) -> None:
    wire = site.broker.wire
    wire.command(f"{site.tool}@4", "publish")
    wire.command(f"{site.tool}@4", "canary", principals=["alice"])
    call = asyncio.create_task(site.call({"query": "block"}, meta={VERSION: "4"}))
    await until(lambda: site.ran, "the tool runs")
    wire.command(f"{site.tool}@4", "rollback")
    site.blocked.set()
    result = await call
    assert result.structured_content["status"] == 401
    other = await site.call({"query": "q"}, meta=PINNED)
    assert other.structured_content["status"] == 200


def test_there_is_no_credential_outside_a_call() -> None:
    with pytest.raises(NoCredentialError):
        credential()


async def test_a_task_that_outlives_the_call_has_no_credential_any_more(site: Site) -> None:
    late: list[BaseException | HeldCredential] = []
    ended = asyncio.Event()

    async def linger() -> None:
        await ended.wait()
        try:
            late.append(credential())
        except NoCredentialError as error:
            late.append(error)

    tasks = []

    async def three(query: str, timeout_ms: int = 1, mode: str | None = None) -> dict[str, Any]:
        tasks.append(asyncio.create_task(linger()))
        held = credential()
        assert held.token not in repr(held)
        return {"scopes": sorted(held.scopes), "audience": held.audience, "version": held.version}

    _replace(site, "3", three)
    result = await site.call({"query": "q"}, meta=PINNED)
    assert result.structured_content == {"scopes": ["db:read"], "audience": "https://db.internal", "version": "3"}
    ended.set()
    await asyncio.gather(*tasks)
    assert isinstance(late[0], NoCredentialError)
    assert "ended" in str(late[0])


def _replace(site: Site, version: str, function: Any) -> None:
    """Serve another function under the same contract."""
    site.server.local_provider.remove_tool(site.tool, version=version)
    site.server.add_tool(contract_tool(function, parse_contract(members(site.tool, version)), version=version))


async def test_a_synchronous_tool_has_its_credential_too(site: Site) -> None:
    def three(query: str, timeout_ms: int = 1, mode: str | None = None) -> dict[str, Any]:
        return {"task": credential().task}

    _replace(site, "3", three)
    result = await site.call({"query": "q"}, meta=PINNED)
    assert result.structured_content == {"task": "report"}


async def test_calls_side_by_side_have_each_their_own(site: Site) -> None:
    async with site.client(subject_token(groups=["dba"])) as client:
        results = await asyncio.gather(
            *(client.call_tool(site.tool, {"query": f"q{n}"}, meta={**PINNED, TASK: "report"}) for n in range(20))
        )
    said = [result.structured_content["database"] for result in results]
    assert len({one["jti"] for one in said}) == 20
    assert len({one["txn"] for one in said}) == 20
    assert len(site.records("tool.call.end", status="ok")) == 20


async def test_inner_middlewares_run_and_may_not_change_the_call(site: Site) -> None:
    seen = []

    class Looks(Middleware):
        async def on_call_tool(self, context: Any, call_next: Any) -> Any:
            seen.append((context.message.name, credential().version))
            if context.message.arguments["query"] == "change":
                context.message.arguments = {"query": "drop everything"}
            return await call_next(context)

    site.server.add_middleware(Looks())
    await site.call({"query": "q"}, meta=PINNED)
    assert seen == [(site.tool, "3")]
    with pytest.raises(ToolError, match="changed the call"):
        await site.call({"query": "change"}, meta=PINNED)
    assert [arguments["query"] for _, arguments in site.ran] == ["q"]


async def test_a_tool_that_calls_another_is_gated_for_that_one_too(site: Site) -> None:
    outer = next(iter(site.server.middleware))
    assert outer is site.gate

    async def three(query: str, ctx: Context, timeout_ms: int = 1, mode: str | None = None) -> dict[str, Any]:
        mine = credential()
        version = VersionSpec(eq="4") if query == "pinned" else None
        inner = await ctx.fastmcp.call_tool(site.tool, {"query": "inner", "timeout": 1}, version=version)
        assert inner.structured_content is not None
        return {"mine": mine.version, "txn": mine.txn, "inner": inner.structured_content, "again": credential().version}

    _replace(site, "3", three)
    with pytest.raises(ToolError, match="strict_validation_failed"):  # undeclared: routed to 3, which knows no timeout
        await site.call({"query": "q"}, meta=PINNED)
    with pytest.raises(ToolError, match="schema_version_unknown"):
        await site.call({"query": "pinned"}, meta=PINNED)
    site.promote_4()
    result = await site.call({"query": "pinned"}, meta=PINNED)
    said = result.structured_content
    assert (said["mine"], said["inner"]["served"], said["again"]) == ("3", "4", "3")
    assert said["inner"]["database"]["version"] == "4"
    assert said["inner"]["database"]["txn"] == said["txn"]


async def test_an_ungated_tool_runs_without_a_credential_but_what_it_calls_is_gated(
    gate_broker: BrokerProcess, tool: str
) -> None:
    gate_broker.wire.serve(f"{tool}@3")
    made = make_site(gate_broker, tool, gate=gate_for(gate_broker.url, ungated={"relay"}))

    @made.server.tool(name="relay")
    async def relay(arguments: dict[str, Any], ctx: Context) -> dict[str, Any]:
        with pytest.raises(NoCredentialError):
            credential()
        return (await ctx.fastmcp.call_tool(tool, arguments)).structured_content or {}

    async with serving(made) as site, site.client() as client:
        assert {listed.name for listed in await client.list_tools()} == {"relay", tool}
        result = await client.call_tool("relay", {"arguments": {"query": "q", "timeout_ms": 1}}, meta={TASK: "report"})
        assert result.structured_content["served"] == "3"
        with pytest.raises(ToolError, match="strict_validation_failed"):
            await client.call_tool("relay", {"arguments": {"query": "q"}}, meta={TASK: "report"})


async def test_a_server_without_authentication_gates_everybody_out(gate_broker: BrokerProcess, tool: str) -> None:
    gate_broker.wire.serve(f"{tool}@3")
    made = make_site(gate_broker, tool)
    made.server.auth = None
    open_server: FastMCP[Any] = FastMCP("open", middleware=[made.gate])
    for served in await made.server.local_provider.list_tools():
        open_server.add_tool(served)
    made.server = open_server
    async with serving(made) as site:
        async with Client(site.url) as client:
            assert await client.list_tools() == []
            with pytest.raises(MCPError) as caught:
                await client.call_tool(tool, {"query": "q"}, meta=PINNED)
    await made.gate.aclose()
    assert caught.value.code == -31005
    assert site.ran == []


async def test_a_call_of_several_rounds_keeps_its_txn(site: Site) -> None:
    async def three(query: str, ctx: Context, timeout_ms: int = 1, mode: str | None = None) -> Any:
        if ctx.request_state is None:
            ask = ElicitRequestFormParams(
                message="Sure?", requested_schema={"type": "object", "properties": {"sure": {"type": "boolean"}}}
            )
            return InputRequiredResult(
                input_requests={"sure": ElicitRequest(method="elicitation/create", params=ask)}, request_state="round-1"
            )
        return {"state": ctx.request_state}

    _replace(site, "3", three)

    async def agree(*_: Any) -> dict[str, bool]:
        return {"sure": True}

    async with site.client(elicitation_handler=agree) as client:
        result = await client.call_tool(site.tool, {"query": "q"}, meta={**PINNED, TASK: "report"})
    assert result.structured_content == {"state": "round-1"}
    first, second = site.records("tool.call.start")
    assert first["txn"] == second["txn"]
    assert first["jti"] != second["jti"]


async def test_no_broker_no_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = BrokerProcess(tmp_path)
    codes: set[int] = set()
    write_pool(broker.policies)
    monkeypatch.setitem(KEYS, "idp", broker.policies.folder / "keys" / "idp.json")
    try:
        broker.start().wire.serve("db.t000@3")
        gate = gate_for(broker.url, timeout_seconds=1.0)
        async with serving(make_site(broker, "db.t000", gate=gate)) as site:
            await site.call({"query": "q"}, meta=PINNED)
            site.ran.clear()
            assert broker.process is not None
            broker.process.send_signal(signal.SIGSTOP)
            async with asyncio.timeout(6):
                slow = await _refused(site)
            broker.process.send_signal(signal.SIGCONT)
            broker.stop(signal.SIGKILL)
            away = await _refused(site)
            assert site.ran == []
            broker.start()
            async with asyncio.timeout(30):
                while (error := await _outcome(site)) is not None:
                    codes.add(error.code)
                    await asyncio.sleep(0.05)
    finally:
        broker.remove()
    assert codes <= {-31006}
    for error in (slow, away):
        assert error.code == -31006
        assert error.data["retry_after"] >= 1
        assert json.dumps(error.data)


async def _outcome(site: Site) -> MCPError | None:
    try:
        await site.call({"query": "back"}, meta=PINNED)
    except MCPError as error:
        return error
    return None


async def _refused(site: Site) -> MCPError:
    with pytest.raises(MCPError) as caught:
        await site.call({"query": "q"}, meta=PINNED)
    return caught.value
