"""A broker that stood still while it asked its store vouches for nothing with a lease that ran out meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from broker.app.compose import Parts
from broker.domain.errors import StoreUnavailableError
from broker.services.exchange import Granted

from broker_parts import detail, exchange_form
from composed_broker import CLIENT, STABLE, TOOL, composed


async def minted(parts: Parts) -> str:
    asked = detail(TOOL, version=STABLE, task="report", arguments={"query": "select 1"})
    form = exchange_form(authorization_details=asked)
    granted = await parts.use_cases.exchange.exchange(CLIENT, form, request_id=parts.entropy.token())
    assert isinstance(granted, Granted)
    return granted.access_token


class Paused:
    """The store, after whose answer the process stands still for as long as a lease lasts."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def inquire(self, inquiry: Any) -> Any:
        answer = await self._parts.store.inquire(inquiry)
        self._parts.lease.drop()
        return answer


async def test_a_lease_that_ran_out_while_the_store_was_asked_is_renewed_before_the_answer(tmp_path: Path) -> None:
    async with composed(tmp_path, tending=False) as (parts, _):
        token = await minted(parts)
        introspection: Any = parts.use_cases.introspection
        introspection._store = Paused(parts)
        beats = parts.lease.beats
        answer = await introspection.introspect(CLIENT, {"token": token})
        assert answer["active"] is True
        assert parts.lease.beats == beats + 1


async def test_where_it_cannot_be_renewed_there_is_no_answer(tmp_path: Path) -> None:
    async with composed(tmp_path, tending=False) as (parts, _):
        token = await minted(parts)
        introspection: Any = parts.use_cases.introspection
        introspection._store = Paused(parts)

        async def lost() -> Any:
            raise StoreUnavailableError("the store is another one by now")

        parts.lease._beat = lost  # type: ignore[method-assign]
        with pytest.raises(StoreUnavailableError):
            await introspection.introspect(CLIENT, {"token": token})
