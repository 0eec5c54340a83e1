"""One issuer's keys, kept by the schedule of `domain.tokens.keyset`; the bytes come from the owner's function.

1. One fetch at a time: whoever needs it waits for the same one, and nobody else waits.
2. A caller that is cancelled does not cancel the fetch.
3. A fetch that fails, or brings no good set, leaves the old set and raises an alarm in the log.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from broker.domain.errors import Refusal
from broker.domain.tokens.keys import JwksError, VerificationKey
from broker.domain.tokens.keyset import Known, Schedule, accept, begin, look_up, needs_fetch
from broker.engines.jwk import parse_jwks

_log: Final = logging.getLogger("broker.keys")


class KeysUnreadableError(Exception):
    """The source of a key set did not give its bytes; the message says why, for the operator."""


class KeyCache:
    """The keys of one source.

    fetch:   gives the bytes of a JWK Set, bounded in size and time, or raises `KeysUnreadableError`.
    seconds: a clock that only goes forward.
    """

    def __init__(
        self,
        name: str,
        fetch: Callable[[], Awaitable[bytes]],
        *,
        schedule: Schedule,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._fetch = fetch
        self._schedule = schedule
        self._seconds = seconds
        self._known = Known()
        self._flight: asyncio.Task[None] | None = None

    async def find(self, *, kid: str | None, algorithm: str) -> VerificationKey | Refusal:
        """The key that fits; waits for a fetch where the schedule calls for one."""
        now = self._seconds()
        wants = needs_fetch(self._known, self._schedule, now=now, kid=kid, algorithm=algorithm)
        if self._flight is None and wants:
            self._known = begin(self._known, now=now)
            self._flight = asyncio.create_task(self._refresh())
        # While a fetch is under way, only those it can help wait for it.
        if self._flight is not None and self._is_missing(now, kid, algorithm):
            await asyncio.wait([self._flight])
            now = self._seconds()
        return look_up(self._known, self._schedule, now=now, kid=kid, algorithm=algorithm)

    def _is_missing(self, now: float, kid: str | None, algorithm: str) -> bool:
        due = self._known.due_at
        if due is None or now >= due:
            return True
        return isinstance(look_up(self._known, self._schedule, now=now, kid=kid, algorithm=algorithm), Refusal)

    async def _refresh(self) -> None:
        try:
            found = parse_jwks(await self._fetch())
            if isinstance(found, JwksError):
                _log.error("the keys of %s are kept as they were: %s", self._name, found.problem)
                return
            if found.skipped:
                _log.info("in the keys of %s: %s", self._name, "; ".join(found.skipped))
            self._known = accept(self._known, self._schedule, found, now=self._seconds())
        except KeysUnreadableError as error:
            _log.error("the keys of %s are kept as they were: %s", self._name, error)
        finally:
            self._flight = None

    async def close(self) -> None:
        """Give up a fetch that is under way."""
        flight = self._flight
        if flight is not None:
            flight.cancel()
            await asyncio.wait([flight])
