"""A gate that follows the broker's feed: it knows of changed versions before it would ask, and shares what it follows."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from broker.gate.following import Following
from feed_proxy import STREAM, proxied
from gate_parts import VERSION, gate_for, make_site, serving, until
from mcp import MCPError

from broker_parts import BrokerProcess


async def listed(site: Any) -> set[str]:
    async with site.client() as client:
        return {tool.meta[VERSION] for tool in await client.list_tools() if tool.name == site.tool}


async def test_it_lists_a_promoted_version_as_soon_as_the_feed_tells_of_it(
    gate_broker: BrokerProcess, tool: str
) -> None:
    await asyncio.to_thread(gate_broker.wire.serve, f"{tool}@3")
    async with proxied(gate_broker.url) as proxy:
        gate = gate_for(gate_broker.url, broker_url=proxy.url, follow=True)
        async with serving(make_site(gate_broker, tool, gate=gate)) as site:
            assert await listed(site) == {"3"}
            asked = proxy.requests[f"GET /tools/{tool}"]
            await asyncio.to_thread(site.promote_4)
            following = gate._following
            assert isinstance(following, Following)
            view = following.start().view
            await until(lambda: view.versions.get(f"{tool}@4") == "stable", "the feed has told of it")  # type: ignore[call-overload]
            assert await listed(site) == {"4"}
            assert proxy.requests[f"GET /tools/{tool}"] > asked
            assert proxy.requests[f"GET {STREAM}"] == 1
            await asyncio.to_thread(gate_broker.wire.command, f"{tool}@4", "rollback")
            await until(lambda: view.versions.get(f"{tool}@4") == "rolled_back", "and that it is gone")  # type: ignore[call-overload]
            with pytest.raises(MCPError, match="schema_version_retired"):
                await site.call({"query": "q"}, meta={VERSION: "4"})


async def test_a_gate_without_need_does_not_follow(gate_broker: BrokerProcess, tool: str) -> None:
    await asyncio.to_thread(gate_broker.wire.serve, f"{tool}@3")
    async with proxied(gate_broker.url) as proxy:
        gate = gate_for(gate_broker.url, broker_url=proxy.url)
        async with serving(make_site(gate_broker, tool, gate=gate)) as site:
            assert (await site.call({"query": "q", "timeout_ms": 5})).structured_content["served"] == "3"
        assert not [path for path in proxy.requests if "revocations" in path]
