"""The store's feed and the verifiers' leases.

The feed is read on a connection of its own, since reading waits. Beats and renewals go over the replicated session.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, cast
from urllib.parse import quote, unquote

from broker.adapters.redis.pipeline import Pipeline
from broker.adapters.redis.replicated import Replicated
from broker.adapters.redis.session import Session
from broker.adapters.redis.versions import read_version
from broker.domain.errors import StoreUnclaimedError
from broker.domain.ids import VersionId
from broker.domain.lifecycle.states import VersionRecord
from broker.domain.revocation.feed import Point
from broker.domain.revocation.lease import Holder
from broker.domain.revocation.scopes import RevocationScope
from broker.ports.feed import Content, HolderRow, Renewal, RenewRefused, Step
from broker.ports.store import Applied

_FEWEST_MARKS: Final = 64
_STEPS_AT_ONCE: Final = 256
_REFUSALS: Final = {refusal.value.encode(): refusal for refusal in RenewRefused}


class RedisFeed:
    """`StoreFeed` and `LeaseStore`. session: fenced; replicated: the same, whose steps stand in the replicas on return."""

    __slots__ = ("_listening", "_replicated", "_session")

    def __init__(self, session: Session, replicated: Replicated, listening: Pipeline) -> None:
        self._session = session
        self._replicated = replicated
        self._listening = listening

    async def content(self) -> Content:
        session, keys = self._session, self._session.keys
        gen = session.gen
        reply = await session.step(b"store_snapshot_1", (keys.control, keys.versions, keys.marks))
        seq, versions, marks = cast("tuple[int, list[bytes], list[bytes]]", reply)
        session.saw(seq)
        return Content(
            Point(gen, seq),
            {VersionId(name.decode()): read_version(spelled) for name, spelled in _pairs(versions)},
            {RevocationScope(scope.decode()): int(mark) for scope, mark in _pairs(marks)},
        )

    async def steps(self, after: int, *, wait_seconds: float) -> Sequence[Step]:
        reply = await self._listening.call(
            *(b"XREAD", b"COUNT", _STEPS_AT_ONCE, b"BLOCK", max(1, int(wait_seconds * 1000))),
            *(b"STREAMS", self._session.keys.feed, f"{after}-0"),
        )
        if reply is None:
            return ()
        streams = list(reply.values()) if isinstance(reply, dict) else [pair[1] for pair in self._session.reply(reply)]  # type: ignore[index]
        entries = cast("list[tuple[bytes, list[bytes]]]", streams[0] if streams else [])
        return [_step(identity, fields) for identity, fields in entries]

    async def beat(self) -> Point:
        gen = self._session.gen
        reply = await self._replicated.step(b"store_beat_1", (self._session.keys.control,))
        return self._at(gen, cast("int", reply[1]))

    async def compact(self, *, id: str, intent: bytes, horizon_seconds: int) -> tuple[Applied, int] | None:  # noqa: A002
        keys = self._session.keys
        reply = await self._session.step(
            b"marks_compact_1",
            (keys.control, keys.marks, keys.outbox, keys.idempotency + id.encode(), keys.feed),
            intent,
            horizon_seconds * 1000,
            _FEWEST_MARKS,
        )
        if reply[0] != b"applied":
            return None
        _, gen, seq, gseq, covered = cast("tuple[bytes, int, int, int, int]", reply)
        self._session.saw(seq)
        return Applied(gen, seq, gseq), covered

    async def sweep(self) -> int:
        keys = self._session.keys
        cursor, gone = b"0", 0
        while True:
            reply = await self._session.step(b"marks_sweep_1", (keys.control, keys.marks), cursor)
            cursor, taken = cast("tuple[bytes, int]", reply)
            gone += taken
            if cursor == b"0":
                return gone

    async def renew(self, renewal: Renewal) -> Point | RenewRefused:
        keys, assertion = self._session.keys, renewal.assertion
        gen = self._session.gen
        touched = (keys.control, keys.leases)
        reply = await self._replicated.step(
            b"lease_renew_1",
            touched if assertion is None else (*touched, keys.assertion + assertion.key.encode()),
            renewal.verifier,
            quote(renewal.client, safe=":/@."),
            renewal.applied.gen,
            renewal.applied.seq,
            b"" if assertion is None else os.urandom(8),
            0 if assertion is None else assertion.expires_at,
        )
        if reply[0] != b"granted":
            return _REFUSALS[cast("bytes", reply[1])]
        return self._at(gen, cast("int", reply[1]))

    async def holders(self) -> Sequence[HolderRow]:
        keys = self._session.keys
        reply = await self._session.step(b"store_read_1", (keys.control, keys.leases))
        found = []
        for verifier, row in _pairs(cast("list[bytes]", reply[2])):
            client, gen, seq, _ = row.decode().split("|")
            holder = Holder(verifier.decode(), unquote(client), Point(int(gen), int(seq)))
            found.append(HolderRow(holder, row))
        return found

    async def forget(self, rows: Sequence[HolderRow]) -> int:
        keys = self._session.keys
        if not rows:
            return 0
        spelled = [part for row in rows for part in (row.holder.verifier, row.row)]
        reply = await self._session.step(b"lease_forget_1", (keys.control, keys.leases), *spelled)
        return cast("int", reply[0])

    def _at(self, gen: int, seq: int) -> Point:
        if gen != self._session.gen:
            raise StoreUnclaimedError("the store was claimed anew meanwhile")
        self._session.saw(seq)
        return Point(gen, seq)


def _pairs(flat: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
    return list(zip(flat[::2], flat[1::2], strict=True))


def _step(identity: bytes, fields: Sequence[bytes]) -> Step:
    versions: dict[VersionId, VersionRecord] = {}
    marks: dict[RevocationScope, int] = {}
    rest: dict[bytes, bytes] = {}
    for name, value in _pairs(fields):
        if name.startswith(b"v:"):
            versions[VersionId(name[2:].decode())] = read_version(value)
        elif name.startswith(b"m:"):
            marks[RevocationScope(name[2:].decode())] = int(value)
        else:
            rest[name] = value
    return Step(
        point=Point(int(rest[b"gen"]), int(identity.partition(b"-")[0])),
        id=rest[b"id"].rpartition(b":i:")[2].decode(),
        versions=versions,
        marks=marks,
        covered=int(rest.get(b"covered", b"0")),
        whole=b"whole" in rest,
    )
