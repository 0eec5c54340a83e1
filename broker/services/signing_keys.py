"""The broker's signing keys, as an administrator sees them; what becomes of them goes on record.

A key is revoked like everything else, by a revocation scope (`versions.revoke`). Here are the rest: which there are, a new one,
and the records of what this process made and gave up. A record follows its act: a key that is gone is gone, recorded or not.
"""

from __future__ import annotations

import asyncio

from broker.domain.audit.records import KeyCreated, KeyRetired
from broker.domain.canonical import JsonObject
from broker.domain.errors import BrokerError
from broker.ports.audit import AuditLog
from broker.ports.keys import CreatedKey, KeyRing, RetiredKey, Signer
from broker.ports.system import Clock, Entropy


class SigningKeys:
    """The use cases; one for a process."""

    def __init__(self, *, ring: KeyRing, signer: Signer, log: AuditLog, clock: Clock, entropy: Entropy) -> None:
        self._ring = ring
        self._signer = signer
        self._log = log
        self._clock = clock
        self._entropy = entropy
        self._unrecorded: list[CreatedKey | RetiredKey] = []

    async def states(self) -> list[JsonObject]:
        """All signing keys."""
        found = await asyncio.to_thread(self._ring.states)
        return [{"kid": k.kid, "alg": k.algorithm, "number": k.number, "state": k.state} for k in found]

    async def rotate(self, *, by: str) -> str:
        """A new key signs from now on; its `kid`. Raises `SigningUnavailableError`, and `AuditUnavailableError` after the act."""
        kid = await asyncio.to_thread(self._ring.rotate)
        await self.record(by=by)
        return kid

    async def tend(self) -> None:
        """See what other processes did to the keys; write down what this one did."""
        await asyncio.to_thread(self._ring.refresh)
        await self.record()

    async def record(self, *, by: str | None = None) -> None:
        """Write down what this process did and has not written down. Raises `AuditUnavailableError`."""
        self._unrecorded += self._ring.take_notes()
        while self._unrecorded:
            note = self._unrecorded[0]
            now = self._clock.timestamp()
            await self._log.append(
                KeyCreated(self._entropy.token(), now, note.kid, note.algorithm, note.use, by)
                if isinstance(note, CreatedKey)
                else KeyRetired(self._entropy.token(), now, note.kid, note.why, self._successor())
            )
            self._unrecorded.pop(0)

    def _successor(self) -> str | None:
        try:
            return self._signer.kid
        except BrokerError:
            return None
