"""Readiness: whether this process can do its work now, and what stands in the way.

Ready means: the store is claimed and answers, and the broker's lease on it is good; the audit log takes records, and nothing
that took effect is unrecorded; there is a key to sign with.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.domain.errors import BrokerError
from broker.ports.audit import AuditLog
from broker.ports.keys import Signer
from broker.services.incarnation import IncarnationService
from broker.services.recorder import Recorder
from broker.services.store_lease import StoreLease


@dataclass(frozen=True, slots=True)
class Report:
    """checks: name → `ok`, or what stands in the way."""

    is_ready: bool
    checks: dict[str, str]


class Readiness:
    """One for a process."""

    def __init__(
        self, *, incarnation: IncarnationService, lease: StoreLease, log: AuditLog, recorder: Recorder, signer: Signer
    ) -> None:
        self._incarnation = incarnation
        self._lease = lease
        self._log = log
        self._recorder = recorder
        self._signer = signer
        self.is_draining = False

    async def report(self) -> Report:
        """Look at every part."""
        checks = {
            "store": await self._store(),
            "audit": "ok" if self._log.is_healthy() else "the audit log cannot be written",
            "records": "ok" if self._recorder.is_recorded else "a change took effect and is not recorded yet",
            "keys": self._keys(),
            "process": "draining" if self.is_draining else "ok",
        }
        return Report(is_ready=all(value == "ok" for value in checks.values()), checks=checks)

    def _keys(self) -> str:
        try:
            _ = self._signer.kid
        except BrokerError as error:
            return str(error)
        return "ok"

    async def _store(self) -> str:
        try:
            await self._incarnation.look()
        except BrokerError as error:
            return str(error) or type(error).__name__
        if self._incarnation.failure is not None:
            return str(self._incarnation.failure)
        if not self._incarnation.is_open:
            return "the store is not claimed"
        try:
            await self._lease.check()
        except BrokerError as error:
            return str(error) or type(error).__name__
        return "ok"
