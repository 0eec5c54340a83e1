"""The recorder: nothing is answered before it is written down.

1. `append` returns once the record is durable.
2. A step that the store numbered is *settled* once its record is durable; settled numbers travel with the next store call,
   or by themselves when there is none for a while, and leave the outbox.
3. A revocation or lifecycle change that took effect but could not be written is kept here and tried again. One whose
   answer from the store was lost *may* have taken effect: the outbox will tell. Until all is written, `check_recorded`
   refuses everything that would mint.
4. What is heard of other processes' changes is kept and tried again in the same way. Who makes a change says so before the
   store acts, so that it is not heard of as another's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from broker.domain.audit.records import Heard, Record
from broker.domain.errors import AuditUnavailableError, BrokerError, UnrecordedError
from broker.ports.audit import AuditLog
from broker.ports.store import StoreFence

MAX_CARRIED = 64
MAX_OWN = 1_024


class Recorder:
    """One for a process; shared by all use cases."""

    def __init__(self, log: AuditLog, fence: StoreFence) -> None:
        self._log = log
        self._fence = fence
        self._settled: list[tuple[int, int]] = []
        self._unrecorded: list[tuple[Record, int, int]] = []
        self._own: deque[str] = deque(maxlen=MAX_OWN)
        self._doubts = 0

    async def append(self, record: Record) -> None:
        """Make a record durable. Raises `AuditUnavailableError`."""
        await self._log.append(record)

    async def append_effective(self, record: Record, *, gen: int, gseq: int) -> None:
        """Make the record of a change that took effect already durable. Raises `UnrecordedError` where it cannot be."""
        try:
            await self._log.append(record)
        except AuditUnavailableError as error:
            self._unrecorded.append((record, gen, gseq))
            raise UnrecordedError(f"effective, not recorded: {error}") from error
        self.settle(gen, [gseq])

    def acting(self, step_id: str) -> None:
        """A change of this process is about to be made, under this id."""
        self._own.append(step_id)

    def is_own(self, step_id: str) -> bool:
        """Whether a step that the store tells of was made by this process, which records it by itself."""
        return step_id in self._own

    async def append_heard(self, record: Heard) -> None:
        """Make durable what was heard; where that fails, it is kept, and nothing is minted until it is written."""
        try:
            await self._log.append(record)
        except AuditUnavailableError:
            self._unrecorded.append((record, 0, 0))

    def settle(self, gen: int, gseqs: Iterable[int]) -> None:
        """The records of these steps are durable."""
        self._settled.extend((gen, gseq) for gseq in gseqs)

    def take_settled(self, gen: int, *, limit: int = MAX_CARRIED) -> list[int]:
        """Settled numbers of this gen for the next store call to carry along. If it fails, `settle` gives them back.

        Numbers of an earlier gen are let go: their records are durable, and recovery finds them so.
        """
        if not self._settled:
            return []
        carried, self._settled = self._settled[:limit], self._settled[limit:]
        return [gseq for settled_gen, gseq in carried if settled_gen == gen]

    def doubt(self) -> None:
        """A change may have taken effect; its answer was lost."""
        self._doubts += 1

    @property
    def doubts(self) -> int:
        """How many changes may have taken effect without a record."""
        return self._doubts

    def resolve(self, doubts: int) -> None:
        """So many doubts, the oldest, are resolved: what the outbox held is recorded."""
        self._doubts -= doubts

    def check_recorded(self) -> None:
        """Raises `UnrecordedError` while a change that took effect, or may have, is not written down."""
        if not self.is_recorded:
            raise UnrecordedError("a change took effect, or may have, and is not recorded yet")

    @property
    def is_recorded(self) -> bool:
        return not self._unrecorded and not self._doubts

    async def tend(self, gen: int) -> None:
        """Called now and then: write what could not be written, empty the outbox of what is settled in this gen."""
        while self._unrecorded:
            record, of_gen, gseq = self._unrecorded[0]
            try:
                await self._log.append(record)
            except AuditUnavailableError:
                return
            self._unrecorded.pop(0)
            if gseq:  # what was heard is settled by whom it is of
                self.settle(of_gen, [gseq])
        carried = self.take_settled(gen, limit=len(self._settled))
        if carried:
            try:
                await self._fence.acknowledge(carried)
            except BrokerError:
                self.settle(gen, carried)
                raise
