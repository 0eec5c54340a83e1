"""An exchange costs one store call, however it ends; a refusal that the view settles costs none.

Beats, one in two seconds whatever the number of exchanges, are counted apart.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from broker.app.compose import Parts
from broker.domain.errors import Reason, Refusal
from broker.domain.ids import ClientId, ToolName, Version
from broker.domain.lifecycle.rollout import Promote, Rollback
from broker.domain.tokens.client_auth import Secret
from broker.services.exchange import Granted

from broker_parts import SECRETS, detail, exchange_form
from composed_broker import CANARY, CLIENT, STABLE, TOOL, command, composed

EXCHANGES = 200


def form(**members: Any) -> dict[str, str]:
    asked = detail(TOOL, **{"version": STABLE, "task": "report", "arguments": {"query": "select 1"}, **members})
    return exchange_form(authorization_details=asked)


def calls(parts: Parts) -> int:
    return parts.store.calls - parts.lease.beats


async def exchange(parts: Parts, asked: dict[str, str]) -> Granted | Refusal:
    return await parts.use_cases.exchange.exchange(CLIENT, asked, request_id=parts.entropy.token())


async def test_an_exchange_costs_exactly_one_store_call(tmp_path: Path) -> None:
    # no background work runs, so every call is an exchange's
    async with composed(tmp_path, tending=False) as (parts, _):
        before, asked = calls(parts), form()
        for _ in range(EXCHANGES // 2):
            assert isinstance(await exchange(parts, asked), Granted)
        assert calls(parts) - before == EXCHANGES // 2
        answers = await asyncio.gather(*(exchange(parts, asked) for _ in range(EXCHANGES // 2)))
        assert all(isinstance(answer, Granted) for answer in answers)
        assert calls(parts) - before == EXCHANGES


async def test_the_outbox_is_emptied_by_the_calls_that_come_anyway(tmp_path: Path) -> None:
    async with composed(tmp_path, tending=False) as (parts, _):
        for _ in range(EXCHANGES):
            assert isinstance(await exchange(parts, form()), Granted)
        assert len(await parts.store.pending()) == 1  # the last, whose record was durable after its call


async def test_a_refusal_by_the_view_costs_no_store_call(tmp_path: Path) -> None:
    async with composed(tmp_path, tending=False) as (parts, _):
        before = calls(parts)
        for asked, reason in (
            (form(version="99"), Reason.VERSION_UNKNOWN),
            (form(task="migrate"), Reason.TASK_NOT_ALLOWED),
            (form(arguments={}), Reason.ARGUMENTS_INVALID),
        ):
            refused = await exchange(parts, asked)
            assert isinstance(refused, Refusal)
            assert refused.reason is reason
        assert calls(parts) == before


async def test_a_view_that_fell_behind_costs_one_more_look(tmp_path: Path) -> None:
    async with composed(tmp_path, tending=False) as (parts, _):
        stale = parts.cache.view
        await command(parts, Rollback(TOOL, CANARY))
        parts.cache._view = stale  # as in a process that the rollback did not go through
        before = calls(parts)
        refused = await exchange(parts, form(version=CANARY))
        assert isinstance(refused, Refusal)
        assert refused.reason is Reason.VERSION_ROLLED_BACK
        assert calls(parts) - before == 2  # the refused step, and the view


async def test_a_delegated_exchange_costs_one_store_call_too_however_long_its_chain(tmp_path: Path) -> None:
    ticket, first = ToolName("ticket.edit"), Version("1")
    behind = Secret(ClientId("vector-mcp"), SECRETS["vector-mcp"][1], "client_secret_basic")
    async with composed(tmp_path, tending=False) as (parts, _):
        publish = await parts.policies.publishing(ticket, first, by="operator")
        assert not isinstance(publish, Refusal)
        await command(parts, publish)
        await command(parts, Promote(ticket, first))
        held = await exchange(parts, exchange_form())
        for _ in range(9):
            assert isinstance(held, Granted)
            before, asked = calls(parts), exchange_form(subject_token=held.access_token)
            use_case = parts.use_cases.exchange
            held = await use_case.exchange(behind, asked, request_id=parts.entropy.token())
            assert calls(parts) == before + 1
