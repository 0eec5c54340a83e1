"""Exchanges against rollbacks, through the composed broker on its own embedded store: log, signature and introspection included.

Fifty times a version is rolled back and made a canary again while exchanges for it are under way. After each step every
credential handed out before it is introspected. The last test takes the atomic step of the store apart, into look and
write, and must see credentials come back to life: so the first one can fail.
"""

from __future__ import annotations

import asyncio
import struct
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis.asyncio as redis_asyncio
from broker.adapters.redis.keys import raw_jti, tenant_keys
from broker.app.compose import Parts
from broker.domain.errors import Reason
from broker.domain.lifecycle.rollout import Canary, Rollback
from broker.ports.store import Issue, Issued, IssueRefused
from broker.services.exchange import Granted

from broker_parts import ISSUER, detail, exchange_form, unverified_claims
from composed_broker import CANARY, CLIENT, EVERYBODY, TOOL, command, composed
from store_parts import until

ROLLBACKS = 50
EXCHANGES = 3_000
AT_ONCE = 64


@dataclass
class Story:
    """What happened. tokens: every credential of version 4 in the order they were handed out."""

    parts: Parts
    tokens: list[str] = field(default_factory=list)
    refused: int = 0
    alive_after_rollback: list[str] = field(default_factory=list)
    back_to_life: list[str] = field(default_factory=list)
    last_canary: int = 0
    rolled_back: list[range] = field(default_factory=list)
    served_again: asyncio.Event = field(default_factory=asyncio.Event)
    is_over: bool = False

    async def active(self, tokens: list[str]) -> list[str]:
        introspect = self.parts.use_cases.introspection.introspect
        answers: list[Any] = await asyncio.gather(*(introspect(CLIENT, {"token": token}) for token in tokens))
        return [token for token, answer in zip(tokens, answers, strict=True) if answer["active"]]


async def play(parts: Parts, *, turns: int = ROLLBACKS, wanted: int = EXCHANGES) -> Story:
    story = Story(parts)
    asked = detail(TOOL, version=CANARY, task="report", arguments={"query": "select 1"})
    form = exchange_form(authorization_details=asked)

    async def caller() -> None:
        while not story.is_over:
            answer = await parts.use_cases.exchange.exchange(CLIENT, form, request_id=parts.entropy.token())
            if isinstance(answer, Granted):
                story.tokens.append(answer.access_token)
            else:
                assert answer.reason is Reason.VERSION_ROLLED_BACK, answer
                story.refused += 1
                await story.served_again.wait()

    async def operator() -> None:
        for turn in range(turns):
            enough = wanted * (turn + 1) // turns
            await until(lambda enough=enough: len(story.tokens) >= enough)  # type: ignore[misc]
            first = max(0, len(story.tokens) - 2 * AT_ONCE)
            story.served_again.clear()
            refused = story.refused
            down = await command(parts, Rollback(TOOL, CANARY))
            story.alive_after_rollback += await story.active(story.tokens[first:])
            await until(lambda refused=refused: story.refused > refused)  # type: ignore[misc]
            before = len(story.tokens)
            up = await command(parts, Canary(TOOL, CANARY, EVERYBODY))
            story.served_again.set()
            story.back_to_life += await story.active(story.tokens[first:before])
            story.rolled_back.append(range(down.seq, up.seq))
            story.last_canary = up.seq
        last = len(story.tokens) + AT_ONCE
        await until(lambda: len(story.tokens) >= last)
        story.is_over = True

    await asyncio.gather(operator(), *(caller() for _ in range(AT_ONCE)))
    return story


async def test_no_credential_outlives_the_rollback_of_its_version(tmp_path: Path) -> None:
    began = time.monotonic()
    async with composed(tmp_path) as (parts, _):
        story = await play(parts)
        assert len(story.tokens) >= EXCHANGES
        assert len(story.rolled_back) == ROLLBACKS
        assert story.refused >= ROLLBACKS
        assert story.alive_after_rollback == []
        assert story.back_to_life == []
        claims = {token: unverified_claims(token) for token in story.tokens}
        assert all(
            one["sub_id"]["iss"] == ISSUER and one["authorization_details"][0]["version"] == "4"
            for one in claims.values()
        )
        while_down = [one for one in claims.values() if any(one["rseq"] in window for window in story.rolled_back)]
        assert while_down == []
        living = {token for token, one in claims.items() if one["rseq"] >= story.last_canary}
        assert living
        assert set(await story.active(story.tokens)) == living
        minted = {one["jti"] for one in claims.values()}
        recorded = {record["jti"] for _, record in parts.audit.records() if record["type"] == "mint"}
        assert minted <= recorded
    assert time.monotonic() - began < 60


async def test_with_the_atomic_step_taken_apart_credentials_come_back_to_life(tmp_path: Path) -> None:
    async with composed(tmp_path) as (parts, url):
        exchange: Any = parts.use_cases.exchange
        naive = LookThenWrite(parts, url)
        exchange._store = naive
        try:
            story = await play(parts, turns=20, wanted=1_200)
        finally:
            await naive.redis.aclose()
        assert len(story.back_to_life) > 0


class LookThenWrite:
    """A credential store that looks at the state in one step, and writes in another."""

    def __init__(self, parts: Parts, url: str) -> None:
        self.parts = parts
        self.keys = tenant_keys(parts.policy.current().tenant)
        self.redis = redis_asyncio.Redis.from_url(url, max_connections=AT_ONCE)

    async def issue(self, issue: Issue) -> Issued | IssueRefused:
        view = await self.parts.store.view()
        if view.versions[issue.version].state.value not in ("canary", "stable"):
            return IssueRefused.STALE_VIEW
        for _ in range(5):  # whatever else a service asks for between its look and its write
            await self.parts.store.view()
        rseq = int(await self.redis.hget(self.keys.control, "seq"))  # type: ignore[misc, arg-type]
        gseq = int(await self.redis.hincrby(self.keys.control, "gseq", 1))  # type: ignore[misc]
        jti = raw_jti(issue.jti)
        assert jti is not None
        numbers = b"".join(number.to_bytes(6, "big") for number in (view.gen, rseq, gseq))
        record = b"\x01" + jti + numbers + struct.pack(">II", 0xFFFFFFFF, issue.expires_at)
        await self.redis.set(self.keys.credential + jti, record, exat=issue.expires_at)
        return Issued(view.gen, rseq, gseq)
