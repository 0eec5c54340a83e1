"""The store: credentials, the life of versions, and the logical clock (DESIGN §5).

What every method of these ports promises:

1. It is one atomic step in the store. When it returns, the step has happened and, on a store that syncs each write, is on
   disk.
2. It acts once for one id, however often it is repeated: `jti` for `issue`, `id` for `change` and `revoke`.
3. It acts only on the incarnation that was claimed: after a restart, failover, flush or restore of the store it raises
   `StoreUnclaimedError` and has done nothing.
4. `StoreUnavailableError` leaves unknown whether the step has happened; a repeat with the same id tells.

Units: `expires_at` Unix seconds; `gen` milliseconds since 1970, strictly increasing; `seq`, `rseq`, `gseq` plain counters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from broker.domain.audit.replay import Replayed
from broker.domain.ids import VersionId
from broker.domain.lifecycle.states import LifecycleView, VersionRecord
from broker.domain.revocation.scopes import RevocationScope


@dataclass(frozen=True, slots=True)
class Assertion:
    """A client assertion to be used up in the same step (RFC 7523 §3 point 7).

    key: identifies client and `jti`, at most 100 bytes. expires_at: until when a second use must be noticed.
    """

    key: str
    expires_at: int


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A credential that another comes from, as it says of itself. scopes: all that it stands in."""

    jti: str
    gen: int
    rseq: int
    version: VersionId
    scopes: Sequence[RevocationScope] = ()


@dataclass(frozen=True, slots=True)
class Issue:
    """A credential to remember.

    jti: 16 random bytes as 22 base64url characters; the idempotency id of this step.
    version: must be mintable when the step runs. seq: the lifecycle view that the decision was made on.
    uses: how often the credential may be used at an online audience, None for no limit.
    intent: JSON object as bytes, kept in the outbox until `audited` names its `gseq`.
    audited: `gseq` of earlier steps **of the present gen** whose records are durable by now; taken out of the outbox.
    ancestors: what it comes from, the first one first, the parent last. Each must have its record, of the present gen, a mintable
    version, and no mark above its own `rseq` (of its signing key: no mark at all) when the step runs; of the parent, a use is
    counted.
    """

    jti: str
    version: VersionId
    seq: int
    expires_at: int
    uses: int | None
    intent: bytes
    assertion: Assertion | None = None
    audited: Sequence[int] = ()
    ancestors: Sequence[Ancestor] = ()


@dataclass(frozen=True, slots=True)
class Issued:
    """gen, rseq: the logical time of the credential. gseq: the number of this step in its gen, dense."""

    gen: int
    rseq: int
    gseq: int


class IssueRefused(StrEnum):
    """Why nothing was issued; nothing was written either (a used-up assertion apart)."""

    STALE_VIEW = "stale_view"  # the lifecycle moved since `seq`: read it anew and decide again
    NOT_MINTABLE = "not_mintable"
    ASSERTION_REPLAYED = "assertion_replayed"
    ANCESTOR_DEAD = "ancestor_dead"
    PARENT_USED_UP = "parent_used_up"


@dataclass(frozen=True, slots=True)
class Inquiry:
    """Is this credential active? use: count one use of it under this request id, None to look only.

    scopes: all that it stands in, with its ancestors'. ancestors: each must have its record, and a mintable version.
    """

    jti: str
    gen: int
    rseq: int
    version: VersionId
    scopes: Sequence[RevocationScope]
    use: str | None = None
    assertion: Assertion | None = None
    ancestors: Sequence[Ancestor] = ()


class Standing(StrEnum):
    """The answer to an inquiry. Only `ACTIVE` is yes."""

    ACTIVE = "active"
    ABSENT = "absent"  # never issued, released, or expired
    REVOKED = "revoked"  # a mark newer than `rseq`, another gen, a version that is not mintable, or an ancestor gone
    USED_UP = "used_up"
    ASSERTION_REPLAYED = "assertion_replayed"


class CredentialStore(Protocol):
    """Credentials: positive records that expire by themselves."""

    async def issue(self, issue: Issue) -> Issued | IssueRefused:
        """Remember a credential, unless its version is not mintable. Raises `StoreFullError` beside the common ones."""
        ...

    async def inquire(self, inquiry: Inquiry) -> Standing:
        """Whether a credential whose signature was verified is active now."""
        ...

    async def release(self, jti: str, assertion: Assertion | None = None) -> bool | IssueRefused:
        """Forget a credential; whether there was one. `seq` does not move."""
        ...

    async def take(self, assertion: Assertion) -> bool:
        """Use up an assertion by itself, for requests that touch no credential; False where it was used before."""
        ...


@dataclass(frozen=True, slots=True)
class VersionChange:
    """Version records to put in place and scopes to revoke, in one step, if the store still is at `seq`.

    id: idempotency id. intent: JSON object as bytes for the outbox. records: as they shall be; their `seq` is `seq + 1`.
    """

    id: str
    seq: int
    records: Sequence[VersionRecord]
    revokes: Sequence[RevocationScope]
    intent: bytes


@dataclass(frozen=True, slots=True)
class Applied:
    """seq: the sequence after the step; what was revoked is dead for every `rseq` below it. repeated: the id was known.

    replicas: how many replicas of the store have the step, -1 where that is unknown, or none is waited for. A step has acted
    however few they are; with too few it can be lost in a failover, until it has been replayed from the audit log.
    """

    gen: int
    seq: int
    gseq: int
    repeated: bool = False
    replicas: int = -1


class VersionStore(Protocol):
    """The life of versions, and revocations."""

    async def view(self) -> LifecycleView:
        """All versions as they are now."""
        ...

    async def change(self, change: VersionChange) -> Applied | None:
        """Put records in place and revoke. None: the store is no longer at `seq`; read the view anew."""
        ...

    async def revoke(self, scopes: Sequence[RevocationScope], *, id: str, intent: bytes) -> Applied:  # noqa: A002
        """Revoke scopes: every credential in them with a smaller `rseq` than the returned `seq` is dead."""
        ...

    async def marks(self) -> Mapping[RevocationScope, int]:
        """All revocation marks."""
        ...


@dataclass(frozen=True, slots=True)
class Incarnation:
    """The store as found. claimed_run_id, gen, seq, gseq: as stored; 0 or empty if unclaimed.

    run_id: of the server process and of its copy of the data; another once it has copied another server whole.
    """

    run_id: str
    claimed_run_id: str
    gen: int
    seq: int
    gseq: int

    @property
    def is_claimed(self) -> bool:
        return bool(self.gen) and self.run_id == self.claimed_run_id


@dataclass(frozen=True, slots=True)
class Pending:
    """A step that acted in the store and whose record has not been acknowledged.

    seq: the sequence after the step, which an intent to revoke could not know. age_seconds: by the store's clock.
    """

    gen: int
    gseq: int
    seq: int
    age_seconds: float
    intent: bytes


class StoreFence(Protocol):
    """Which incarnation of the store this broker speaks to."""

    async def inspect(self) -> Incarnation:
        """Check that the store is suitable and look at it; nothing is written. Raises `StoreUnsuitableError`."""
        ...

    async def adopt(self, incarnation: Incarnation) -> None:
        """Speak to an incarnation that is claimed already; later steps are fenced to its `gen`."""
        ...

    async def claim(self, found: Incarnation, content: Replayed) -> None:
        """Claim the store as `content.gen`, at `content.seq`, holding exactly `content`'s versions and marks.

        Compare and set: raises `StoreUnclaimedError` where the store is no longer as `found`. Outstanding credentials
        are dead, since their `gen` is another.
        """
        ...

    async def pending(self) -> Sequence[Pending]:
        """The outbox, of this and earlier gens; also before the store is claimed."""
        ...

    async def acknowledge(self, gseqs: Sequence[int], *, gen: int | None = None) -> None:
        """Their records are durable: take them out of the outbox. gen: whose numbers they are, None for the present one."""
        ...
