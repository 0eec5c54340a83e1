"""The story, put together: the people, and seven steps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

import httpx2
from broker.domain.contracts.contract import parse_contract

from .callers import fastmcp_caller, official_caller
from .exchanges import Exchanges
from .operators import Operators
from .scene import Scene
from .stage import Stage
from .step_canary import canary
from .step_promotion import promotion, retirement
from .step_records import records
from .step_refusals import refusals
from .step_rollback import rollback
from .step_stable import stable
from .telling import Teller, play

STEPS: Final[tuple[tuple[str, Callable[[Scene], Awaitable[None]]], ...]] = (
    ("Version 3 is stable", stable),
    ("Version 4 is a canary for ana, 3 goes on for the others", canary),
    ("Version 4 is rolled back while its credential is in use", rollback),
    ("Version 4 is a canary again, and promoted; the dead stay dead", promotion),
    ("Version 3 is retired in an emergency; a client that is still on it recovers", retirement),
    ("Five calls that must not run", refusals),
    ("The audit records of all this", records),
)


async def tell_story(stage: Stage, teller: Teller) -> int:
    """Play it all on a stage whose processes run; the exit code."""
    async with AsyncExitStack() as stack:
        scene = await _set_scene(stage, teller, stack)
        return await play(teller, [(title, partial(step, scene)) for title, step in STEPS])


async def _set_scene(stage: Stage, teller: Teller, stack: AsyncExitStack) -> Scene:
    enter = stack.enter_async_context
    http = await enter(httpx2.AsyncClient(trust_env=False))
    return Scene(
        stage=stage,
        tell=teller,
        operators=Operators(stage, teller),
        exchanges=Exchanges(stage, teller, http, _digests(stage)),
        ana=await enter(fastmcp_caller("ana", stage, teller)),
        bob=await enter(official_caller("bob", stage, teller)),
        dora=await enter(fastmcp_caller("dora", stage, teller)),
        eve=await enter(fastmcp_caller("eve", stage, teller)),
    )


def _digests(stage: Stage) -> dict[str, str]:
    return {version: parse_contract(stage.contract("db.query", version)).digest for version in ("3", "4")}
