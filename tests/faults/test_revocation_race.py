"""Mints against everything that revokes, from four processes on one store.

Each process writes down what it was told. `gseq`, which the store gives to every step, puts all of it in one order: the
truth. From that follows what must be dead, and it is compared with what the store says, and with what a verifier says that
judges by marks and states alone. The last test takes the mint apart and must see credentials escape by the same eyes.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from broker.adapters.redis.embedded import EmbeddedServer
from broker.adapters.redis.store import RedisStore
from broker.domain.lifecycle.states import MINTABLE, State
from broker.domain.revocation import view as local
from broker.domain.revocation.feed import Snapshot
from broker.domain.revocation.scopes import is_revoked, key_scope, scopes_of
from broker.domain.revocation.view import RevocationView
from broker.ports.store import Standing, VersionChange

import revocation_racer
from revocation_racer import Minted, read_minted
from store_parts import PATIENCE_SECONDS, claim, new_jti, new_tenant, version_record

PROCESSES = 4


@pytest.fixture
async def embedded(tmp_path: Path) -> AsyncIterator[str]:
    """The store as a broker runs it, each write synced."""
    server = EmbeddedServer(tmp_path / "data")
    await server.start()
    yield server.url
    await server.stop()


@dataclass
class Truth:
    """All that happened, in the store's order."""

    operations: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    minted: list[Minted] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    sequences: list[int] = field(default_factory=list)
    commands: Counter[str] = field(default_factory=Counter)
    came_back: int = 0
    survivors: list[Any] = field(default_factory=list)
    in_a_window: list[Minted] = field(default_factory=list)
    """Minted while their version was not mintable."""
    out_of_time: list[Minted] = field(default_factory=list)
    """Whose `rseq` is not the sequence at which they were minted."""
    states: dict[str, str] = field(default_factory=dict)
    marks: dict[str, int] = field(default_factory=dict)

    def is_alive(self, one: Minted) -> bool:
        if is_revoked(self.marks, scopes_of(one.bearing), rseq=one.issued.rseq):  # type: ignore[arg-type]
            return False
        return key_scope(one.bearing.kid) not in self.marks and self.states[one.version_id] in MINTABLE

    def returned(self) -> list[Minted]:
        """Dead, while their version is served again."""
        return [one for one in self.minted if self.states[one.version_id] in MINTABLE and not self.is_alive(one)]


def truth_of(reports: list[dict[str, Any]]) -> Truth:
    found = Truth(states={"db.query@3": "stable", "db.query@4": "canary"})
    steps: list[tuple[int, Minted | dict[str, Any]]] = []
    for report in reports:
        found.operations += report["operations"]
        found.refused.update(report["refused"])
        found.survivors += report["survivors"]
        found.minted += [read_minted(row) for row in report["minted"]]
        steps += [(change["gseq"], change) for change in report["changes"]]
    steps += [(one.issued.gseq, one) for one in found.minted]
    steps.sort(key=lambda step: step[0])
    seq = 0
    for gseq, step in steps:
        found.numbers.append(gseq)
        if isinstance(step, Minted):
            if found.states.get(step.version_id) not in MINTABLE:
                found.in_a_window.append(step)
            if step.issued.rseq != seq:
                found.out_of_time.append(step)
            continue
        seq = step["seq"]
        found.sequences.append(seq)
        found.commands[step["command"]] += 1
        before = dict(found.states)
        found.states.update(step["states"])
        found.came_back += any(
            before.get(name) == "rolled_back" and state == "canary" for name, state in step["states"].items()
        )
        found.marks.update(dict.fromkeys(step["revoked"], seq))
    return found


async def race(url: str, tenant: str, folder: Path, *, operations: int, changes: int, how: str) -> Truth:
    racers = []
    for number in range(PROCESSES):
        out = str(folder / f"racer-{number}.json")
        shares = (str(operations // PROCESSES), str(changes // PROCESSES))
        racers.append(
            await asyncio.create_subprocess_exec(
                *(sys.executable, revocation_racer.__file__, url, tenant, str(number), *shares, how, out),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        )
    try:
        async with asyncio.timeout(3 * PATIENCE_SECONDS):
            for racer in racers:
                assert racer.stdout is not None
                line = await racer.stdout.readline()
                assert line == b"ready\n", (await racer.communicate())[1].decode()
            said = await asyncio.gather(*(racer.communicate(b"go\n") for racer in racers))
    finally:
        for racer in racers:
            if racer.returncode is None:
                racer.kill()
                await racer.wait()
    assert [racer.returncode for racer in racers] == [0] * PROCESSES, [stderr.decode() for _, stderr in said]
    return truth_of([json.loads((folder / f"racer-{number}.json").read_text()) for number in range(PROCESSES)])


async def bring_back(store: RedisStore, truth: Truth) -> None:
    """Every version that was rolled back is a canary once more."""
    for record in (await store.view()).versions.values():
        if record.state is State.ROLLED_BACK:
            seq = (await store.view()).seq
            again = replace(record, state=State.CANARY, seq=seq + 1)
            assert await store.change(VersionChange(new_jti(), seq, (again,), (), b"{}")) is not None
            truth.states[record.id] = again.state.value
            truth.sequences.append(seq + 1)


async def a_view(store: RedisStore) -> RevocationView:
    """A verifier's view of the store as it is."""
    seen = await store.view()
    made = RevocationView()
    made.take(
        Snapshot(
            seen.gen,
            seen.seq,
            await store.marks(),
            {name: record.state.value for name, record in seen.versions.items()},
        )
    )
    return made


async def told_active(store: RedisStore, minted: list[Minted]) -> set[str]:
    """Whom the store calls active."""
    standings = await asyncio.gather(*(store.inquire(one.inquiry()) for one in minted))
    return {one.bearing.jti for one, standing in zip(minted, standings, strict=True) if standing is Standing.ACTIVE}


def judged_alive(view: RevocationView, minted: list[Minted]) -> set[str]:
    """Whom a verifier accepts that knows marks and states and asks nobody."""
    return {
        one.bearing.jti
        for one in minted
        if view.judge(
            gen=one.issued.gen,
            rseq=one.issued.rseq,
            keys=[key_scope(one.bearing.kid)],
            versions=[one.version_id],
            scopes=lambda one=one: scopes_of(one.bearing),  # type: ignore[misc]
        )
        is local.Standing.ALIVE
    }


async def test_of_20_000_operations_from_four_processes_no_credential_escapes(embedded: str, tmp_path: Path) -> None:
    tenant = new_tenant()
    store = RedisStore(embedded, tenant, call_seconds=20, queue_limit=50_000)
    await claim(store, version_record("3", State.STABLE), version_record("4", State.CANARY))
    truth = await race(embedded, tenant, tmp_path, operations=20_000, changes=320, how="atomic")

    assert truth.operations >= 20_000
    assert len(truth.minted) >= 4_000
    assert {"rollback", "canary", "promote", "deprecate", "retire", "revoke"} <= set(truth.commands)
    assert truth.refused["stale_view"] >= 300
    assert truth.came_back >= 20
    assert truth.numbers == list(range(1, len(truth.numbers) + 1)), "every step has its number, and no two the same"
    assert truth.sequences == list(range(1, len(truth.sequences) + 1)), "seq only grows, by one"
    assert truth.out_of_time == []
    assert truth.in_a_window == []
    assert truth.survivors == []

    await bring_back(store, truth)
    alive = {one.bearing.jti for one in truth.minted if truth.is_alive(one)}
    assert len(truth.returned()) >= 500, "many died whose version came back"
    assert await told_active(store, truth.minted) == alive
    view = await a_view(store)
    assert judged_alive(view, truth.minted) == alive
    assert (view.marks, view.seq) == (truth.marks, len(truth.sequences))
    assert view.versions == truth.states
    await store.close()


async def test_with_the_mint_taken_apart_the_same_race_lets_credentials_escape(embedded: str, tmp_path: Path) -> None:
    tenant = new_tenant()
    store = RedisStore(embedded, tenant, call_seconds=20, queue_limit=50_000)
    await claim(store, version_record("3", State.STABLE), version_record("4", State.CANARY))
    truth = await race(embedded, tenant, tmp_path, operations=4_000, changes=160, how="apart")
    await bring_back(store, truth)
    assert len(truth.in_a_window) > 0
    assert len(truth.survivors) + len(await told_active(store, truth.in_a_window)) > 0, "some of them came to life"
    await store.close()
