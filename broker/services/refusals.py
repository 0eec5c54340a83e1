"""Refusals of everything but an exchange, which records its own: who was refused what, before the answer goes out."""

from __future__ import annotations

from dataclasses import dataclass

from broker.domain.audit.records import RequestDenied
from broker.domain.errors import Refusal
from broker.ports.system import Clock
from broker.services.recorder import Recorder


@dataclass(frozen=True, slots=True)
class Attempt:
    """What was asked for. endpoint: method and path template, never the path; by: who proved to be whom, if anybody."""

    endpoint: str
    by: str | None = None
    tool: str | None = None
    version: str | None = None
    command: str | None = None


class Refusals:
    """The use case; one for a process."""

    def __init__(self, *, recorder: Recorder, clock: Clock) -> None:
        self._recorder = recorder
        self._clock = clock

    async def record(self, refusal: Refusal, attempt: Attempt, *, request_id: str) -> None:
        """Write a refusal down. Raises `AuditUnavailableError`."""
        await self._recorder.append(
            RequestDenied(
                id=request_id,
                ts=self._clock.timestamp(),
                endpoint=attempt.endpoint,
                by=attempt.by,
                tool=attempt.tool,
                version=attempt.version,
                command=attempt.command,
                reason=refusal.reason.value,
                where=refusal.where,
                why=refusal.why or refusal.detail,
            )
        )
