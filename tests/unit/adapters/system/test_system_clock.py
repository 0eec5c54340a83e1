"""The wall clock and chance."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from broker.adapters.system.clock import SystemClock
from broker.adapters.system.entropy import SystemEntropy


def test_a_timestamp_is_rfc_3339_in_utc_with_microseconds() -> None:
    clock = SystemClock()
    before = datetime.now(UTC)
    texts = [clock.timestamp() for _ in range(2_000)]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", text) for text in texts)
    assert texts == sorted(texts)
    assert before <= datetime.fromisoformat(texts[0])
    assert datetime.fromisoformat(texts[-1]) <= datetime.now(UTC)


def test_seconds_and_milliseconds_are_of_one_clock() -> None:
    clock = SystemClock()
    assert abs(clock.now_ms() / 1_000 - clock.now()) < 2
    assert isinstance(clock.now(), int)


def test_tokens_are_22_url_safe_characters_and_do_not_repeat() -> None:
    entropy = SystemEntropy()
    made = {entropy.token() for _ in range(1_000)}
    assert len(made) == 1_000
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{22}", token) for token in made)
