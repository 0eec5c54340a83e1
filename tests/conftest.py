"""The store that tests run on: one real embedded server for the session, and a fresh tenant for each test.

`store_server` is the URL, `store` a claimed `RedisStore` (version 3 of `db.query` stable, version 4 canary, sequence 0).
`any_server` is the same on each server that is supported: Valkey 9, and Redis 7.0 where it is installed.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

import pytest
from broker.adapters.redis.store import RedisStore

from store_parts import StoreProcess, claimed_store, new_tenant, redis_program, valkey_program


@pytest.fixture(scope="session", autouse=True)
def state_home(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Verifiers keep what they saw revoked below here, and not in the home of whoever runs the tests."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state-home"))


@pytest.fixture(scope="session")
def store_server() -> Iterator[str]:
    server = StoreProcess(valkey_program()).start()
    yield server.url
    server.remove()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[str | None]:
    program = redis_program()
    if program is None:
        yield None
        return
    server = StoreProcess(program).start()
    yield server.url
    server.remove()


@pytest.fixture(params=["valkey", "redis"])
def any_server(request: pytest.FixtureRequest) -> str:
    url: str | None = request.getfixturevalue("store_server" if request.param == "valkey" else "redis_server")
    if url is None:
        pytest.skip("redis-server is not installed; apt-get install redis-server")
    return url


@pytest.fixture
async def store(store_server: str) -> AsyncIterator[RedisStore]:
    made = await claimed_store(store_server, new_tenant())
    yield made
    await made.close()


@pytest.fixture
async def any_store(any_server: str) -> AsyncIterator[RedisStore]:
    made = await claimed_store(any_server, new_tenant())
    yield made
    await made.close()
