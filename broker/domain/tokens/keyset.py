"""When the keys of an issuer are fetched again, and for how long old ones count.

Times are seconds on any clock that only goes forward.

1. Nothing known: fetch, and wait for it.
2. Due: fetch, and wait for it; so a key that was withdrawn dies at the next refresh that succeeds. Refreshes are due on
   a beat of `ttl_seconds`, counted from the first good answer. A fetch out of turn does not put the beat off.
3. A key that is not in the set: it may be new, so fetch, and wait for it. Anybody can make up a `kid`.
4. So no fetch, for whatever reason, begins less than `cooldown_seconds` after the last one began; `retry_seconds` where
   no set is known that counts.
5. A fetch that fails changes nothing but the time of the last try.
6. Keys count until `max_stale_seconds` after the last good answer, then there are none (fail closed).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from broker.domain.errors import Reason, Refusal
from broker.domain.tokens.keys import KeySet, VerificationKey


@dataclass(frozen=True, slots=True)
class Schedule:
    """How often is often enough, and how long is too long."""

    ttl_seconds: float = 300
    cooldown_seconds: float = 30
    retry_seconds: float = 5
    max_stale_seconds: float = 86_400


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of one source."""

    keys: KeySet | None = None
    good_at: float | None = None
    tried_at: float | None = None
    due_at: float | None = None


def needs_fetch(known: Known, schedule: Schedule, *, now: float, kid: str | None, algorithm: str) -> bool:
    """Whether to fetch before the question for this key is answered (rules 1 to 4)."""
    counts = _counts(known, schedule, now=now)
    pause = schedule.cooldown_seconds if counts else schedule.retry_seconds
    if known.tried_at is not None and now < known.tried_at + pause:
        return False
    if known.keys is None or not counts or known.due_at is None or now >= known.due_at:
        return True
    return isinstance(known.keys.find(kid=kid, algorithm=algorithm), Refusal)


def begin(known: Known, *, now: float) -> Known:
    """A fetch begins (rule 4)."""
    return replace(known, tried_at=now)


def accept(known: Known, schedule: Schedule, keys: KeySet, *, now: float) -> Known:
    """A fetch brought a good set, which replaces the old one (rule 2)."""
    ttl = schedule.ttl_seconds
    due = now + ttl if known.due_at is None else known.due_at + ttl * max(0, (now - known.due_at) // ttl + 1)
    return replace(known, keys=keys, good_at=now, due_at=due)


def look_up(
    known: Known, schedule: Schedule, *, now: float, kid: str | None, algorithm: str
) -> VerificationKey | Refusal:
    """The key that fits, from what is known now (rule 6)."""
    if known.keys is None or not _counts(known, schedule, now=now):
        return Refusal(Reason.TOKEN_KEYS_UNAVAILABLE, "the issuer's keys cannot be had at present: try again later")
    return known.keys.find(kid=kid, algorithm=algorithm)


def _counts(known: Known, schedule: Schedule, *, now: float) -> bool:
    return known.good_at is not None and now <= known.good_at + schedule.max_stale_seconds
