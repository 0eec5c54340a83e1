"""The connection to the store: cancelled, broken, slow, full, forked. An answer never reaches another caller."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from broker.adapters.redis.store import RedisStore
from broker.domain.audit.replay import Replayed
from broker.domain.errors import StoreUnavailableError, StoreUnclaimedError
from broker.domain.revocation.scopes import EVERYTHING
from broker.ports.store import Issued, Standing

from store_parts import (
    PATIENCE_SECONDS,
    StoreProcess,
    a_rollback,
    an_assertion,
    an_inquiry,
    an_issue,
    claimed_store,
    every_step,
    new_jti,
    new_tenant,
    until,
    valkey_program,
)


class Thief:
    """A proxy before the store that lets a request through, waits for the answer, and hangs up instead of passing it on."""

    def __init__(self, to: str, folder: Path) -> None:
        self.to = to
        self.at = folder / "proxy"
        self.url = f"unix://{self.at}"
        self.steals = 0
        self.serving: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Thief:
        self.server = await asyncio.start_unix_server(self._serve, str(self.at))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.server.close()
        await self.server.wait_closed()
        if self.serving:
            await asyncio.wait(self.serving, timeout=PATIENCE_SECONDS)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.serving.add(task)
        from_store, to_store = await asyncio.open_unix_connection(self.to.removeprefix("unix://"))

        async def requests() -> None:
            while data := await reader.read(65536):
                to_store.write(data)
            to_store.close()

        async def answers() -> None:
            while data := await from_store.read(65536):
                if self.steals:
                    self.steals -= 1
                    break
                writer.write(data)
            writer.close()

        asking = asyncio.create_task(requests())
        await answers()
        asking.cancel()
        to_store.close()
        await asyncio.gather(asking, to_store.wait_closed(), writer.wait_closed(), return_exceptions=True)


@pytest.fixture
async def thief(store_server: str, tmp_path: Path) -> AsyncIterator[Thief]:
    async with Thief(store_server, tmp_path) as made:
        yield made


@pytest.fixture
def server() -> Iterator[StoreProcess]:
    made = StoreProcess(valkey_program()).start()
    yield made
    made.remove()


@contextlib.asynccontextmanager
async def closing(store: RedisStore) -> AsyncIterator[RedisStore]:
    try:
        yield store
    finally:
        await store.close()


async def test_a_step_whose_answer_was_lost_is_repeated_and_acts_once(thief: Thief) -> None:
    async with closing(await claimed_store(thief.url, new_tenant())) as store:
        before = store.calls
        thief.steals = 1
        issue = an_issue(assertion=an_assertion(), uses=1)
        answer = await store.issue(issue)
        assert answer == Issued(store.gen, rseq=0, gseq=1)
        assert store.calls == before + 2
        thief.steals = 1
        assert await store.inquire(an_inquiry(issue, answer, use="r1", assertion=an_assertion())) is Standing.ACTIVE
        assert await store.inquire(an_inquiry(issue, answer, use="r2")) is Standing.USED_UP
        thief.steals = 1
        change = await store.change(a_rollback(seq=0))
        assert change is not None
        assert (change.seq, change.gseq, change.repeated) == (1, 2, True)
        thief.steals = 1
        assert (await store.revoke((EVERYTHING,), id=new_jti(), intent=b"{}")).seq == 2
        thief.steals = 1
        assert await store.take(an_assertion()) is True
        assert [step.gseq for step in await store.pending()] == [1, 2, 3]


async def test_a_claim_whose_answer_was_lost_is_claimed_once(thief: Thief) -> None:
    async with closing(RedisStore(thief.url, new_tenant())) as store:
        found = await store.inspect()
        thief.steals = 1
        await store.claim(found, Replayed(gen=5, seq=3))
        assert (store.gen, (await store.view()).seq) == (5, 3)


async def test_an_answer_lost_twice_is_unavailable_and_a_repeat_by_the_caller_tells(thief: Thief) -> None:
    async with closing(await claimed_store(thief.url, new_tenant())) as store:
        thief.steals = 2
        issue = an_issue(assertion=an_assertion())
        with pytest.raises(StoreUnavailableError):
            await store.issue(issue)
        assert await store.issue(issue) == Issued(store.gen, rseq=0, gseq=1)


async def test_a_cancelled_caller_shifts_no_answer(any_server: str) -> None:
    async with closing(await claimed_store(any_server, new_tenant(), call_seconds=10)) as store:
        known = [an_issue(uses=number) for number in range(1, 21)]
        numbers = {}
        for issue in known:
            answer = await store.issue(issue)
            assert isinstance(answer, Issued)
            numbers[issue.jti] = answer
        chance = random.Random(7)
        for _ in range(100):
            tasks = {issue.jti: asyncio.create_task(store.issue(issue)) for issue in chance.sample(known, 12)}
            others = [asyncio.create_task(store.view()), asyncio.create_task(store.marks())]
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
            doomed = chance.sample([*tasks.values(), *others], 6)
            for task in doomed:
                task.cancel()
            await asyncio.gather(*tasks.values(), *others, return_exceptions=True)
            for jti, task in tasks.items():
                if not task.cancelled():
                    assert task.result() == numbers[jti]
        assert len(await store.pending()) == len(known)


async def test_a_frozen_store_is_unavailable_within_the_deadline_and_serves_again(server: StoreProcess) -> None:
    async with closing(await claimed_store(server.url, new_tenant(), call_seconds=0.3)) as store:
        server.freeze()
        for step in every_step(store).values():
            began = time.monotonic()
            with pytest.raises(StoreUnavailableError):
                await step()
            assert time.monotonic() - began < 0.3 + 0.5
        server.thaw()
        assert isinstance(await store.issue(an_issue(seq=await _seq_of(store))), Issued)


async def _seq_of(store: RedisStore) -> int:
    """What was sent to a frozen store may have acted; whoever asks is told."""
    return (await store.view()).seq


async def test_calls_that_queue_behind_a_slow_batch_keep_their_own_deadline(server: StoreProcess) -> None:
    async with closing(await claimed_store(server.url, new_tenant(), call_seconds=0.4)) as store:
        with server.admin() as admin:
            admin.execute_command("CLIENT", "PAUSE", 60_000, "ALL")
        began = time.monotonic()
        answers = await asyncio.gather(*(store.issue(an_issue()) for _ in range(2000)), return_exceptions=True)
        assert time.monotonic() - began < 0.4 + 1.0
        assert {type(answer) for answer in answers} == {StoreUnavailableError}


async def test_a_full_queue_is_refused_at_once(server: StoreProcess) -> None:
    async with closing(await claimed_store(server.url, new_tenant(), call_seconds=0.5, queue_limit=10)) as store:
        server.freeze()
        waiting = [asyncio.create_task(store.issue(an_issue())) for _ in range(20)]
        await until(lambda: any(task.done() for task in waiting))
        refused = [task for task in waiting if task.done()]
        assert len(refused) == 10
        assert {str(task.exception()) for task in refused} == {"too many calls wait for the store"}
        await asyncio.gather(*waiting, return_exceptions=True)
        server.thaw()


async def test_a_store_that_is_not_there_is_unavailable_at_once(tmp_path: Path) -> None:
    for url in (f"unix://{tmp_path}/nobody", "redis://127.0.0.1:1"):
        async with closing(RedisStore(url, new_tenant())) as store:
            began = time.monotonic()
            with pytest.raises(StoreUnavailableError, match="cannot be reached"):
                await store.inspect()
            assert time.monotonic() - began < 1


async def test_a_dead_store_fails_whoever_waits_and_a_new_one_is_found_unclaimed(server: StoreProcess) -> None:
    async with closing(await claimed_store(server.url, new_tenant(), call_seconds=5)) as store:
        server.freeze()
        sent = store.calls
        waiting = [asyncio.create_task(store.issue(an_issue())) for _ in range(5)]
        await until(lambda: store.calls == sent + 5)
        server.stop(9)
        assert {type(answer) for answer in await asyncio.gather(*waiting, return_exceptions=True)} == {
            StoreUnavailableError
        }
        server.start()
        with pytest.raises(StoreUnclaimedError):
            await store.issue(an_issue())


async def test_closing_fails_whoever_still_waits(server: StoreProcess) -> None:
    store = await claimed_store(server.url, new_tenant(), call_seconds=30)
    server.freeze()
    sent = store.calls
    waiting = [asyncio.create_task(store.issue(an_issue())) for _ in range(3)]
    await until(lambda: store.calls == sent + 3)
    await store.close()
    assert {type(answer) for answer in await asyncio.gather(*waiting, return_exceptions=True)} == {
        StoreUnavailableError
    }
    server.thaw()


async def test_a_forked_worker_does_not_share_the_connection(store_server: str) -> None:
    async with closing(await claimed_store(store_server, new_tenant())) as store:
        mine = an_issue()
        first = await store.issue(mine)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:  # the parent's loop and sockets are here too; nothing of them may be used
            signal.alarm(int(PATIENCE_SECONDS))
            try:
                asyncio.events._set_running_loop(None)
                loop = asyncio.new_event_loop()
                answer = loop.run_until_complete(store.issue(an_issue()))
                os.write(writing, b"%d" % answer.gseq if isinstance(answer, Issued) else b"refused")
            finally:
                os._exit(0)
        os.close(writing)
        answers = await asyncio.gather(*(store.issue(mine) for _ in range(200)))
        assert set(answers) == {first}
        assert (await asyncio.to_thread(os.waitpid, child, 0))[1] == 0
        assert os.read(reading, 100) == b"2"
        os.close(reading)
        assert await store.issue(mine) == first


def test_a_forked_worker_that_keeps_the_loop_does_not_share_the_connection_either(store_server: str) -> None:
    loop = asyncio.new_event_loop()
    store = loop.run_until_complete(claimed_store(store_server, new_tenant()))
    sockets = _sockets(os.getpid())
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(int(PATIENCE_SECONDS))
        try:
            answer = loop.run_until_complete(store.issue(an_issue()))
            fresh = _sockets(os.getpid()) - sockets
            os.write(writing, b"%d %d" % (answer.gseq if isinstance(answer, Issued) else 0, len(fresh)))
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert os.read(reading, 100) == b"1 1"
    assert loop.run_until_complete(store.issue(an_issue())) == Issued(store.gen, rseq=0, gseq=2)
    loop.run_until_complete(store.close())
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    os.close(reading)
    os.close(writing)


def _sockets(pid: int) -> set[str]:
    found = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # the descriptor of the listing itself
            found.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return {name for name in found if name.startswith("socket:")}


def test_a_store_is_good_for_one_event_loop_after_another(store_server: str) -> None:
    store = RedisStore(store_server, new_tenant())

    async def look() -> str:
        run_id = (await store.inspect()).run_id
        await store.close()
        return run_id

    assert asyncio.run(look()) == asyncio.run(look())
