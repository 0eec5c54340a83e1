"""A primary that lost its replicas, and a broker that is still connected to it: nothing is minted there for longer than a lease."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker.domain.errors import StoreUnavailableError
from broker.domain.lifecycle.rollout import Rollback
from broker.domain.revocation.lease import LEASE_SECONDS
from broker.services.exchange import Granted

from broker_parts import detail, exchange_form
from composed_broker import CANARY, CLIENT, STABLE, command, composed
from store_groups import cut_off, wait_for
from store_parts import PATIENCE_SECONDS, TOOL, StoreProcess, listen, valkey_program


@pytest.fixture
def pair() -> Iterator[tuple[StoreProcess, StoreProcess]]:
    """A primary and its replica."""
    primary = StoreProcess(valkey_program(), "--repl-diskless-sync-delay", "0").start()
    replica = StoreProcess(valkey_program(), "--replicaof", f"127.0.0.1 {listen(primary)}").start()
    with replica.admin() as admin:
        wait_for(lambda: admin.info("replication")["master_link_status"] == "up", "no replica")
    yield primary, replica
    primary.remove()
    replica.remove()


async def test_a_broker_alone_with_a_primary_that_lost_its_replicas_mints_nothing_and_still_rolls_back(
    pair: tuple[StoreProcess, StoreProcess], tmp_path: Path
) -> None:
    primary, replica = pair
    async with composed(tmp_path, store=primary.url, required_replicas=1) as (parts, _):
        exchange, introspect = parts.use_cases.exchange.exchange, parts.use_cases.introspection.introspect
        form = exchange_form(
            authorization_details=detail(TOOL, version=STABLE, task="report", arguments={"query": "select 1"})
        )
        granted = await exchange(CLIENT, form, request_id=parts.entropy.token())
        assert isinstance(granted, Granted)
        cut_off(primary, [replica])
        cut_at = time.monotonic()
        minted_at = cut_at
        with pytest.raises(StoreUnavailableError, match="fewer than the 1 required"):
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    began = time.monotonic()
                    await exchange(CLIENT, form, request_id=parts.entropy.token())
                    minted_at = began
        assert minted_at < cut_at + LEASE_SECONDS
        with pytest.raises(StoreUnavailableError, match="fewer than the 1 required"):
            await introspect(CLIENT, {"token": granted.access_token})
        report = await parts.readiness.report()
        assert not report.is_ready
        assert "fewer than the 1 required" in report.checks["store"]
        moved = await command(
            parts, Rollback(TOOL, CANARY)
        )  # acts, and is written down, however few replicas there are
        assert moved.changed
        replica.thaw()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                try:
                    again = await exchange(CLIENT, form, request_id=parts.entropy.token())
                except StoreUnavailableError:
                    await asyncio.sleep(0.01)
                else:
                    break
        assert isinstance(again, Granted)
        assert (await parts.readiness.report()).is_ready
        assert (await introspect(CLIENT, {"token": granted.access_token}))["active"] is True
