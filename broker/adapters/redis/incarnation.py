"""The incarnation fence: look at the store, adopt or claim it, and read what it still has to tell the audit log."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from typing import cast

from redis.exceptions import NoPermissionError, ResponseError

from broker.adapters.redis import suitability
from broker.adapters.redis.library import NAME, library_text, text_digest
from broker.adapters.redis.replies import RIGHTS
from broker.adapters.redis.session import Session
from broker.domain.audit.replay import Replayed
from broker.domain.errors import BrokerError, StoreUnclaimedError, StoreUnsuitableError
from broker.domain.lifecycle.states import read_record, spell_record
from broker.ports.store import Incarnation, Pending

_log = logging.getLogger("broker.store")


class RedisFence:
    """`StoreFence` over one session. warnings: what the last inspection found worth saying.

    required_replicas: how many the broker waits for. can_move: whether the primary is found again when it is another server.
    """

    __slots__ = ("_can_move", "_may_ask_config", "_required_replicas", "_session", "_unreadable", "warnings")

    def __init__(self, session: Session, *, required_replicas: int, can_move: bool) -> None:
        self._session = session
        self._required_replicas = required_replicas
        self._can_move = can_move
        self._may_ask_config = True
        self._unreadable = 0
        self.warnings: tuple[str, ...] = ()

    async def inspect(self) -> Incarnation:
        session, keys = self._session, self._session.keys
        info = suitability.parse_info(cast("bytes", await session.command(b"INFO")))
        suitability.check(info)
        await self._load()
        samples = (keys.credential + bytes(16), keys.assertion + b"sample", keys.idempotency + b"sample")
        touched = (keys.control, keys.states, keys.versions, keys.marks, keys.outbox, keys.feed, keys.leases, *samples)
        reply = cast("list[bytes]", await session.command(b"FCALL", b"store_inspect_1", len(touched), *touched))
        if reply[0] == b"missing":
            lacking = ", ".join(sorted({right.decode() for right in reply[1:]}))
            raise StoreUnsuitableError(f"the store's user may not use {lacking}; it needs: {RIGHTS}")
        _, run_id, spelled, claimed, gen, seq, gseq, now_ms = reply
        if spelled not in (b"", b"1"):
            raise StoreUnsuitableError("the store is written in a format that this broker does not know")
        self.warnings = (
            *suitability.warnings(
                info, appendfsync=await self._appendfsync(), clock_apart_seconds=int(now_ms) / 1000 - time.time()
            ),
            *suitability.replication_warnings(info, required=self._required_replicas, can_move=self._can_move),
        )
        return Incarnation(run_id.decode(), claimed.decode(), int(gen or 0), int(seq or 0), int(gseq or 0))

    async def adopt(self, incarnation: Incarnation) -> None:
        if not incarnation.is_claimed:
            raise StoreUnclaimedError("this incarnation of the store has not been claimed")
        self._session.gen, self._session.seq = incarnation.gen, incarnation.seq

    async def claim(self, found: Incarnation, content: Replayed) -> None:
        session, keys = self._session, self._session.keys
        spelled: list[bytes | str | int] = []
        for name, record in content.versions.items():
            version = read_record(record)
            spelled += (name, version.state.value, spell_record(version))
        for scope, seq in content.marks.items():
            spelled += (scope, seq)
        as_stored = (found.claimed_run_id, found.gen, found.seq) if found.gen else ("", "", "")
        reply = session.reply(
            await session.pipeline.call(
                *(b"FCALL", b"store_claim_1", 6),
                *(keys.control, keys.states, keys.versions, keys.marks, keys.outbox, keys.feed),
                *(found.run_id, *as_stored, content.gen, content.seq, os.urandom(16), len(content.versions)),
                *spelled,
            )
        )
        if reply[0] != b"claimed":
            raise StoreUnclaimedError("the store is no longer as it was found: look at it again")
        session.gen, session.seq = content.gen, content.seq

    async def pending(self) -> Sequence[Pending]:
        # outside the fence: what happened in an incarnation that is gone is recovered before the next one is claimed
        session = self._session
        seconds, microseconds = cast("list[bytes]", await session.command(b"TIME"))
        now_ms = int(seconds) * 1000 + int(microseconds) // 1000
        held = await session.command(b"HGETALL", session.keys.outbox)
        flat = [part for pair in held.items() for part in pair] if isinstance(held, dict) else held
        pairs = cast("list[bytes]", flat)
        steps = [_pending(name, kept, now_ms) for name, kept in zip(pairs[::2], pairs[1::2], strict=True)]
        found = [step for step in steps if step is not None]
        self._say_unreadable(len(steps) - len(found))
        return sorted(found, key=lambda step: (step.gen, step.gseq))

    def _say_unreadable(self, count: int) -> None:
        """What is no step was put there by somebody else. It stays for them to look at, and holds nothing else up."""
        if count > self._unreadable:
            _log.error(
                "the store's outbox holds %d entries that are no steps of this broker; they are passed over", count
            )
        self._unreadable = count

    async def acknowledge(self, gseqs: Sequence[int], *, gen: int | None = None) -> None:
        session = self._session
        if not gseqs:
            return
        of_now = gen is None or gen == session.gen
        steps: Sequence[int | str] = gseqs if of_now else [f"{gen}:{gseq}" for gseq in gseqs]
        await session.step(b"outbox_acknowledge_1", (session.keys.control, session.keys.outbox), *steps)

    async def _load(self) -> None:
        """Have our functions in the store; never put ours in the place of others of the same name."""
        if await self._is_loaded():
            return
        reply = await self._session.pipeline.call(b"FUNCTION", b"LOAD", library_text())
        if isinstance(reply, ResponseError) and "already exists" in str(reply):
            # another broker was quicker; what it loaded is compared like any other
            if await self._is_loaded():
                return
            raise StoreUnsuitableError(f"a function of {NAME} is held by another library in the store; remove that one")
        if isinstance(reply, ResponseError | BrokerError):
            self._session.reply(reply)

    async def _is_loaded(self) -> bool:
        listed = await self._session.command(b"FUNCTION", b"LIST", b"LIBRARYNAME", NAME, b"WITHCODE")
        for library in cast("list[object]", listed):
            pairs = cast("dict[bytes, object] | list[object]", library)
            fields = pairs if isinstance(pairs, dict) else dict(zip(pairs[::2], pairs[1::2], strict=True))
            theirs, ours = cast("bytes", fields[b"library_code"]), library_text()
            if theirs != ours:
                raise StoreUnsuitableError(
                    f"the store holds another library under the name {NAME}: {text_digest(theirs)}, "
                    f"this broker has {text_digest(ours)}; run the release that loaded it, or remove it with "
                    f"FUNCTION DELETE {NAME} once no broker uses it"
                )
            return True
        return False

    async def _appendfsync(self) -> str | None:
        if not self._may_ask_config:
            return None
        reply = await self._session.pipeline.call(b"CONFIG", b"GET", b"appendfsync")
        self._may_ask_config = not isinstance(reply, NoPermissionError)  # or the server's log fills with refusals
        if isinstance(reply, dict):
            reply = [part for pair in reply.items() for part in pair]
        return reply[1].decode() if isinstance(reply, list) and len(reply) == 2 else None


def _pending(name: bytes, kept: bytes, now_ms: int) -> Pending | None:
    """A step as the outbox keeps it, None where it is none."""
    try:
        gen, at_ms, seq, intent = kept.split(b"|", 3)
        gseq = int(name.rpartition(b":")[2])
        return Pending(int(gen), gseq, int(seq), max(0, now_ms - int(at_ms)) / 1000, intent)
    except ValueError:
        return None
