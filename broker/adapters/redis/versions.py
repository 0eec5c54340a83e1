"""The life of versions and the revocation marks in the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from broker.adapters.redis.replicated import Replicated
from broker.adapters.redis.session import Session
from broker.domain.errors import StoreUnsuitableError
from broker.domain.ids import VersionId
from broker.domain.lifecycle.states import LifecycleView, VersionRecord, read_record, spell_record
from broker.domain.revocation.scopes import RevocationScope
from broker.ports.store import Applied, VersionChange


class RedisVersions:
    """`VersionStore` over one session. replicated: to tell how many replicas have a step that acted."""

    __slots__ = ("_replicated", "_session")

    def __init__(self, session: Session, replicated: Replicated) -> None:
        self._session = session
        self._replicated = replicated

    async def view(self) -> LifecycleView:
        gen = self._session.gen
        seq, held = await self._read(self._session.keys.versions)
        return LifecycleView(
            gen, seq, {VersionId(name.decode()): read_version(spelled) for name, spelled in held.items()}
        )

    async def change(self, change: VersionChange) -> Applied | None:
        session = self._session
        keys = session.keys
        if any(record.seq != change.seq + 1 for record in change.records):
            raise ValueError("a version record carries the sequence of the change that puts it in place")
        spelled: list[bytes | str] = []
        for record in change.records:
            spelled += (record.id, record.state.value, spell_record(record))
        reply = await session.step(
            b"version_change_1",
            (
                *(keys.control, keys.states, keys.versions, keys.marks, keys.outbox),
                *(keys.idempotency + change.id.encode(), keys.feed),
            ),
            change.seq,
            change.intent,
            len(change.records),
            *spelled,
            *change.revokes,
        )
        return None if reply[0] == b"moved" else await self._applied(reply)

    async def revoke(self, scopes: Sequence[RevocationScope], *, id: str, intent: bytes) -> Applied:  # noqa: A002
        session = self._session
        keys = session.keys
        reply = await session.step(
            b"scope_revoke_1",
            (keys.control, keys.marks, keys.outbox, keys.idempotency + id.encode(), keys.feed),
            intent,
            *scopes,
        )
        return await self._applied(reply)

    async def marks(self) -> Mapping[RevocationScope, int]:
        _, held = await self._read(self._session.keys.marks)
        return {RevocationScope(scope.decode()): int(seq) for scope, seq in held.items()}

    async def _read(self, key: bytes) -> tuple[int, dict[bytes, bytes]]:
        reply = await self._session.step(b"store_read_1", (self._session.keys.control, key))
        seq, pairs = cast("int", reply[0]), cast("list[bytes]", reply[2])
        self._session.saw(seq)
        return seq, dict(zip(pairs[::2], pairs[1::2], strict=True))

    async def _applied(self, reply: list[object]) -> Applied:
        _, gen, seq, gseq = cast("tuple[bytes, int, int, int]", reply)
        if gen == self._session.gen:  # a repeat may be answered with a step of an earlier gen
            self._session.saw(seq)
        replicas = await self._replicated.count()
        return Applied(gen, seq, gseq, repeated=reply[0] == b"repeated", replicas=replicas)


def read_version(spelled: bytes) -> VersionRecord:
    """A version record as the store keeps it. Raises `StoreUnsuitableError`."""
    try:
        return read_record(spelled)
    except ValueError as error:
        raise StoreUnsuitableError(f"the store holds a version record that this broker cannot read: {error}") from None
