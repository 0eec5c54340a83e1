"""One process of the race for revocation: mints, changes the life of versions and revokes scopes, beside others on one store.

    python revocation_racer.py URL TENANT NUMBER OPERATIONS CHANGES atomic|apart OUT

It says `ready` on stdout, begins on a line on stdin, and writes what it was told to OUT, as JSON:

| member     | holds                                                                                            |
|------------|--------------------------------------------------------------------------------------------------|
| operations | how many calls changed something or were refused                                                 |
| minted     | credentials: jti, version, gen, rseq, gseq, kid, client, agent, account, chain                    |
| refused    | how many mints were refused, by reason                                                            |
| changes    | changes: gseq, seq, command, revoked scopes, states put in place                                  |
| survivors  | credentials that were active when a change that killed them had been answered: jti and the change |
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from broker.adapters.redis.store import RedisStore
from broker.domain.errors import Refusal
from broker.domain.ids import ClientId, Version, VersionId, version_id
from broker.domain.lifecycle.rollout import (
    Canary,
    Deprecate,
    Promote,
    Publish,
    Retire,
    Rollback,
    VersionCommand,
    apply,
    name_of,
)
from broker.domain.lifecycle.states import MINTABLE, Cohort, LifecycleView, State, VersionRecord
from broker.domain.revocation import scopes
from broker.domain.revocation.scopes import Bearing, RevocationScope, scopes_of
from broker.ports.store import Applied, Inquiry, Issue, Issued, IssueRefused, Standing, VersionChange

from mint_apart import MintApart
from store_parts import DIGEST, TOOL, new_jti

MINTERS = 8
SAMPLE = 40
ISSUER = "https://idp.example"
Mint = Callable[[Issue], Awaitable[Issued | IssueRefused]]


@dataclass(frozen=True, slots=True)
class Minted:
    """A credential as its minter knows it."""

    bearing: Bearing
    issued: Issued

    @property
    def version_id(self) -> VersionId:
        return version_id(self.bearing.tool, self.bearing.version)

    def inquiry(self) -> Inquiry:
        issued = self.issued
        return Inquiry(self.bearing.jti, issued.gen, issued.rseq, self.version_id, scopes_of(self.bearing))


@dataclass
class Racer:
    store: RedisStore
    mint: Mint
    number: int
    operations: int
    changes: int
    random: random.Random
    done: int = 0
    key: int = 0
    published: int = 0
    view: LifecycleView | None = None
    minted: list[Minted] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    told: list[dict[str, Any]] = field(default_factory=list)
    survivors: list[tuple[str, str]] = field(default_factory=list)
    looking: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def run(self) -> None:
        self.view = await self.store.view()
        await asyncio.gather(self.changer(), *(self.minter() for _ in range(MINTERS)))

    async def minter(self) -> None:
        while self.done < self.operations:
            self.done += 1
            await self.mint_one()

    async def changer(self) -> None:
        """Changes spread over the operations of all."""
        for turn in range(self.changes):
            due = self.operations * (turn + 1) // (self.changes + 1)
            while self.done < due:
                await asyncio.sleep(0)
            self.done += 1
            await (self.revoke_some() if self.random.random() < 0.3 else self.change_some())

    async def look_again(self, seen: LifecycleView) -> None:
        async with self.looking:
            if self.view is seen:
                self.view = await self.store.view()

    async def mint_one(self) -> None:
        view = self.view
        assert view is not None
        pick = self.random
        wanted = [record for record in view.versions.values() if record.state in MINTABLE or pick.random() < 0.03]
        if not wanted:
            await self.look_again(view)
            return
        jti = new_jti()
        bearing = Bearing(
            kid=f"key-{self.number}-{self.key}",
            tool=TOOL,
            version=pick.choice(wanted).version,
            policy=DIGEST,
            client=ClientId(f"client-{pick.randrange(3)}"),
            agent_issuer=ISSUER,
            agent=f"agent-{pick.randrange(4)}",
            account_issuer=ISSUER,
            account=f"account-{pick.randrange(6)}",
            chain=f"chain-{pick.randrange(50)}",
            jti=jti,
        )
        name = version_id(TOOL, bearing.version)
        answer = await self.mint(Issue(jti, name, view.seq, int(time.time()) + 300, None, b"{}"))
        if isinstance(answer, Issued):
            self.minted.append(Minted(bearing, answer))
            return
        self.refused[answer.value] += 1
        await self.look_again(view)

    async def change_some(self) -> None:
        view = await self.store.view()
        command = self.a_command(view)
        change = apply(command, view, now=int(time.time()))
        assert not isinstance(change, Refusal), (command, change)
        records = tuple(replace(update.after, seq=view.seq + 1) for update in change.updates)
        applied = await self.store.change(VersionChange(new_jti(), view.seq, records, change.revokes, b"{}"))
        if applied is None:
            self.refused["moved"] += 1
            return
        name = name_of(command).value
        self.tell(applied, name, change.revokes, records)
        hit = [one for one in self.minted if one.version_id == version_id(TOOL, command.version)]
        before = view.get(TOOL, command.version)
        came_back = name == "canary" and before is not None and before.state is State.ROLLED_BACK
        if change.revokes or came_back:
            await self.look_for_survivors([one for one in hit if one.issued.gseq < applied.gseq], name, applied)

    def a_command(self, view: LifecycleView) -> VersionCommand:
        pick = self.random
        living = [record for record in view.of(TOOL) if record.state is not State.RETIRED]
        if len(living) < 4:
            self.published += 1
            return Publish(TOOL, Version(f"{self.number}.{self.published}"), DIGEST, DIGEST)
        record = pick.choice(living)
        return _next(record, pick, may_promote=view.stable(TOOL) is None)

    async def revoke_some(self) -> None:
        pick = self.random
        known = pick.choice(self.minted).bearing if self.minted else None
        some: list[RevocationScope] = [
            scopes.client_scope(ClientId(f"client-{pick.randrange(3)}")),
            scopes.agent_scope(ISSUER, f"agent-{pick.randrange(4)}"),
            scopes.account_scope(ISSUER, f"account-{pick.randrange(6)}"),
            scopes.pair_scope(ISSUER, f"agent-{pick.randrange(4)}", ISSUER, f"account-{pick.randrange(6)}"),
            scopes.chain_scope(f"chain-{pick.randrange(50)}"),
            scopes.key_scope(f"key-{self.number}-{self.key}"),
        ]
        if known is not None:
            some.append(scopes.jti_scope(known.jti))
        if pick.random() < 0.1:
            some = [scopes.EVERYTHING, scopes.tool_scope(TOOL), scopes.policy_scope(DIGEST)]
        scope = pick.choice(some)
        self.key += scope.startswith("key:")  # a key that is revoked signs nothing from here on
        applied = await self.store.revoke((scope,), id=new_jti(), intent=b"{}")
        self.tell(applied, "revoke", (scope,), ())
        hit = [one for one in self.minted if scope in scopes_of(one.bearing) and one.issued.gseq < applied.gseq]
        await self.look_for_survivors(hit, "revoke", applied)

    def tell(
        self, applied: Applied, command: str, revoked: Sequence[RevocationScope], records: Sequence[VersionRecord]
    ) -> None:
        assert not applied.repeated
        self.told.append(
            {
                "gseq": applied.gseq,
                "seq": applied.seq,
                "command": command,
                "revoked": list(revoked),
                "states": {record.id: record.state.value for record in records},
            }
        )

    async def look_for_survivors(self, hit: list[Minted], why: str, applied: Applied) -> None:
        """The change was answered: what it killed is dead by now, the newest first."""
        sample = hit[-SAMPLE:]
        standings = await asyncio.gather(*(self.store.inquire(one.inquiry()) for one in sample))
        self.survivors += [
            (one.bearing.jti, f"{why} at {applied.seq}")
            for one, standing in zip(sample, standings, strict=True)
            if standing is Standing.ACTIVE
        ]

    def report(self) -> dict[str, Any]:
        return {
            "operations": self.done,
            "minted": [
                (
                    *(one.bearing.jti, one.bearing.version, one.issued.gen, one.issued.rseq, one.issued.gseq),
                    *(one.bearing.kid, one.bearing.client, one.bearing.agent, one.bearing.account, one.bearing.chain),
                )
                for one in self.minted
            ],
            "refused": dict(self.refused),
            "changes": self.told,
            "survivors": self.survivors,
        }


def _next(record: VersionRecord, pick: random.Random, *, may_promote: bool) -> VersionCommand:
    """Something that this version's state allows; rolling back and coming back more than all else."""
    tool, version = record.tool, record.version
    back = Rollback(tool, version, force=True)
    match record.state:
        case State.PUBLISHED if may_promote and pick.random() < 0.5:
            return Promote(tool, version)
        case State.PUBLISHED | State.ROLLED_BACK:
            return Canary(tool, version, Cohort(weight=pick.randrange(10_000)))
        case State.CANARY:
            return pick.choices((back, Promote(tool, version), Retire(tool, version, "race")), (14, 5, 1))[0]
        case State.STABLE:
            return pick.choices((back, Deprecate(tool, version), Retire(tool, version, "race")), (14, 5, 1))[0]
        case _:
            return pick.choices((back, Retire(tool, version, "race")), (9, 1))[0]


def read_minted(row: list[Any]) -> Minted:
    """A credential from a report."""
    jti, version, gen, rseq, gseq, kid, client, agent, account, chain = row
    bearing = Bearing(kid, TOOL, version, DIGEST, client, ISSUER, agent, ISSUER, account, chain, jti)
    return Minted(bearing, Issued(gen, rseq, gseq))


async def main(url: str, tenant: str, number: str, operations: str, changes: str, how: str, out: str) -> None:
    store = RedisStore(url, tenant, call_seconds=20)
    await store.adopt(await store.inspect())
    apart = MintApart(url, tenant, gen=store.gen)
    racer = Racer(
        store,
        apart.issue if how == "apart" else store.issue,
        int(number),
        int(operations),
        int(changes),
        random.Random(int(number)),
    )
    print("ready", flush=True)
    sys.stdin.readline()
    await racer.run()
    with open(out, "w") as file:  # noqa: ASYNC230  # nothing else runs any more
        json.dump(racer.report(), file)
    await apart.close()
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
