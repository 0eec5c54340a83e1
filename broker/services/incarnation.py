"""Claiming the store: before anything is minted, the store holds what is known of it.

1. Look at the store. Of several workers of one broker, one does so at a time.
2. Claimed now (nothing of it was lost since a broker claimed it): it is adopted as it is, whoever claimed it. But where it lacks
   what this broker knows (a rollback that an earlier incarnation lost), or goes back in gen or seq, it is claimed anew.
   What it holds and this broker's logs do not say goes into the log as `heard` first.
3. Not claimed now: steps in its outbox whose record is missing are written as `recover` records.
4. Then, where replicas are named, what a majority of them knows is put together with what this broker knows; with fewer nothing
   is claimed. Last claimed by a gen that nobody of these knows: somebody else knows more. Refused.
5. Both refusals of 4 give way to a stated reason, which counts for the first time that the store is opened, so that two brokers
   do not claim it in turns.
6. Claiming: what is put together and the log does not say goes into the log as `heard`, then a `gen.claim` record; then the
   store gets a greater gen, a greater seq, and exactly those versions and marks. A newer gen kills every outstanding credential.
7. The claim compares what it found; if the store moved meanwhile, begin again.
8. Signing keys that are revoked are given up before anything is signed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Final

from broker.domain.audit.records import CONTROL, Claimed, Recovered
from broker.domain.audit.replay import Merged, Replayed, lacking, merge, settled
from broker.domain.canonical import JsonError, JsonObject, parse_json_object
from broker.domain.errors import BrokerError, StoreUnclaimedError, StoreUnknownError, StoreUnsuitableError
from broker.domain.revocation.feed import Snapshot
from broker.domain.revocation.scopes import RevocationScope
from broker.ports.audit import AuditLog, AuditLogs
from broker.ports.feed import StoreFeed
from broker.ports.peers import Peers
from broker.ports.store import Incarnation, StoreFence
from broker.ports.system import Clock, Entropy
from broker.services.knowledge import Knowledge, state_of
from broker.services.lifecycle_cache import LifecycleCache

_encode: Final = json.JSONEncoder(separators=(",", ":")).encode
SEQ_MARGIN: Final = 1_000
ATTEMPTS: Final = 5
ABANDONED_SECONDS: Final = 10.0


class IncarnationService:
    """One for a process. retire: gives up revoked signing keys. `force_reason` overrides the refusals of rule 4."""

    def __init__(
        self,
        *,
        fence: StoreFence,
        feed: StoreFeed,
        log: AuditLog,
        logs: AuditLogs,
        knowledge: Knowledge,
        peers: Peers,
        cache: LifecycleCache,
        clock: Clock,
        entropy: Entropy,
        retire: Callable[[Snapshot], Awaitable[None]],
        force_reason: str | None = None,
    ) -> None:
        self._fence = fence
        self._feed = feed
        self._log = log
        self._logs = logs
        self._knowledge = knowledge
        self._peers = peers
        self._cache = cache
        self._clock = clock
        self._entropy = entropy
        self._retire = retire
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
                async with self._logs.claiming():
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
        own = await self._knowledge.own()  # before the store is looked at, which others may be moving on
        found = await self._fence.inspect()
        if found.is_claimed:
            return await self._adopt(found, own)
        if await self._recover(found, abandoned_for=0.0):
            own = await self._knowledge.own()
        known = await self._majority(own)
        if found.gen > known.state.gen and self._force_reason is None:
            raise StoreUnknownError(
                f"the store was last claimed as gen {found.gen}; the audit log of this broker knows of gen "
                f"{known.state.gen} at most, so it cannot tell whether it knows every revocation. Start with the audit log "
                "that belongs to this store, name the replicas that know it with --peer, or start with "
                "--claim-unknown-store REASON"
            )
        return await self._claim(found, own.state, known, why=_why(found, known.state.gen))

    async def _adopt(self, found: Incarnation, own: Merged) -> bool:
        """Rule 2."""
        await self._fence.adopt(found)
        content = state_of(await self._feed.content())
        both = merge([own.state, content])
        goes_back = content.gen < own.state.gen or content.seq < own.state.seq
        if goes_back or both.contested or any(map(len, lacking(content, both.state))):
            why = "it goes back behind" if goes_back else "it lacks what is in"
            return await self._claim(
                found, own.state, both, why=f"the store was claimed, but {why} this broker's audit log"
            )
        await self._knowledge.take_in(own.state, content)
        await self._give_up_keys(content)
        return True

    async def _majority(self, own: Merged) -> Merged:
        """Rule 4. Raises `StoreUnclaimedError`, which names who is missing."""
        answers = await self._peers.knowledge()
        missing = {peer: answer for peer, answer in answers.items() if isinstance(answer, str)}
        if 2 * (len(answers) - len(missing) + 1) <= len(answers) + 1 and self._force_reason is None:
            raise StoreUnclaimedError(
                "the store must be claimed anew, and what a majority of the replicas knows is needed for that. Missing: "
                + "; ".join(f"{peer} ({why})" for peer, why in missing.items())
                + ". Start them, take one that is gone for good out of --peer, or start with --claim-unknown-store REASON"
            )
        told = merge([own.state, *(answer for answer in answers.values() if isinstance(answer, Replayed))])
        return Merged(told.state, told.contested | own.contested)

    async def _claim(self, found: Incarnation, own: Replayed, known: Merged, *, why: str) -> bool:
        content = settled(
            known,
            gen=max(self._clock.now_ms(), found.gen + 1, known.state.gen + 1),
            seq=max(found.seq, known.state.seq) + SEQ_MARGIN,
        )
        await self._give_up_keys(content)
        await self._knowledge.take_in(own, content)
        claimed = Claimed(
            id=self._entropy.token(),
            ts=self._clock.timestamp(),
            gen=content.gen,
            seq=content.seq,
            previous_gen=found.gen,
            run_id=found.run_id,
            reason=self._force_reason or why,
        )
        await self._log.append(claimed)
        try:
            await self._fence.claim(found, content)
        except StoreUnclaimedError:
            return False
        self.claims += (claimed,)
        return True

    async def _give_up_keys(self, content: Replayed) -> None:
        """Rule 8."""
        marks = {RevocationScope(scope): seq for scope, seq in content.marks.items()}
        await self._retire(Snapshot(content.gen, content.seq, marks))

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
