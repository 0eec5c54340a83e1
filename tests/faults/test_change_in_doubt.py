"""A rollback whose answer from the store is lost: nobody knows whether it was made, so nothing is minted until that is known."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from broker.app.compose import Parts
from broker.domain.errors import Reason, Refusal, StoreUnavailableError, UnrecordedError
from broker.domain.lifecycle.rollout import Rollback
from broker.services.exchange import Granted

from broker_parts import detail, exchange_form
from composed_broker import CANARY, CLIENT, STABLE, TOOL, composed

PATIENCE_SECONDS = 15


class LostAnswer:
    """The real store; a change is made or not, as told, and its answer is lost either way."""

    def __init__(self, store: Any, *, makes_it: bool) -> None:
        self._store = store
        self._makes_it = makes_it

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def change(self, change: Any) -> Any:
        if self._makes_it:
            await self._store.change(change)
        raise StoreUnavailableError("the answer was lost")


async def exchange(parts: Parts, version: str) -> Granted | Refusal:
    asked = detail(TOOL, version=version, task="report", arguments={"query": "select 1"})
    form = exchange_form(authorization_details=asked)
    return await parts.use_cases.exchange.exchange(CLIENT, form, request_id=parts.entropy.token())


async def lose_a_rollback(parts: Parts, *, makes_it: bool) -> None:
    versions = parts.use_cases.versions
    real = versions._store
    versions._store = LostAnswer(real, makes_it=makes_it)
    try:
        with pytest.raises(StoreUnavailableError):
            await versions.run(Rollback(TOOL, CANARY), by="operator", request_id="lost-rollback")
    finally:
        versions._store = real


async def until_minting(parts: Parts) -> Granted | Refusal:
    """The first answer about the stable version that is no failure."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                return await exchange(parts, STABLE)
            except UnrecordedError:
                await asyncio.sleep(0.02)  # between two looks, under a deadline


async def test_nothing_is_minted_while_a_rollback_is_in_doubt(tmp_path: Path) -> None:
    async with composed(tmp_path, tending=False) as (parts, _):
        await lose_a_rollback(parts, makes_it=True)
        with pytest.raises(UnrecordedError):
            await exchange(parts, STABLE)
        assert (await parts.readiness.report()).checks["records"] != "ok"


async def test_a_rollback_that_was_made_is_recorded_from_the_outbox_and_then_minting_goes_on(tmp_path: Path) -> None:
    async with composed(tmp_path) as (parts, _):
        await lose_a_rollback(parts, makes_it=True)
        assert isinstance(await until_minting(parts), Granted)
        found = [record for _, record in parts.audit.records() if record["id"] == "lost-rollback"]
        assert [record["type"] for record in found] == ["recover"]
        assert found[0]["intent"]["revoked"] == ["version:db.query@4"]
        refused = await exchange(parts, CANARY)
        assert isinstance(refused, Refusal)
        assert refused.reason is Reason.VERSION_ROLLED_BACK


async def test_a_rollback_that_was_not_made_leaves_no_record_and_its_version_served(tmp_path: Path) -> None:
    async with composed(tmp_path) as (parts, _):
        await lose_a_rollback(parts, makes_it=False)
        assert isinstance(await until_minting(parts), Granted)
        assert not [record for _, record in parts.audit.records() if record["id"] == "lost-rollback"]
        assert isinstance(await exchange(parts, CANARY), Granted)
