"""Faults that others met in rollouts (`vectors/rollouts.json`), each played with a tool of its own on two brokers and one store."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from broker.adapters.redis.keys import raw_jti, tenant_keys
from broker.adapters.redis.store import RedisStore
from broker.domain.ids import VersionId
from broker.domain.revocation.scopes import EVERYTHING
from broker.ports.store import Inquiry, Standing

from broker_load import Load
from broker_parts import TOOLS_API, contract, detail, read_log, unverified_claims, wait_until
from mass_mint import Minting, mint
from replica_parts import Replica, Replicas, refusal_of
from store_parts import StoreProcess, valkey_program

CASES = json.loads((Path(__file__).parents[1] / "vectors" / "rollouts.json").read_text("utf-8"))
STORM = 200_000
TENANT = "default"


@dataclass
class Stage:
    """Two brokers on one store. tool: of this case alone, with versions 1 to 3."""

    store: StoreProcess
    brokers: Replicas
    tool: str

    @property
    def a(self) -> Replica:
        return self.brokers[0]

    @property
    def b(self) -> Replica:
        return self.brokers[1]

    def asking(self, version: int) -> dict[str, Any]:
        return {"authorization_details": detail(self.tool, version=str(version), task="read")}

    def try_to_mint(self, version: int, *, at: Replica | None = None) -> Any:
        """`minted`, or the reason."""
        return refusal_of((at or self.a).wire.exchange(**self.asking(version)))

    def mint(self, version: int) -> str:
        return str(self.a.wire.mint(**self.asking(version))["access_token"])

    def command(self, version: int, command: str, **body: Any) -> dict[str, Any]:
        return self.a.wire.command(f"{self.tool}@{version}", command, **body)

    def told(self, version: int, command: str, **body: Any) -> str:
        """Status and reason of a command."""
        answer = self.a.wire.admin("POST", f"/versions/{self.tool}/{version}/{command}", body=body)
        return f"{answer.status_code} {answer.json().get('reason', '')}".strip()

    def canary(self, version: int) -> None:
        """A canary that everybody is routed to."""
        self.command(version, "publish")
        self.command(version, "canary", weight_percent=100)

    def versions(self, *, at: Replica | None = None) -> dict[str, Any]:
        listed = (at or self.a).wire.admin("GET", "/versions").json()
        found = {one["version"]: one for one in listed["versions"] if one["tool"] == self.tool}
        return {"seq": listed["seq"], **found}

    def records(self, version: int, kind: str) -> list[dict[str, Any]]:
        return [
            record
            for record in read_log(self.a)
            if record["type"] == kind and (record.get("tool"), record.get("version")) == (self.tool, str(version))
        ]

    def are_active(self, *tokens: str) -> set[bool]:
        return {broker.wire.is_active(token) for broker in (self.a, self.b) for token in tokens}


Scenario = Callable[[Stage], str]
SCENARIOS: dict[str, Scenario] = {}


def scenario(name: str) -> Callable[[Scenario], Scenario]:
    def register(play: Scenario) -> Scenario:
        SCENARIOS[name] = play
        return play

    return register


def tool_of(name: str) -> str:
    return "case." + name.partition("/")[2].replace("_", "-")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[StoreProcess, Replicas]]:
    store = StoreProcess(valkey_program(), "--appendonly", "yes", "--appendfsync", "always").start()
    brokers = Replicas(tmp_path_factory.mktemp("brokers"), store.url, 2)
    tree = brokers[0].policies
    for case in CASES:
        tree.add_tool(
            contract(tool_of(case["name"]), {"key": {"type": "string"}}),
            audience=TOOLS_API,
            scopes={"root.read": {"needed_when": True}},
            tasks={"read": {"allow": {"clients": ["svc"]}, "scopes": ["root.read"]}},
            versions=3,
        )
    trust = json.loads((tree.folder / "trust.yaml").read_text())
    for part in (*(issuer["ceiling"] for issuer in trust["issuers"].values()), *trust["clients"].values()):
        part.get("tools", []).append("case.*")
    (tree.folder / "trust.yaml").write_text(json.dumps(trust))
    try:
        brokers[0].start()
        brokers[1].start()
        yield store, brokers
        for broker in brokers.all:
            assert "Traceback" not in broker.said(), broker.said()
    finally:
        brokers.remove()
        store.remove()


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_what_others_met_in_rollouts(case: dict[str, str], running: tuple[StoreProcess, Replicas]) -> None:
    assert SCENARIOS[case["name"]](Stage(*running, tool_of(case["name"]))) == case["expect"]


@scenario("F7-01/abort_idle")
def abort_idle(stage: Stage) -> str:
    stage.a.wire.serve(f"{stage.tool}@1")
    stage.command(2, "publish")
    token, before = stage.mint(1), stage.versions()["seq"]
    said = stage.told(1, "rollback"), stage.told(2, "rollback")
    moved = "nothing moved" if stage.versions()["seq"] == before else "it moved"
    return f"{', '.join(said)}, {moved}, stable credentials {'live' if stage.are_active(token) == {True} else 'dead'}"


@scenario("F7-01/abort_after_promote")
def abort_after_promote(stage: Stage) -> str:
    stage.a.wire.serve(f"{stage.tool}@1")
    old = stage.mint(1)
    stage.canary(2)
    stage.command(2, "promote")
    new = stage.mint(2)
    stage.command(2, "rollback")
    assert stage.try_to_mint(2) == "version_rolled_back"
    assert stage.try_to_mint(1) == "minted"
    found = stage.versions()
    return (
        f"it is {'dead' if stage.are_active(new) == {False} else 'alive'}, its predecessor is {found['1']['state']}, "
        f"credentials of the predecessor {'live' if stage.are_active(old) == {True} else 'are dead'}"
    )


@scenario("F7-01/abort_twice")
def abort_twice(stage: Stage) -> str:
    stage.canary(1)
    before = stage.versions()["seq"]
    said = stage.told(1, "rollback"), stage.told(1, "rollback")
    steps = stage.versions()["seq"] - before
    records = len(stage.records(1, "version.rollback"))
    return f"{', '.join(said)}, {'one step' if steps == 1 else steps}, {'one record' if records == 1 else records}"


@scenario("F7-01/abort_unknown")
def abort_unknown(stage: Stage) -> str:
    before = stage.versions()["seq"]
    said = stage.told(9, "rollback")
    return f"{said}, {'nothing moved' if stage.versions()['seq'] == before else 'it moved'}"


@scenario("F7-01/abort_last_version")
def abort_last_version(stage: Stage) -> str:
    stage.a.wire.serve(f"{stage.tool}@1")
    token = stage.mint(1)
    said = stage.told(1, "rollback")
    assert stage.are_active(token) == {True}
    stage.command(1, "rollback", force=True)
    return f"{said}, then {'dead' if stage.are_active(token) == {False} else 'alive'}"


@scenario("F7-01/flap")
def flap(stage: Stage) -> str:
    stage.canary(1)
    answers: list[tuple[int, float]] = []

    def control(broker: Replica, admin: str, first: int) -> None:
        for weight in range(first, first + 20, 2):
            path = f"/versions/{stage.tool}/1/canary"
            answer = broker.wire.admin("POST", path, admin=admin, body={"weight_percent": weight})
            if answer.status_code == 200:
                answers.append((answer.json()["seq"], weight))
            else:
                assert answer.json()["reason"] == "state_conflict", answer.text

    with ThreadPoolExecutor(2) as both:
        for done in [both.submit(control, stage.a, "operator", 10), both.submit(control, stage.b, "rollout-bot", 11)]:
            done.result()
    assert len({seq for seq, _ in answers}) == len(answers) >= 10
    last = max(answers)[1]
    shown = {stage.versions(at=broker)["1"]["cohort"]["weight"] for broker in (stage.a, stage.b)}
    return "the weight of the highest seq everywhere" if shown == {last * 100} else f"{shown}, not {last}"


@scenario("F7-01/partial")
def partial(stage: Stage) -> str:
    stage.canary(1)
    token = stage.mint(1)
    stage.command(1, "rollback")
    refused = {stage.try_to_mint(1, at=broker) for broker in (stage.a, stage.b)} == {"version_rolled_back"}
    return f"{'refused at both' if refused else 'minted'}, {'dead at both' if stage.are_active(token) == {False} else 'alive'}"


@scenario("F7-01/weight_0_not_retired")
def weight_0(stage: Stage) -> str:
    stage.a.wire.serve(f"{stage.tool}@1")
    stage.command(2, "publish")
    stage.command(2, "canary", weight_percent=0)
    declared = stage.try_to_mint(2)
    stage.command(2, "canary", weight_percent=0, principals=["alice"])
    named = stage.try_to_mint(2)
    stage.command(2, "rollback")
    return f"{declared}, {named}, after the rollback {stage.try_to_mint(2)}"


@scenario("F7-01/scale_event_after_abort")
def scale_event(stage: Stage) -> str:
    stage.canary(1)
    token = stage.mint(1)
    stage.command(1, "rollback")
    assert stage.a.wire.admin("POST", "/policy/reload").status_code == 200
    assert stage.told(1, "publish") == "200"
    assert stage.b.stop() == 0
    stage.b.start()
    states = {stage.versions(at=broker)["1"]["state"] for broker in (stage.a, stage.b)}
    refused = {stage.try_to_mint(1, at=broker) for broker in (stage.a, stage.b)} == {"version_rolled_back"}
    dead = stage.are_active(token) == {False}
    return f"{'still rolled back' if states == {'rolled_back'} and refused else states}, {'still dead' if dead else 'alive'}"


@scenario("F7-04/storm")
def storm(stage: Stage) -> str:
    stage.canary(1)
    mine = stage.mint(1)
    sample = write_many(stage, STORM)
    stage.a.wire.serve("ticket.edit@1")
    with Waits(stage) as other:
        other.collect(200)
        before = other.p99()
        began = time.monotonic()
        stage.command(1, "rollback")
        living = told_active(stage, sample)
        refused_within = time.monotonic() - began
        other.collect(200)
        after = other.p99()
    assert stage.are_active(mine) == {False}
    quick = after <= max(3 * before, 0.25)
    refused = (
        "all refused within a second" if living == 0 and refused_within < 1 else f"{living}, {refused_within:.2f} s"
    )
    return f"{refused}, the other tool {'as quick as before' if quick else f'{before:.3f}, then {after:.3f} s'}"


@scenario("F7-04/poison")
def poison(stage: Stage) -> str:
    stage.canary(1)
    tokens = [stage.mint(1) for _ in range(6)]
    keys = tenant_keys(TENANT)
    with stage.store.admin() as admin:
        for token, bytes_ in zip(tokens, (b"", b"\xff" * 20, b"\x02" + bytes(60)), strict=False):
            admin.set(keys.credential + (raw_jti(unverified_claims(token)["jti"]) or b""), bytes_, keepttl=True)
        gen = unverified_claims(tokens[0])["gen"]
        admin.hset(keys.outbox, "900000001", f"{gen}|1|1|{{not json")
        admin.hset(keys.outbox, "900000002", b"\xff\x00 nothing like a step")
        admin.hset(keys.outbox, "nothing", f"{gen}|1|1|{{}}")
    unread = [stage.a.wire.is_active(token) for token in tokens]
    assert unread == [False, False, False, True, True, True]
    stage.command(1, "rollback")
    dead = stage.are_active(*tokens) == {False}
    stage.canary(2)
    goes_on = {stage.try_to_mint(2, at=broker) for broker in (stage.a, stage.b)} == {"minted"}
    wait_until(lambda: bool(unreadable(stage)), what="the step is recorded as unreadable", seconds=40)
    wait_until(lambda: "2 entries that are no steps" in stage.a.said(), what="what is none is told of")
    with stage.store.admin() as admin:
        assert admin.hexists(keys.outbox, "900000002"), "it is there to be looked at"
    others = "all others dead" if dead else "others alive"
    return f"unreadable is not active, {others}, {'minting goes on' if goes_on else 'nothing is minted'}"


def unreadable(stage: Stage) -> list[dict[str, Any]]:
    found = []
    for broker in (stage.a, stage.b):
        found += [one for one in read_log(broker) if one["type"] == "recover" and "unreadable" in one["intent"]]
    return found


@scenario("F7-04/restart_midway")
def restart_midway(stage: Stage) -> str:
    for pause in (0.0, 0.002):
        stage.command(1, "publish")
        stage.command(1, "canary", weight_percent=100)
        tokens = [stage.mint(1) for _ in range(5)]
        asked = threading.Thread(target=lambda: stage_told_or_lost(stage))
        asked.start()
        time.sleep(pause)  # a point in time at which to be killed, not a wait for anything
        stage.a.stop(signal.SIGKILL)
        asked.join(20)
        stage.a.start()
        state = stage.versions()["1"]["state"]
        assert stage.are_active(*tokens) == {state == "canary"}, state
        assert state in ("canary", "rolled_back")
        if state == "canary":
            stage.command(1, "rollback")
        stage.command(1, "canary", weight_percent=100)
        assert stage.are_active(*tokens) == {False}
        stage.command(1, "rollback")
    return "rolled back and dead, or neither; nothing revived"


def stage_told_or_lost(stage: Stage) -> None:
    try:
        stage.told(1, "rollback")
    except Exception:  # the broker is killed under it
        return


@scenario("F7-04/mint_during_revoke")
def mint_during_revoke(stage: Stage) -> str:
    stage.canary(1)
    with (
        Load(stage.a, callers=3, changes=stage.asking(1)) as one,
        Load(stage.b, callers=3, changes=stage.asking(1)) as two,
    ):
        one.wait_for_tokens(40)
        two.wait_for_tokens(40)
        stage.command(1, "rollback")
        counts = [len(load.tokens) for load in (one, two)]
        failed = [len(load.failures) for load in (one, two)]
        for load, count in zip((one, two), failed, strict=True):
            wait_until(lambda load=load, count=count: len(load.failures) >= count + 6, what="it is refused")  # type: ignore[misc]
    tokens = [*one.tokens, *two.tokens]
    seq = max(unverified_claims(token)["rseq"] for token in tokens)
    assert all(refusal_of(answer) == "version_rolled_back" for load in (one, two) for answer in load.failures)
    # what was on its way when the answer was given is older than the rollback, and dead
    late = [load.tokens[count + 3 :] for load, count in zip((one, two), counts, strict=True)]
    assert seq < stage.versions()["seq"]
    nothing = "nothing minted after the answer" if late == [[], []] else f"{late}"
    return f"{nothing}, {'all dead' if stage.are_active(*tokens) == {False} else 'alive'}"


@scenario("F7-04/two_versions")
def two_versions(stage: Stage) -> str:
    stage.a.wire.serve(f"{stage.tool}@1")
    stage.canary(2)
    with (
        Load(stage.a, callers=3, changes=stage.asking(1)) as one,
        Load(stage.b, callers=3, changes=stage.asking(1)) as two,
    ):
        one.wait_for_tokens(30)
        stage.command(2, "rollback")
        one.wait_for_tokens(30)
        two.wait_for_tokens(30)
    failed = [*one.failures, *two.failures]
    live = stage.are_active(*one.tokens[-40:], *two.tokens[-40:], *one.tokens[:20]) == {True}
    return f"{'no failure' if not failed else failed[0].text}, {'all live' if live else 'dead'}"


@scenario("F7-04/force")
def force(stage: Stage) -> str:
    stage.a.wire.serve(f"{stage.tool}@1")
    token = stage.mint(1)
    stage.command(1, "retire", emergency="rows of others leak")
    (record,) = stage.records(1, "version.retire")
    by = (record["by"], record["reason"]) == ("operator", "rows of others leak")
    dead = "dead" if stage.are_active(token) == {False} else "alive"
    return f"{dead}, {'recorded with operator and reason' if by else record}"


class Waits:
    """Exchanges for another tool without pause, and how long each took."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.seconds: list[float] = []
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self._call, args=(broker,)) for broker in (stage.a, stage.b)]

    def __enter__(self) -> Waits:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join(20)

    def _call(self, broker: Replica) -> None:
        while not self.over.is_set():
            began = time.monotonic()
            assert broker.wire.exchange().status_code == 200
            self.seconds.append(time.monotonic() - began)

    def collect(self, count: int) -> None:
        """Forget what was, and wait for so many."""
        self.seconds = []
        wait_until(lambda: len(self.seconds) >= count, seconds=60, what=f"{count} exchanges")

    def p99(self) -> float:
        return sorted(self.seconds)[len(self.seconds) * 99 // 100]


def write_many(stage: Stage, count: int) -> list[Inquiry]:
    """So many live credentials of version 1 beside those that the brokers minted; how to ask for 500 of them."""

    async def where() -> tuple[int, int]:
        store = RedisStore(stage.store.url, TENANT)
        found = await store.inspect()
        await store.close()
        return found.gen, found.seq

    gen, seq = asyncio.run(where())
    version = VersionId(f"{stage.tool}@1")
    sample = mint(Minting(stage.store.url, TENANT, version, gen, seq), count, 500)
    scopes = (EVERYTHING, f"version:{version}")
    return [Inquiry(jti, gen, seq, version, scopes) for jti in sample]  # type: ignore[arg-type]


def told_active(stage: Stage, inquiries: list[Inquiry]) -> int:
    """How many of them the store calls active."""

    async def ask() -> int:
        store = RedisStore(stage.store.url, TENANT, call_seconds=10)
        await store.adopt(await store.inspect())
        standings = await asyncio.gather(*(store.inquire(one) for one in inquiries))
        await store.close()
        return sum(standing is Standing.ACTIVE for standing in standings)

    return asyncio.run(ask())
