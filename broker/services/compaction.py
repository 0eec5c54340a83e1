"""Compaction: marks that can no longer matter give way to one mark on everything, and the log says so.

1. What was minted before a point that is `HORIZON_SECONDS` ago has expired: longer than any credential may live, with the leeway
   that verifiers allow on both ends. The store notes a point, and uses it when it is that old by its own clock.
2. The mark on everything at that point kills nothing that was minted later, so no revocation is undone and none is added.
   A clock that runs wild kills credentials too early, never too late.
3. Marks of signing keys stay for ever: who holds such a key can state any sequence.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from broker.domain.audit.records import MarksCompacted, record_json
from broker.domain.tokens.claims import MAX_LIFETIME_SECONDS
from broker.ports.feed import StoreFeed
from broker.ports.system import Clock, Entropy
from broker.services.incarnation import spell_intent
from broker.services.recorder import Recorder

LEEWAY_SECONDS: Final = 60
HORIZON_SECONDS: Final = MAX_LIFETIME_SECONDS + 2 * LEEWAY_SECONDS


class Compaction:
    """One for a process; of several that try, the store lets one act."""

    def __init__(
        self,
        *,
        feed: StoreFeed,
        recorder: Recorder,
        clock: Clock,
        entropy: Entropy,
        horizon_seconds: int = HORIZON_SECONDS,
    ) -> None:
        self._feed = feed
        self._recorder = recorder
        self._clock = clock
        self._entropy = entropy
        self._horizon_seconds = horizon_seconds

    async def tend(self) -> int:
        """Compact where it is time to; up to which sequence, 0 where nothing was to be done."""
        record = MarksCompacted(
            id=self._entropy.token(), ts=self._clock.timestamp(), gen=0, gseq=0, seq=0, covered=0, by="broker"
        )
        self._recorder.acting(record.id)
        done = await self._feed.compact(
            id=record.id,
            intent=spell_intent(record_json(record)),  # type: ignore[arg-type]  # a record's fields are JSON values
            horizon_seconds=self._horizon_seconds,
        )
        if done is None:
            return 0
        applied, covered = done
        made = replace(record, gen=applied.gen, gseq=applied.gseq, seq=applied.seq, covered=covered)
        try:
            await self._recorder.append_effective(made, gen=applied.gen, gseq=applied.gseq)
        finally:
            await self._feed.sweep()
        return covered
