"""One broker process for all gate tests, with a pool of tools; each test takes one that nobody has touched."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from gate_parts import KEYS, POOL, Site, make_site, serving, write_pool

from broker_parts import BrokerProcess, PolicyTree


@pytest.fixture(scope="session")
def gate_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("gate-broker")
    tree = PolicyTree(folder / "policies")
    write_pool(tree)
    KEYS["idp"] = tree.folder / "keys" / "idp.json"
    process = BrokerProcess(folder, policies=tree)
    try:
        yield process.start()
    finally:
        process.remove()


@pytest.fixture(scope="session")
def pool() -> Iterator[str]:
    return iter(POOL)


@pytest.fixture
def tool(gate_broker: BrokerProcess, pool: Iterator[str]) -> str:
    """A tool of which nothing is published yet."""
    return next(pool)


@pytest.fixture
async def site(gate_broker: BrokerProcess, tool: str) -> AsyncIterator[Site]:
    """A server over HTTP whose tool is stable in version 3; version 4 is not published."""
    gate_broker.wire.serve(f"{tool}@3")
    async with serving(make_site(gate_broker, tool)) as made:
        yield made
