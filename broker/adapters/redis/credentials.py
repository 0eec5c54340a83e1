"""Credentials in the store: issue, inquire, release, and the assertions that are used up with them.

Every call acts once for its id. For `issue` that is the `jti`. The others take a random id for each call, so that the
pipeline may repeat one whose answer was lost without its own assertion standing in its way.
"""

from __future__ import annotations

import hashlib
import os
from typing import Final, cast

from broker.adapters.redis.keys import raw_jti
from broker.adapters.redis.session import Session
from broker.domain.errors import StoreFullError, StoreUnavailableError
from broker.ports.store import Assertion, Inquiry, Issue, Issued, IssueRefused, Standing

_UNLIMITED: Final = 0xFFFFFFFF
_STANDINGS: Final = {standing.value.encode(): standing for standing in Standing}
_REFUSALS: Final = {refusal.value.encode(): refusal for refusal in IssueRefused}


class RedisCredentials:
    """`CredentialStore` over one session."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    async def issue(self, issue: Issue) -> Issued | IssueRefused:
        session = self._session
        keys = session.keys
        jti = raw_jti(issue.jti)
        uses = _UNLIMITED if issue.uses is None else issue.uses
        if jti is None or not 0 <= uses <= _UNLIMITED:
            raise ValueError("a credential needs a jti of 16 bytes, and a number of uses that can be counted")
        touched: tuple[bytes, ...] = (keys.control, keys.states, keys.outbox, keys.credential + jti)
        gen, assertion = session.gen, issue.assertion
        if assertion is not None:
            touched = (*touched, keys.assertion + assertion.key.encode())
        judged: list[bytes | str | int] = []
        if issue.ancestors:
            touched = (*touched, keys.marks, *(keys.credential + _raw(one.jti) for one in issue.ancestors))
            for one in issue.ancestors:
                judged += (_raw(one.jti), one.gen, one.rseq, one.version, len(one.scopes), *one.scopes)
        reply = await session.step(
            b"credential_issue_1",
            touched,
            issue.seq,
            issue.version,
            jti,
            uses,
            issue.expires_at,
            issue.intent,
            0 if assertion is None else assertion.expires_at,
            *judged,
            *issue.audited,
        )
        if reply[0] != b"issued":
            return _REFUSALS[cast("bytes", reply[1])]
        rseq, gseq = cast("int", reply[1]), cast("int", reply[2])
        session.saw(rseq)
        return Issued(gen, rseq, gseq)

    async def inquire(self, inquiry: Inquiry) -> Standing:
        session = self._session
        keys = session.keys
        # what spells no jti was never issued; it is asked for all the same, so that its assertion is used up
        jti = _raw(inquiry.jti)
        touched: tuple[bytes, ...] = (keys.control, keys.states, keys.marks, keys.credential + jti)
        assertion = inquiry.assertion
        if assertion is not None:
            touched = (*touched, keys.assertion + assertion.key.encode())
        judged: list[bytes | str | int] = []
        if inquiry.ancestors:
            touched = (*touched, *(keys.credential + _raw(one.jti) for one in inquiry.ancestors))
            for one in inquiry.ancestors:
                judged += (_raw(one.jti), one.rseq, one.version)
        reply = await self._spare(
            b"credential_inquire_1",
            touched,
            inquiry.gen,
            inquiry.rseq,
            inquiry.version,
            jti,
            b"" if inquiry.use is None else hashlib.sha256(inquiry.use.encode()).digest()[:8],
            b"" if assertion is None else os.urandom(8),
            0 if assertion is None else assertion.expires_at,
            *judged,
            *inquiry.scopes,
        )
        return _STANDINGS[cast("bytes", reply[0])]

    async def release(self, jti: str, assertion: Assertion | None = None) -> bool | IssueRefused:
        keys = self._session.keys
        raw = _raw(jti)
        touched = (keys.control, keys.credential + raw)
        reply = await self._spare(
            b"credential_release_1",
            touched if assertion is None else (*touched, keys.assertion + assertion.key.encode()),
            raw,
            b"" if assertion is None else os.urandom(8),
            0 if assertion is None else assertion.expires_at,
        )
        return reply[1] == 1 if reply[0] == b"released" else _REFUSALS[cast("bytes", reply[1])]

    async def take(self, assertion: Assertion) -> bool:
        keys = self._session.keys
        touched = (keys.control, keys.assertion + assertion.key.encode())
        reply = await self._spare(b"assertion_take_1", touched, os.urandom(8), assertion.expires_at)
        return reply[0] == b"taken"

    async def _spare(self, function: bytes, keys: tuple[bytes, ...], *arguments: bytes | str | int) -> list[object]:
        """A step that needs no new memory to speak of: full memory is not the caller's to hear of."""
        try:
            return await self._session.step(function, keys, *arguments)
        except StoreFullError:
            raise StoreUnavailableError("the store has no memory left") from None


def _raw(jti: str) -> bytes:
    """The bytes that a jti spells; of what spells none, those of a credential that was never issued."""
    return raw_jti(jti) or bytes(16)
