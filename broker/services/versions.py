"""The life of versions: an administrator's command → one store function → its record (DESIGN §5, §6).

1. `publish` takes contract and policy from the loaded policy, never from the request (`policies.py` makes the command).
2. The command is judged on what is known of the store; if the store has moved when it acts, it is judged anew on what the store
   holds. Nothing is refused without having looked.
3. The store acts first: states and revocations in one function. Then the record. A record that cannot be written does not
   hold up a rollback: the answer says "effective, not recorded", and nothing is minted until it is recorded. Nor where the
   store's answer was lost, so that nobody can tell.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from broker.domain.audit.records import Revoked, VersionChanged, record_json
from broker.domain.canonical import JsonObject
from broker.domain.errors import Reason, Refusal, StoreUnavailableError, UnrecordedError
from broker.domain.lifecycle import states
from broker.domain.lifecycle.rollout import (
    Change,
    Retire,
    VersionCommand,
    apply,
    name_of,
)
from broker.domain.lifecycle.states import Command, LifecycleView, VersionRecord
from broker.domain.policy.document import VersionPolicy
from broker.domain.revocation.feed import Change as FeedChange
from broker.domain.revocation.scopes import RevocationScope
from broker.ports.policy import PolicySource
from broker.ports.store import Applied, VersionChange, VersionStore
from broker.ports.system import Clock, Entropy
from broker.services.incarnation import spell_intent
from broker.services.lifecycle_cache import LifecycleCache
from broker.services.recorder import Recorder

LOOKS: Final = 8


@dataclass(frozen=True, slots=True)
class Moved:
    """What a command did. seq: what was revoked is dead for every `rseq` below it. changed: False where all was so before.

    replicas: how many replicas of the store have it, -1 where that is unknown or none is waited for.
    """

    gen: int
    seq: int
    changed: bool
    records: tuple[VersionRecord, ...]
    revoked: tuple[str, ...] = ()
    replicas: int = -1


class Versions:
    """The use cases; one for a process. retire: gives up revoked signing keys."""

    def __init__(
        self,
        *,
        policy: PolicySource,
        store: VersionStore,
        cache: LifecycleCache,
        recorder: Recorder,
        clock: Clock,
        entropy: Entropy,
        retire: Callable[[FeedChange], Awaitable[None]],
    ) -> None:
        self._policy = policy
        self._store = store
        self._cache = cache
        self._recorder = recorder
        self._clock = clock
        self._entropy = entropy
        self._retire = retire

    async def view(self) -> LifecycleView:
        """All versions, as the store has them now."""
        return await self._cache.refresh()

    def contract_members(self, record: VersionRecord) -> JsonObject | None:
        """The contract of a version, where the loaded policy still has the published one."""
        version = self._in_policy(record)
        return version.contract.members if version and version.contract.digest == record.contract else None

    def is_loaded(self, record: VersionRecord) -> bool:
        """Whether the loaded policy is the one that the version was published with; it is refused otherwise."""
        version = self._in_policy(record)
        return version is not None and (version.contract.digest, version.digest) == (record.contract, record.policy)

    def _in_policy(self, record: VersionRecord) -> VersionPolicy | None:
        tool = self._policy.current().tools.get(record.tool)
        return tool.versions.get(record.version) if tool else None

    async def run(self, command: VersionCommand, *, by: str, request_id: str) -> Moved | Refusal:
        """Carry a command out. Raises `UnrecordedError` where it took effect and could not be written down."""
        # what this process knows of the store is as a rule what the store holds, and a revocation is in a hurry
        known = self._cache.view if self._cache.is_known else None
        for _ in range(LOOKS):
            view = known or await self._store.view()
            change = apply(command, view, now=self._clock.now())
            if known and (isinstance(change, Refusal) or not change.updates):
                known = None  # a no is said of what the store holds now, and of nothing else
                continue
            known = None
            if isinstance(change, Refusal):
                return change
            if not change.updates:
                record = view.get(command.tool, command.version)
                return Moved(view.gen, view.seq, changed=False, records=(record,) if record else ())
            records = tuple(replace(update.after, seq=view.seq + 1) for update in change.updates)
            moved = await self._act(command, change, records, view=view, by=by, request_id=request_id)
            if moved is not None:
                return moved
        return Refusal(
            Reason.STATE_CONFLICT, "the versions kept changing meanwhile; look again, then repeat", where="version"
        )

    async def _act(
        self,
        command: VersionCommand,
        change: Change,
        records: tuple[VersionRecord, ...],
        *,
        view: LifecycleView,
        by: str,
        request_id: str,
    ) -> Moved | None:
        record = VersionChanged(
            id=request_id,
            ts=self._clock.timestamp(),
            command=name_of(command).value,
            tool=command.tool,
            version=command.version,
            gen=view.gen,
            gseq=0,
            seq=view.seq + 1,
            by=by,
            records=tuple(states.record_json(after) for after in records),
            revoked=tuple(change.revokes),
            reason=command.emergency if isinstance(command, Retire) else None,
            contract_members=self.contract_members(records[0]) if change.command is Command.PUBLISH else None,
        )
        wanted = VersionChange(
            id=request_id,
            seq=view.seq,
            records=records,
            revokes=change.revokes,
            intent=spell_intent(_as_json(record)),
        )
        self._recorder.acting(request_id)
        try:
            applied = await self._store.change(wanted)
        except StoreUnavailableError:
            self._recorder.doubt()
            raise
        if applied is None:
            return None
        await self._record(record, applied)
        return Moved(
            applied.gen,
            applied.seq,
            changed=True,
            records=records,
            revoked=tuple(change.revokes),
            replicas=applied.replicas,
        )

    async def revoke(self, scopes: Sequence[RevocationScope], *, by: str, reason: str, request_id: str) -> Moved:
        """Revoke scopes: everything in them that was minted before is dead."""
        record = Revoked(
            id=request_id,
            ts=self._clock.timestamp(),
            gen=0,
            gseq=0,
            seq=0,
            revoked=tuple(scopes),
            by=by,
            reason=reason,
        )
        self._recorder.acting(request_id)
        try:
            applied = await self._store.revoke(scopes, id=request_id, intent=spell_intent(_as_json(record)))
        except StoreUnavailableError:
            self._recorder.doubt()
            raise
        # others hear of it; whoever is answered by this process must not meet a revoked key here
        await self._retire(FeedChange(applied.gen, applied.seq, dict.fromkeys(scopes, applied.seq)))
        await self._record(record, applied)
        return Moved(
            applied.gen, applied.seq, changed=True, records=(), revoked=tuple(scopes), replicas=applied.replicas
        )

    async def _record(self, record: VersionChanged | Revoked, applied: Applied) -> None:
        """Write down what took effect, as the store numbered it; then see what the store holds now, recorded or not."""
        try:
            await self._recorder.append_effective(
                replace(record, gen=applied.gen, gseq=applied.gseq, seq=applied.seq),
                gen=applied.gen,
                gseq=applied.gseq,
            )
        except UnrecordedError as error:
            error.point = (applied.gen, applied.seq)  # who made the change may ask who has heard of it
            raise
        finally:
            await self._cache.refresh()


def _as_json(record: VersionChanged | Revoked) -> JsonObject:
    return record_json(record)  # type: ignore[return-value]  # a record's fields are JSON values
