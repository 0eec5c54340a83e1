"""A composed broker in this process, without a listener, on its own embedded store: `db.query` 3 stable, 4 canary for all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from broker.app.compose import Parts
from broker.app.running import Running, tended
from broker.app.settings import Settings
from broker.domain.errors import Refusal
from broker.domain.ids import ClientId, ToolName, Version
from broker.domain.lifecycle.rollout import Canary, Promote, VersionCommand
from broker.domain.lifecycle.states import Cohort
from broker.domain.tokens.client_auth import Secret
from broker.services.versions import Moved

from broker_parts import SECRETS, PolicyTree, free_port

TOOL, STABLE, CANARY = ToolName("db.query"), Version("3"), Version("4")
EVERYBODY = Cohort((), 10_000)
CLIENT = Secret(ClientId("svc"), SECRETS["svc"][1], "client_secret_basic")


@asynccontextmanager
async def composed(folder: Path, *, tending: bool = True) -> AsyncIterator[tuple[Parts, str]]:
    """The broker's parts and its store's URL. tending: whether its background work runs."""
    policies = PolicyTree(folder / "policies")
    running = Running(Settings(policies=policies.folder, data=folder / "data", port=free_port()))
    parts = await running.start()
    assert running._embedded is not None
    try:
        for version in (STABLE, CANARY):
            publish = await parts.policies.publishing(TOOL, version, by="operator")
            assert not isinstance(publish, Refusal)
            await command(parts, publish)
        await command(parts, Promote(TOOL, STABLE))
        await command(parts, Canary(TOOL, CANARY, EVERYBODY))
        if tending:
            async with tended(running):
                yield parts, running._embedded.url
        else:
            yield parts, running._embedded.url
    finally:
        await running.stop()


async def command(parts: Parts, given: VersionCommand) -> Moved:
    """An administrator's command that changes something."""
    moved = await parts.use_cases.versions.run(given, by="operator", request_id=parts.entropy.token())
    assert isinstance(moved, Moved)
    assert moved.changed
    return moved
