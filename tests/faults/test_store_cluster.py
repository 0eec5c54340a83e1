"""In a cluster: every function stays within the keys that it declares, and they are of one slot."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator

import pytest

from store_parts import (
    StoreProcess,
    a_cluster_node,
    an_assertion,
    an_issue,
    claimed_store,
    every_step,
    new_tenant,
    redis_program,
    valkey_program,
)


@pytest.fixture(params=["valkey", "redis"])
def cluster(request: pytest.FixtureRequest) -> Iterator[StoreProcess]:
    """A cluster of one node that holds all slots."""
    program = valkey_program() if request.param == "valkey" else redis_program()
    if program is None:
        pytest.skip("redis-server is not installed; apt-get install redis-server")
    node = a_cluster_node(program)
    yield node
    node.remove()


def plain_jti() -> str:
    """16 bytes that are all letters and digits: MONITOR's words are told apart by spaces, and random bytes may hold one."""
    return base64.urlsafe_b64encode(secrets.token_hex(8).encode())[:22].decode()


async def test_in_a_cluster_every_step_stays_within_the_keys_it_declares(
    cluster: StoreProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store_parts.new_jti", plain_jti)
    with cluster.admin() as admin, admin.monitor() as monitor:
        store = await claimed_store(cluster.url, new_tenant())
        await store.issue(an_issue(assertion=an_assertion()))
        for step in every_step(store).values():
            await step()
        await store.close()
        declared: set[str] = set()
        functions, touched = set(), 0
        with cluster.admin() as other:
            other.echo("the end")
        while True:
            seen = monitor.next_command()
            words = seen["command"].split(" ")
            if "the end" in seen["command"]:
                break
            if words[0].upper() == "FCALL":
                functions.add(words[1])
                declared = set(words[3 : 3 + int(words[2])])
            elif seen["client_type"] == "lua" and words[0].upper() not in ("INFO", "TIME"):
                touched += 1
                keys = words[1:] if words[0].upper() == "DEL" else words[1:2]
                assert set(keys) <= declared, seen["command"]
    assert len(functions) == 10
    assert touched > 30
