"""Which version of a tool a call runs, and what the others are told (DESIGN §7)."""

from __future__ import annotations

from typing import Any

import pytest
from fastmcp.exceptions import ToolError
from gate_parts import TASK, VERSION, Site
from mcp import MCPError

from broker_parts import subject_token

PINNED = {VERSION: "3"}


async def test_a_declared_call_of_the_stable_version_runs_with_a_credential_for_it(site: Site) -> None:
    result = await site.call({"query": "select 1"}, meta=PINNED)
    said = result.structured_content
    assert said["served"] == "3"
    assert said["status"] == 200
    reached = said["database"]
    assert (reached["tool"], reached["version"], reached["task"]) == (site.tool, "3", "report")
    assert reached["scopes"] == ["db:read"]
    assert (reached["account"], reached["agent"]) == ("alice", "agent-7")


async def test_scopes_follow_the_arguments(site: Site) -> None:
    result = await site.call({"query": "delete", "mode": "write"}, meta={**PINNED, TASK: "migrate"})
    assert result.structured_content["database"]["scopes"] == ["db:read", "db:write"]


async def refusal(site: Site, arguments: dict[str, Any], meta: dict[str, Any], token: str | None = None) -> MCPError:
    with pytest.raises(MCPError) as caught:
        await site.call(arguments, meta=meta, token=token)
    assert site.ran == []
    return caught.value


async def test_a_version_never_served_is_refused_hard(site: Site) -> None:
    error = await refusal(site, {"query": "q"}, {VERSION: "9"})
    assert error.code == -31002
    assert error.data == {"tool": site.tool, "declared": "9"}
    assert "schema_version_unknown" in error.message


async def test_a_published_version_was_never_served(site: Site) -> None:
    site.broker.wire.command(f"{site.tool}@4", "publish")
    assert (await refusal(site, {"query": "q"}, {VERSION: "4"})).code == -31002


async def test_a_retired_version_sends_the_client_back_to_the_listing(site: Site) -> None:
    await site.call({"query": "q"}, meta=PINNED)  # the gate has an opinion, which is now out of date
    site.ran.clear()
    site.promote_4()
    site.broker.wire.command(f"{site.tool}@3", "retire", emergency="leak")
    error = await refusal(site, {"query": "q"}, PINNED)
    assert error.code == -31001
    assert error.data == {
        "tool": site.tool,
        "declared": "3",
        "current": "4",
        "action": "relist",
        "retry": "once",
    }
    assert "tools/list" in error.message
    assert "4" in error.message


async def test_a_rolled_back_version_is_refused_though_the_gate_last_heard_that_it_is_served(site: Site) -> None:
    site.broker.wire.command(f"{site.tool}@4", "publish")
    site.broker.wire.command(f"{site.tool}@4", "canary", principals=["alice"])
    result = await site.call({"query": "q"}, meta={VERSION: "4"})
    assert result.structured_content["served"] == "4"
    site.ran.clear()
    site.broker.wire.command(f"{site.tool}@4", "rollback")
    error = await refusal(site, {"query": "q"}, {VERSION: "4"})
    assert error.code == -31001
    assert error.data["current"] == "3"


async def test_a_canary_is_for_whom_it_is_routed_to(site: Site) -> None:
    site.broker.wire.command(f"{site.tool}@4", "publish")
    site.broker.wire.command(f"{site.tool}@4", "canary", principals=["carol"])
    carol = subject_token(sub="carol")
    result = await site.call({"query": "q"}, meta={VERSION: "4"}, token=carol)
    assert result.structured_content["served"] == "4"
    result = await site.call({"query": "q", "timeout_ms": 1}, token=subject_token())
    assert result.structured_content["served"] == "3"
    site.ran.clear()
    error = await refusal(site, {"query": "q"}, {VERSION: "4"}, token=subject_token(sub="bob"))
    assert error.code == -31005
    assert error.data["reason"] == "version_not_routed"


async def test_an_undeclared_call_that_fits_exactly_runs_the_version_it_is_routed_to(site: Site) -> None:
    result = await site.call({"query": "q", "timeout_ms": 5})
    assert result.structured_content["served"] == "3"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"query": "q"}, "/timeout_ms"),
        ({"query": "q", "timeout_ms": 1, "toolCallId": "abc"}, "toolCallId"),
        ({"query": "q", "timeout_ms": "1"}, "/timeout_ms"),
        ({"query": "q", "timeout": 1}, "timeout"),
    ],
    ids=["a default left out", "a key of the host's", "text for a number", "the other version's name"],
)
async def test_an_undeclared_call_that_does_not_fit_is_told_to_list_again(
    site: Site, arguments: dict[str, Any], named: str
) -> None:
    error = await refusal(site, arguments, {})
    assert error.code == -31003
    assert error.data["action"] == "relist"
    assert error.data["current"] == "3"
    assert named in error.data["problem"]


async def test_invalid_arguments_of_a_declared_call_are_the_models_to_mend(site: Site) -> None:
    with pytest.raises(ToolError, match="unknown name"):
        await site.call({"query": "q", "limit": 3}, meta=PINNED)
    with pytest.raises(ToolError, match="timeout_ms"):
        await site.call({"query": "q", "timeout_ms": "5"}, meta=PINNED)
    assert site.ran == []
    (record, _) = await site.recorded("tool.call.deny", 2, reason="arguments_invalid")
    assert record["declared"] == "3"


async def test_a_declared_call_may_leave_a_default_out(site: Site) -> None:
    await site.call({"query": "q"}, meta=PINNED)
    assert site.ran == [("3", {"query": "q", "timeout_ms": 30_000, "mode": None})]


@pytest.mark.parametrize(
    "meta",
    [
        {VERSION: "3", "schemaVersion": "4"},
        {VERSION: 3},
        {"schemaVersion": {"eq": "3"}},
        {VERSION: "3", "fastmcp": {"version": "4"}},
        {"fastmcp": {"version": "4"}},
        {VERSION: "3", "fastmcp": {"version": "3.0"}},
        {VERSION: "3.0"},
        {VERSION: "v3"},
    ],
    ids=str,
)
async def test_a_declaration_with_two_readings_or_none_is_refused(site: Site, meta: dict[str, Any]) -> None:
    assert (await refusal(site, {"query": "q", "timeout_ms": 1}, meta)).code == -31002


async def test_the_bare_key_and_the_frameworks_own_may_agree_with_ours(site: Site) -> None:
    result = await site.call({"query": "q"}, meta={"schemaVersion": "3"})
    assert result.structured_content["served"] == "3"
    result = await site.call({"query": "q"}, meta={**PINNED, "fastmcp": {"version": "3"}})
    assert result.structured_content["served"] == "3"


async def test_both_versions_are_served_side_by_side(site: Site) -> None:
    site.promote_4()
    for version in ("3", "4"):
        result = await site.call({"query": "q"}, meta={VERSION: version})
        assert result.structured_content["served"] == version
        assert result.structured_content["database"]["version"] == version


async def test_a_task_that_policy_does_not_allow_is_refused_with_its_reason(site: Site) -> None:
    error = await refusal(site, {"query": "q"}, {**PINNED, TASK: "migrate"}, token=subject_token(groups=["analysts"]))
    assert error.code == -31005
    assert error.data["reason"] == "task_not_allowed"
    error = await refusal(site, {"query": "q"}, {**PINNED, TASK: "Not A Task"})
    assert error.data["reason"] == "task_unknown"


async def test_a_version_of_a_moment_ago_is_known_to_a_gate_that_looked_before(site: Site) -> None:
    await site.call({"query": "q"}, meta=PINNED)
    site.broker.wire.command(f"{site.tool}@4", "publish")
    site.broker.wire.command(f"{site.tool}@4", "canary", principals=["alice"])
    result = await site.call({"query": "q"}, meta={VERSION: "4"})
    assert result.structured_content["served"] == "4"
