"""Claiming the store: before anything is minted, the store holds what the audit log says.

1. Look at the store. Steps in its outbox whose record is missing are written as `recover` records first.
2. Claimed, by a gen that the log knows, and not behind the log: adopt it.
3. A gen that the log does not know: another broker's log knows more. Refuse, unless the operator states a reason.
   A stated reason counts for the first time that the store is opened, so that two brokers do not claim it in turns.
4. Otherwise (another process, restarted, flushed, restored, or a stated reason): write a `gen.claim` record, then claim
   with a greater gen, a greater seq, and exactly the versions and marks of the log. A newer gen kills every outstanding
   credential.
5. The claim compares what it found; if the store moved meanwhile, begin again.
"""

from __future__ import annotations

import asyncio
import json
from typing import Final

from broker.domain.audit.records import CONTROL, Claimed, Recovered
from broker.domain.audit.replay import Replayed, replay
from broker.domain.canonical import JsonError, JsonObject, parse_json_object
from broker.domain.errors import BrokerError, StoreUnclaimedError, StoreUnknownError, StoreUnsuitableError
from broker.ports.audit import AuditLog
from broker.ports.store import Incarnation, StoreFence
from broker.ports.system import Clock, Entropy
from broker.services.lifecycle_cache import LifecycleCache

_encode: Final = json.JSONEncoder(separators=(",", ":")).encode
SEQ_MARGIN: Final = 1_000
ATTEMPTS: Final = 5
ABANDONED_SECONDS: Final = 10.0


class IncarnationService:
    """One for a process. `force_reason` lets it claim a store that its log knows nothing of (rule 3)."""

    def __init__(
        self,
        *,
        fence: StoreFence,
        log: AuditLog,
        cache: LifecycleCache,
        clock: Clock,
        entropy: Entropy,
        force_reason: str | None = None,
    ) -> None:
        self._fence = fence
        self._log = log
        self._cache = cache
        self._clock = clock
        self._entropy = entropy
        self._force_reason = force_reason
        self._lock = asyncio.Lock()
        self.is_open = False
        self.failure: BrokerError | None = None
        self.claims: tuple[Claimed, ...] = ()

    async def open(self) -> None:
        """Adopt or claim the store. Raises what stands in the way; nothing is minted until this has succeeded."""
        async with self._lock:
            if self.is_open:
                return
            try:
                for _ in range(ATTEMPTS):
                    if await self._try_open():
                        break
                else:
                    raise StoreUnclaimedError("the store kept changing while it was being claimed")
                await self._cache.refresh()
            except BrokerError as error:
                self.failure = error
                if isinstance(error, StoreUnknownError | StoreUnsuitableError):
                    self._cache.forget(error)
                raise
            self.failure = None
            self.is_open = True
            self._force_reason = None

    def take_claims(self) -> tuple[Claimed, ...]:
        """The claims since this was last asked."""
        taken, self.claims = self.claims, ()
        return taken

    async def look(self) -> None:
        """Look at an open store again: it may have been claimed by another, or be no longer what it must be.

        Raises what stands in the way now; nothing is minted until `open` has succeeded again.
        """
        gen = self._cache.view.gen if self.is_open else None
        try:
            found = await self._fence.inspect()
        except StoreUnsuitableError as error:
            self.lose(error)
            raise
        still_ours = self.is_open and self._cache.view.gen == gen  # and not claimed anew meanwhile, by ourselves
        if still_ours and (not found.is_claimed or found.gen != gen):
            self.lose()

    def lose(self, why: BrokerError | None = None) -> None:
        """The store turned out to be another incarnation, or not what it must be; `open` must be called again."""
        self.is_open = False
        self.failure = why
        self._cache.forget(why)

    async def _try_open(self) -> bool:
        found = await self._fence.inspect()
        await self._recover(found, abandoned_for=0.0)
        known = await asyncio.to_thread(lambda: replay(self._log.control_records()))
        if found.gen > known.gen and self._force_reason is None:
            raise StoreUnknownError(
                f"the store was last claimed as gen {found.gen}; the audit log of this broker knows of gen {known.gen} at "
                "most, so it cannot tell whether it knows every revocation. Start with the audit log that belongs to "
                "this store, or with --claim-unknown-store REASON"
            )
        if found.is_claimed and found.gen == known.gen and found.seq >= known.seq:
            await self._fence.adopt(found)
            return True
        return await self._claim(found, known)

    async def _claim(self, found: Incarnation, known: Replayed) -> bool:
        known_gen = known.gen
        known.gen = max(self._clock.now_ms(), found.gen + 1, known.gen + 1)
        known.seq = max(found.seq, known.seq) + SEQ_MARGIN
        claimed = Claimed(
            id=self._entropy.token(),
            ts=self._clock.timestamp(),
            gen=known.gen,
            seq=known.seq,
            previous_gen=found.gen,
            run_id=found.run_id,
            reason=self._force_reason or _why(found, known_gen),
        )
        await self._log.append(claimed)
        try:
            await self._fence.claim(found, known)
        except StoreUnclaimedError:
            return False
        self.claims += (claimed,)
        return True

    async def recover_changes(self) -> int:
        """Write `recover` records for changes and revocations of which nobody knows whether they were made; how many."""
        return await self._recover(None, abandoned_for=0.0, control_only=True)

    async def recover_abandoned(self) -> int:
        """Write `recover` records for steps whose process died before it wrote its own; how many."""
        return await self._recover(None, abandoned_for=ABANDONED_SECONDS)

    async def _recover(self, found: Incarnation | None, *, abandoned_for: float, control_only: bool = False) -> int:
        if found is not None and not found.gen:
            return 0
        pending = [item for item in await self._fence.pending() if item.age_seconds >= abandoned_for]
        intents = [_read_intent(item.intent) for item in pending]
        if control_only:
            kept = [at for at, intent in enumerate(intents) if intent.get("type") in CONTROL]
            pending, intents = [pending[at] for at in kept], [intents[at] for at in kept]
        for item, intent in zip(pending, intents, strict=True):
            await self._log.append(
                Recovered(
                    # the id of the record that may be missing: where it is not, this one is not stored
                    id=str(intent.get("id") or f"recover-{item.gen}-{item.gseq}"),
                    ts=self._clock.timestamp(),
                    gen=item.gen,
                    gseq=item.gseq,
                    seq=item.seq,
                    intent=intent,
                )
            )
        if found is None:
            for gen in sorted({item.gen for item in pending}):
                await self._fence.acknowledge([item.gseq for item in pending if item.gen == gen], gen=gen)
        return len(pending)


def _why(found: Incarnation, known_gen: int) -> str:
    if not known_gen:
        return "the first claim of this store"
    if not found.gen:
        return "the store is empty, the log is not"
    return "the store is another incarnation than the one last claimed"


def _read_intent(text: bytes) -> JsonObject:
    try:
        return parse_json_object(text)
    except JsonError as error:
        return {"unreadable": str(error)}


def spell_intent(value: JsonObject) -> bytes:
    """An intent for the outbox."""
    return _encode(value).encode("ascii")
