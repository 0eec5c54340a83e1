"""Faults that others met with Redis (`vectors/redis_store.json`), each played on a real server of our own."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path

import pytest
from broker.adapters.redis.keys import raw_jti, tenant_keys
from broker.adapters.redis.replies import RIGHTS
from broker.adapters.redis.store import RedisStore
from broker.domain.errors import (
    BrokerError,
    ConfigurationError,
    StoreUnavailableError,
    StoreUnclaimedError,
    StoreUnsuitableError,
)
from broker.domain.ids import Version, parse_tenant, parse_tool_name, parse_version
from broker.domain.lifecycle.states import State
from broker.domain.revocation.scopes import version_scope
from broker.ports.store import Issued, IssueRefused, Standing
from redis.cluster import key_slot

from store_parts import (
    PATIENCE_SECONDS,
    TOOL,
    StoreProcess,
    a_cluster_node,
    a_rollback,
    an_inquiry,
    an_issue,
    claim,
    claimed_store,
    listen,
    new_tenant,
    valkey_program,
    version_record,
)

CASES = json.loads((Path(__file__).parents[1] / "vectors" / "redis_store.json").read_text("utf-8"))

Scenario = Callable[[StoreProcess, RedisStore], Awaitable[str]]
SCENARIOS: dict[str, Scenario] = {}

_WORDS = {
    StoreUnavailableError: "unavailable",
    StoreUnclaimedError: "unclaimed",
    StoreUnsuitableError: "unsuitable",
    ConfigurationError: "configuration error",
}


def scenario(name: str) -> Callable[[Scenario], Scenario]:
    def register(play: Scenario) -> Scenario:
        SCENARIOS[name] = play
        return play

    return register


@asynccontextmanager
async def closing(store: RedisStore) -> AsyncIterator[RedisStore]:
    try:
        yield store
    finally:
        await store.close()


async def word(step: Awaitable[object]) -> str:
    """How a step ended, in one word."""
    try:
        answer = await step
    except BrokerError as error:
        return _WORDS[type(error)]
    return "issued" if isinstance(answer, Issued) else repr(answer)


def test_every_case_has_its_scenario_and_every_scenario_its_case() -> None:
    assert {case["name"] for case in CASES} == set(SCENARIOS)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
async def test_a_fault_that_others_met_ends_as_it_should(case: dict[str, str]) -> None:
    server = StoreProcess(valkey_program()).start()
    try:
        async with closing(await claimed_store(server.url, "acme", call_seconds=0.5)) as store:
            assert await SCENARIOS[case["name"]](server, store) == case["expect"]
    finally:
        server.remove()


@scenario("F6-01/cluster_mint")
async def cluster_mint(server: StoreProcess, store: RedisStore) -> str:
    node = a_cluster_node(valkey_program())
    try:
        async with closing(await claimed_store(node.url, new_tenant())) as in_cluster:
            return await word(in_cluster.issue(an_issue()))
    finally:
        node.remove()


@scenario("F6-01/one_hot_tag")
async def one_hot_tag(server: StoreProcess, store: RedisStore) -> str:
    await store.issue(an_issue())
    await store.change(a_rollback(seq=0))
    with server.admin() as admin:
        slots = {key_slot(key) for key in admin.scan_iter()}
    assert key_slot(tenant_keys("other").control) not in slots
    return "one slot" if len(slots) == 1 else "several slots"


@scenario("F6-01/user_input_in_tag")
async def user_input_in_tag(server: StoreProcess, store: RedisStore) -> str:
    named = [parse(f"a{brace}b") for parse in (parse_tool_name, parse_version, parse_tenant) for brace in "{}"]
    return "no name" if not any(named) else "a name"


@scenario("F6-01/script_flush_single")
async def script_flush_single(server: StoreProcess, store: RedisStore) -> str:
    with server.admin() as admin:
        admin.script_flush()
    ended = await word(store.issue(an_issue()))
    assert len(await store.pending()) == 1
    return ended


@scenario("F6-01/script_flush_pipeline")
async def script_flush_pipeline(server: StoreProcess, store: RedisStore) -> str:
    mints = [asyncio.create_task(word(store.issue(an_issue()))) for _ in range(600)]
    await asyncio.wait(mints, return_when=asyncio.FIRST_COMPLETED)
    with server.admin() as admin:
        admin.function_flush()
        ended = await asyncio.gather(*mints)
        credentials = len(list(admin.scan_iter(b"*}c*")))
    assert set(ended) <= {"issued", "unclaimed"}
    outbox = len(await store.pending())
    return "whole credentials only" if credentials == outbox == ended.count("issued") else "halves"


@scenario("F6-01/multi_exec")
async def multi_exec(server: StoreProcess, store: RedisStore) -> str:
    with server.admin() as admin:
        admin.set(tenant_keys("acme").outbox, "in the way")
        assert await word(store.issue(an_issue())) == "unsuitable"
        return "no credential" if not list(admin.scan_iter(b"*}c*")) else "a credential"


@scenario("F6-01/undeclared_key")
async def undeclared_key(server: StoreProcess, store: RedisStore) -> str:
    """By their text; `test_store_cluster.py` watches them at it."""
    text = "".join(file.read_text("utf-8") for file in (files("broker.adapters.redis") / "functions").iterdir())
    named = re.findall(r"redis\.call\('(?!INFO|TIME)[A-Z]+', ([^,)]+)", text)
    assert len(named) > 30
    allowed = re.compile(r"keys\[\d\]|key|control|outbox|marks|idempotency|feed|states")
    return "declared" if all(allowed.fullmatch(name.strip()) for name in named) else "undeclared"


@scenario("F6-01/select_db")
async def select_db(server: StoreProcess, store: RedisStore) -> str:
    try:
        RedisStore(f"{server.url}?db=1", "acme")
    except ConfigurationError:
        return "configuration error"
    return "accepted"


@scenario("F6-02/promoted_replica")
async def promoted_replica(server: StoreProcess, store: RedisStore) -> str:
    issue = an_issue("4")
    minted = await store.issue(issue)
    assert isinstance(minted, Issued)
    replica = StoreProcess(valkey_program()).start()
    try:
        with server.admin() as admin:
            admin.config_set("repl-diskless-sync-delay", 0)
        with replica.admin() as admin:
            admin.execute_command("REPLICAOF", "127.0.0.1", listen(server))
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not admin.exists(tenant_keys("acme").control):
                assert time.monotonic() < deadline
            admin.execute_command("REPLICAOF", "NO", "ONE")
        await store.change(a_rollback(seq=0))
        async with closing(RedisStore(replica.url, "acme")) as moved:
            await moved.adopt(await store.inspect())
            assert await word(moved.issue(an_issue("4"))) == "unclaimed"
            assert await word(moved.inquire(an_inquiry(issue, minted))) == "unclaimed"
            v4 = version_scope(TOOL, Version("4"))
            await claim(moved, version_record("4", State.ROLLED_BACK, seq=1), seq=1, marks={v4: 1})
            assert await moved.inquire(an_inquiry(issue, minted)) is Standing.REVOKED
            assert await moved.issue(an_issue("4", seq=1)) is IssueRefused.NOT_MINTABLE
    finally:
        replica.remove()
    return "unclaimed until the rollback is replayed"


@scenario("F6-02/demoted_primary")
async def demoted_primary(server: StoreProcess, store: RedisStore) -> str:
    with server.admin() as admin:
        admin.execute_command("REPLICAOF", "127.0.0.1", 1)
    assert await word(store.change(a_rollback(seq=0))) == "unavailable"
    return await word(store.issue(an_issue()))


@scenario("F6-02/acknowledged_by_none")
async def acknowledged_by_none(server: StoreProcess, store: RedisStore) -> str:
    async with closing(await claimed_store(server.url, new_tenant(), required_replicas=1)) as alone:
        issue = an_issue("4")
        minted = await alone.issue(issue)
        assert isinstance(minted, Issued)
        applied = await alone.change(a_rollback(seq=0))
        assert applied is not None
        assert await alone.inquire(an_inquiry(issue, minted)) is Standing.REVOKED
        assert await word(alone.replicated.step(b"store_beat_1", (alone._session.keys.control,))) == "unavailable"
    return f"acts, and says {applied.replicas} replicas"


@scenario("F6-02/lagging_replica")
async def lagging_replica(server: StoreProcess, store: RedisStore) -> str:
    replica = StoreProcess(valkey_program(), "--replicaof", f"127.0.0.1 {listen(server)}").start()
    try:
        async with closing(RedisStore(replica.url, "acme")) as lagging:
            return await word(lagging.inspect())
    finally:
        replica.remove()


@scenario("F6-02/readonly_then_right_node")
async def readonly_then_right_node(server: StoreProcess, store: RedisStore) -> str:
    new = StoreProcess(valkey_program()).start()
    try:
        async with closing(RedisStore(new.url, "acme")) as other:
            await other.inspect()  # which loads the functions
        with server.admin() as admin:
            admin.execute_command("REPLICAOF", "127.0.0.1", listen(new))
        server.socket.unlink()
        server.socket.symlink_to(new.socket)
        sent = store.calls
        ended = await word(store.issue(an_issue()))
        assert store.calls == sent + 2
        return ended
    finally:
        new.remove()


async def eviction(server: StoreProcess, store: RedisStore, policy: str) -> str:
    with server.admin() as admin:
        admin.config_set("maxmemory-policy", policy)
    return await word(store.inspect())


@scenario("F6-03/allkeys_lru")
async def allkeys_lru(server: StoreProcess, store: RedisStore) -> str:
    return await eviction(server, store, "allkeys-lru")


@scenario("F6-03/volatile_ttl")
async def volatile_ttl(server: StoreProcess, store: RedisStore) -> str:
    return await eviction(server, store, "volatile-ttl")


@scenario("F6-03/config_check")
async def config_check(server: StoreProcess, store: RedisStore) -> str:
    await store.inspect()
    return await eviction(server, store, "allkeys-lru")


@scenario("F6-03/noeviction_full")
async def noeviction_full(server: StoreProcess, store: RedisStore) -> str:
    issue = an_issue("4")
    minted = await store.issue(issue)
    assert isinstance(minted, Issued)
    with server.admin() as admin:
        admin.config_set("maxmemory", 1)
    await store.change(a_rollback(seq=0))
    return "rolled back" if await store.inquire(an_inquiry(issue, minted)) is Standing.REVOKED else "alive"


@scenario("F6-03/store_down_read")
async def store_down_read(server: StoreProcess, store: RedisStore) -> str:
    issue = an_issue()
    minted = await store.issue(issue)
    assert isinstance(minted, Issued)
    server.stop()
    return await word(store.inquire(an_inquiry(issue, minted)))


@scenario("F6-03/store_down_write")
async def store_down_write(server: StoreProcess, store: RedisStore) -> str:
    server.stop()
    return await word(store.change(a_rollback(seq=0)))


@scenario("F6-03/slow_2s")
async def slow(server: StoreProcess, store: RedisStore) -> str:
    with server.admin() as admin:
        admin.execute_command("CLIENT", "PAUSE", 2000, "ALL")
    began = time.monotonic()
    ended = await word(store.issue(an_issue()))
    assert time.monotonic() - began < 1.5
    return ended


@scenario("F6-03/flushall")
async def flushall(server: StoreProcess, store: RedisStore) -> str:
    with server.admin() as admin:
        admin.flushall()
    return await word(store.issue(an_issue()))


@scenario("F6-05/cancel_mid_get")
async def cancel_mid_get(server: StoreProcess, store: RedisStore) -> str:
    sent = store.calls
    doomed = asyncio.create_task(store.view())
    async with asyncio.timeout(PATIENCE_SECONDS):
        while store.calls == sent:
            await asyncio.sleep(0)
    doomed.cancel()
    issue = an_issue()
    answers = [await store.issue(issue), await store.issue(issue), await store.marks()]
    return "own answers" if answers == [Issued(store.gen, 0, 1), Issued(store.gen, 0, 1), {}] else "somebody else's"


@scenario("F6-05/fork_after_connect")
async def fork_after_connect(server: StoreProcess, store: RedisStore) -> str:
    """By the process that the connection belongs to; `test_store_connection.py` forks."""
    await store.view()
    with server.admin() as admin:
        before = len(admin.client_list())
        store._pipeline._pid = 1
        await store.view()
        return "no shared socket" if len(admin.client_list()) == before + 1 else "a shared socket"


@scenario("F6-05/timeout_retry_mint")
async def timeout_retry_mint(server: StoreProcess, store: RedisStore) -> str:
    issue = an_issue()
    server.freeze()
    assert await word(store.issue(issue)) == "unavailable"
    server.thaw()
    assert await word(store.issue(issue)) == "issued"
    with server.admin() as admin:
        credentials = len(list(admin.scan_iter(b"*}c*")))
    return "one credential" if credentials == len(await store.pending()) == 1 else "more"


@scenario("F6-05/pool_exhausted")
async def pool_exhausted(server: StoreProcess, store: RedisStore) -> str:
    async with closing(await claimed_store(server.url, new_tenant(), call_seconds=0.3, queue_limit=5)) as narrow:
        server.freeze()
        ended = await asyncio.gather(*(word(narrow.issue(an_issue())) for _ in range(50)))
        server.thaw()
    assert len(set(ended)) == 1
    return ended[0]


@scenario("F6-05/resp3_types")
async def resp3_types(server: StoreProcess, store: RedisStore) -> str:
    issue = an_issue()
    seen = []
    for protocol in (2, 3):
        async with closing(RedisStore(server.url, "acme", protocol=protocol)) as other:  # type: ignore[arg-type]
            await other.adopt(await other.inspect())
            seen.append((await other.issue(issue), await other.view(), await other.marks(), len(await other.pending())))
    return "same answers" if seen[0] == seen[1] else "other answers"


@scenario("F6-05/bytes_vs_str")
async def bytes_vs_str(server: StoreProcess, store: RedisStore) -> str:
    try:
        RedisStore(f"{server.url}?decode_responses=yes", "acme")
    except ConfigurationError:
        return "configuration error"
    return "accepted"


@scenario("F6-05/acl_noperm")
async def acl_noperm(server: StoreProcess, store: RedisStore) -> str:
    with server.admin() as admin:
        admin.execute_command("ACL", "SETUSER", "b", "reset", "on", ">pw", "-@all", *RIGHTS.split(), "-hset")
    async with closing(RedisStore(server.url.replace("unix://", "unix://b:pw@"), "acme")) as weak:
        return await word(weak.inspect())


@scenario("F6-05/wrong_value")
async def wrong_value(server: StoreProcess, store: RedisStore) -> str:
    mine, other = an_issue(), an_issue()
    minted, _ = await store.issue(mine), await store.issue(other)
    assert isinstance(minted, Issued)
    at = tenant_keys("acme").credential
    mine_raw, other_raw = raw_jti(mine.jti), raw_jti(other.jti)
    assert mine_raw is not None
    assert other_raw is not None
    with server.admin() as admin:
        admin.set(at + mine_raw, admin.get(at + other_raw))
    return (await store.inquire(an_inquiry(mine, minted))).value
