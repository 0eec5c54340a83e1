"""Mint against rollback: no credential of a rolled-back version stays active, none comes back to life.

The truth is told by `gseq`, the store's own order of steps: a credential numbered before a rollback is dead for ever, and
none is numbered between a rollback and the canary that follows it. The last test takes the atomic step apart, into look,
look again, write, has a rollback happen after the first look, and must see credentials escape: so the first one can fail.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import redis.asyncio as redis_asyncio
from broker.adapters.redis.keys import raw_jti, tenant_keys
from broker.adapters.redis.store import RedisStore
from broker.ports.store import Issue, Issued, IssueRefused, Standing

from store_parts import a_canary, a_rollback, an_inquiry, an_issue, claimed_store, new_tenant, until

ROLLBACKS = 50
MINTS = 3000
AT_ONCE = 64

Mint = Callable[[Issue], Awaitable[Issued | IssueRefused]]


@dataclass
class Story:
    """What happened: credentials, and the numbers of the rollbacks and of the canaries after them."""

    minted: list[tuple[Issue, Issued]] = field(default_factory=list)
    refused: int = 0
    rollbacks: list[int] = field(default_factory=list)
    canaries: list[int] = field(default_factory=list)
    seq: int = 0
    is_over: bool = False

    def may_live(self, issued: Issued) -> bool:
        return issued.gseq > self.canaries[-1]

    def in_a_window(self) -> list[int]:
        """Credentials numbered while the version was rolled back."""
        windows = list(zip(self.rollbacks, self.canaries, strict=True))
        numbers = [issued.gseq for _, issued in self.minted]
        return [number for number in numbers if any(down < number < up for down, up in windows)]


async def nothing() -> None:
    """What else happens before a rollback, or while the version is rolled back."""


async def play(
    store: RedisStore,
    mint: Mint,
    *,
    before: Callable[[], Awaitable[None]] = nothing,
    meanwhile: Callable[[], Awaitable[None]] = nothing,
) -> Story:
    story = Story()

    async def minter() -> None:
        while not story.is_over:
            issue = an_issue("4", seq=story.seq)
            answer = await mint(issue)
            if isinstance(answer, Issued):
                story.minted.append((issue, answer))
            else:
                story.refused += 1
                await asyncio.sleep(0)

    async def roller() -> None:
        try:
            for turn in range(ROLLBACKS):
                wanted = MINTS * (turn + 1) // ROLLBACKS
                await until(lambda wanted=wanted: len(story.minted) >= wanted)  # type: ignore[misc]
                await before()
                down = await store.change(a_rollback(seq=story.seq))
                assert down is not None
                refused = story.refused
                story.seq = down.seq
                await until(lambda refused=refused: story.refused > refused)  # type: ignore[misc]
                await meanwhile()
                up = await store.change(a_canary(seq=story.seq))
                assert up is not None
                story.rollbacks.append(down.gseq)
                story.canaries.append(up.gseq)
                story.seq = up.seq
            last = len(story.minted) + AT_ONCE
            await until(lambda: len(story.minted) >= last)
        finally:
            story.is_over = True

    await asyncio.gather(roller(), *(minter() for _ in range(AT_ONCE)))
    return story


async def escaped(store: RedisStore, story: Story) -> list[Issued]:
    """Credentials that are active though a rollback came after them."""
    standings = await asyncio.gather(*(store.inquire(an_inquiry(*pair)) for pair in story.minted))
    pairs = zip(story.minted, standings, strict=True)
    return [issued for (_, issued), standing in pairs if standing is Standing.ACTIVE and not story.may_live(issued)]


async def test_no_credential_survives_the_rollback_of_its_version(any_server: str) -> None:
    store = await claimed_store(any_server, new_tenant(), call_seconds=10)
    story = await play(store, store.issue)
    assert len(story.minted) >= MINTS
    assert len(story.rollbacks) == ROLLBACKS
    assert story.refused >= ROLLBACKS
    assert story.in_a_window() == []
    assert await escaped(store, story) == []
    living = [pair for pair in story.minted if story.may_live(pair[1])]
    assert len(living) >= 1
    assert {await store.inquire(an_inquiry(*pair)) for pair in living} == {Standing.ACTIVE}
    assert {issued.gseq for _, issued in story.minted} | {*story.rollbacks, *story.canaries} == set(
        range(1, len(story.minted) + 2 * ROLLBACKS + 1)
    )
    await store.close()


async def test_with_the_atomic_step_taken_apart_credentials_escape(store_server: str) -> None:
    tenant = new_tenant()
    keys = tenant_keys(tenant)
    store = await claimed_store(store_server, tenant, call_seconds=10)
    naive = redis_asyncio.Redis.from_url(store_server, max_connections=AT_ONCE)
    between: list[asyncio.Event] = []  # who has looked, and is slow to go on
    gone_on: list[str] = []

    async def check_then_mint(issue: Issue) -> Issued | IssueRefused:
        if await naive.hget(keys.states, issue.version) not in (b"canary", b"stable"):  # type: ignore[misc]
            return IssueRefused.NOT_MINTABLE
        is_slow = not between and len(gone_on) < ROLLBACKS
        if is_slow:
            between.append(asyncio.Event())
            await between[0].wait()
        rseq = int(await naive.hget(keys.control, "seq"))  # type: ignore[misc]
        gseq = int(await naive.hincrby(keys.control, "gseq", 1))  # type: ignore[misc]
        jti = raw_jti(issue.jti)
        assert jti is not None
        numbers = b"".join(number.to_bytes(6, "big") for number in (store.gen, rseq, gseq))
        record = b"\x01" + jti + numbers + struct.pack(">II", 0xFFFFFFFF, issue.expires_at)
        await naive.set(keys.credential + jti, record, exat=issue.expires_at)
        if is_slow:
            gone_on.append(issue.jti)
        return Issued(store.gen, rseq, gseq)

    async def somebody_has_looked() -> None:
        await until(lambda: bool(between))

    async def let_the_slow_one_go_on() -> None:
        wanted = len(gone_on) + 1
        between[0].set()
        await until(lambda: len(gone_on) == wanted)
        between.clear()

    story = await play(store, check_then_mint, before=somebody_has_looked, meanwhile=let_the_slow_one_go_on)
    assert len(story.in_a_window()) >= ROLLBACKS
    assert len(await escaped(store, story)) > 0
    await naive.aclose()
    await store.close()
