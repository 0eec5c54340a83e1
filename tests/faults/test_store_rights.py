"""A store that cannot keep the promises is refused at start, with the mend in the message."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from broker.adapters.redis.library import NAME, library_text, text_digest
from broker.adapters.redis.replies import RIGHTS
from broker.adapters.redis.store import RedisStore
from broker.domain.errors import StoreUnavailableError, StoreUnclaimedError, StoreUnsuitableError
from broker.domain.lifecycle.states import State
from broker.ports.store import Issued

from store_parts import (
    StoreProcess,
    an_assertion,
    an_issue,
    claim,
    claimed_store,
    every_step,
    new_tenant,
    redis_program,
    valkey_program,
    version_record,
)

PASSWORD = "correct-horse-battery"


@pytest.fixture(params=["valkey", "redis"])
def server(request: pytest.FixtureRequest) -> Iterator[StoreProcess]:
    program = valkey_program() if request.param == "valkey" else redis_program()
    if program is None:
        pytest.skip("redis-server is not installed; apt-get install redis-server")
    made = StoreProcess(program).start()
    yield made
    made.remove()


def a_user(server: StoreProcess, *rules: str) -> str:
    """A store user with these rights and no others; the URL under which it comes in."""
    with server.admin() as admin:
        admin.execute_command("ACL", "SETUSER", "broker", "reset", "on", f">{PASSWORD}", "-@all", *rules)
    return server.url.replace("unix://", f"unix://broker:{PASSWORD}@")


async def test_the_rights_that_are_asked_for_are_enough(server: StoreProcess) -> None:
    url = a_user(server, *RIGHTS.split())
    store = await claimed_store(url, new_tenant())
    assert isinstance(await store.issue(an_issue(uses=1, assertion=an_assertion())), Issued)
    for step in every_step(store).values():
        await step()
    await store.pending()
    await store.close()


@pytest.mark.parametrize("right", [right for right in RIGHTS.split() if right.startswith("+")])
async def test_each_missing_right_is_named_at_start(server: StoreProcess, right: str) -> None:
    url = a_user(server, *(held for held in RIGHTS.split() if held != right))
    store = RedisStore(url, new_tenant())
    with pytest.raises(StoreUnsuitableError, match=f"(?i)may not use .*{re.escape(right[1:])}.*; it needs: "):
        await store.inspect()
    await store.close()


async def test_a_user_kept_to_other_keys_is_refused_at_start(server: StoreProcess) -> None:
    url = a_user(server, *(right.replace("~{brk:*}*", "~other:*") for right in RIGHTS.split()))
    store = RedisStore(url, new_tenant())
    with pytest.raises(StoreUnsuitableError, match="keys of this tenant"):
        await store.inspect()
    await store.close()


async def test_a_right_taken_away_later_is_unsuitable_and_not_a_refusal(server: StoreProcess) -> None:
    store = await claimed_store(a_user(server, *RIGHTS.split()), new_tenant())
    a_user(server, *(right for right in RIGHTS.split() if right != "+fcall"))
    with pytest.raises((StoreUnsuitableError, StoreUnavailableError)):
        await store.issue(an_issue())
    with pytest.raises(StoreUnsuitableError):
        await store.issue(an_issue())
    await store.close()


async def test_a_wrong_password_is_unsuitable_and_never_repeated(server: StoreProcess) -> None:
    url = a_user(server, *RIGHTS.split()).replace(PASSWORD, "wrong-secret")
    store = RedisStore(url, new_tenant())
    with pytest.raises(StoreUnsuitableError) as raised:
        await store.inspect()
    assert "wrong-secret" not in repr(raised.value)
    assert raised.value.__context__ is None or "wrong-secret" not in repr(raised.value.__context__)
    await store.close()


async def test_a_library_of_the_same_name_is_never_replaced(server: StoreProcess) -> None:
    other = b"#!lua name=%b\nredis.register_function('mine', function() return 1 end)" % NAME.encode()
    with server.admin() as admin:
        admin.function_load(other)
        store = RedisStore(server.url, new_tenant())
        with pytest.raises(StoreUnsuitableError) as raised:
            await store.inspect()
        assert text_digest(other) in str(raised.value)
        assert text_digest(library_text()) in str(raised.value)
        assert admin.fcall("mine", 0) == 1
    await store.close()


async def test_a_function_held_by_another_library_is_never_replaced(server: StoreProcess) -> None:
    with server.admin() as admin:
        admin.function_load(b"#!lua name=x\nredis.register_function('store_claim_1', function() return 1 end)")
    store = RedisStore(server.url, new_tenant())
    with pytest.raises(StoreUnsuitableError, match="another library"):
        await store.inspect()
    await store.close()


async def test_a_replica_is_refused(server: StoreProcess) -> None:
    with server.admin() as admin:
        admin.execute_command("REPLICAOF", "127.0.0.1", 1)
    store = RedisStore(server.url, new_tenant())
    with pytest.raises(StoreUnsuitableError, match="replica"):
        await store.inspect()
    await store.close()


async def test_keys_of_another_application_are_told_apart_from_a_broken_store(server: StoreProcess) -> None:
    tenant = new_tenant()
    store = await claimed_store(server.url, tenant)
    with server.admin() as admin:
        admin.delete(f"{{brk:{tenant}}}:st")
        admin.set(f"{{brk:{tenant}}}:st", "something")
    with pytest.raises(StoreUnsuitableError):
        await store.issue(an_issue())
    await store.close()


async def test_a_store_of_a_later_format_is_refused(server: StoreProcess) -> None:
    tenant = new_tenant()
    store = await claimed_store(server.url, tenant)
    with server.admin() as admin:
        admin.hset(f"{{brk:{tenant}}}:ctl", "fmt", "2")
    with pytest.raises(StoreUnsuitableError):
        await store.issue(an_issue())
    with pytest.raises(StoreUnsuitableError, match="format"):
        await store.inspect()
    await store.close()


async def test_what_makes_a_store_forgetful_is_a_warning(server: StoreProcess) -> None:
    store = RedisStore(server.url, new_tenant())
    await store.inspect()
    assert [warning for warning in store.warnings if "no append-only file" in warning]
    with server.admin() as admin:
        admin.config_set("appendonly", "yes")
        admin.config_set("appendfsync", "everysec")
    await store.inspect()
    assert [warning for warning in store.warnings if "everysec" in warning]
    with server.admin() as admin:
        admin.config_set("appendfsync", "always")
    await store.inspect()
    assert store.warnings == ()
    await store.close()


async def test_tenants_do_not_see_each_other(server: StoreProcess) -> None:
    one, two = await claimed_store(server.url, new_tenant()), RedisStore(server.url, new_tenant())
    with pytest.raises(StoreUnclaimedError):
        await two.view()
    await claim(two, version_record("7", State.STABLE))
    assert list((await one.view()).versions) != list((await two.view()).versions)
    await one.close()
    await two.close()
