"""A composed broker in this process, without a listener, on its own embedded store: `db.query` 3 stable, 4 canary for all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from broker.app.compose import Parts
from broker.app.running import Running, tended
from broker.app.settings import EMBEDDED, Settings
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
async def composed(
    folder: Path,
    *,
    tending: bool = True,
    store: str = EMBEDDED,
    tenant: str = "default",
    required_replicas: int | None = None,
) -> AsyncIterator[tuple[Parts, str]]:
    """The broker's parts and its store's URL. tending: whether its background work runs."""
    policies = PolicyTree(folder / "policies", tenant=tenant)
    settings = Settings(
        policies=policies.folder,
        data=folder / "data",
        port=free_port(),
        store=store,
        required_replicas=required_replicas,
    )
    running = Running(settings)
    parts = await running.start()
    url = running._embedded.url if running._embedded is not None else store
    try:
        for version in (STABLE, CANARY):
            publish = await parts.policies.publishing(TOOL, version, by="operator")
            assert not isinstance(publish, Refusal)
            await command(parts, publish)
        await command(parts, Promote(TOOL, STABLE))
        await command(parts, Canary(TOOL, CANARY, EVERYBODY))
        if tending:
            async with tended(running):
                yield parts, url
        else:
            yield parts, url
    finally:
        await running.stop()


async def command(parts: Parts, given: VersionCommand) -> Moved:
    """An administrator's command that changes something."""
    moved = await parts.use_cases.versions.run(given, by="operator", request_id=parts.entropy.token())
    assert isinstance(moved, Moved)
    assert moved.changed
    return moved
