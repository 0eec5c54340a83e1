"""The wall clock and chance."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
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


def test_two_threads_never_get_the_same_token() -> None:
    entropy = SystemEntropy()
    with ThreadPoolExecutor(8) as pool:
        made = [
            token for part in pool.map(lambda _: [entropy.token() for _ in range(5_000)], range(8)) for token in part
        ]
    assert len(set(made)) == len(made) == 40_000


def test_a_forked_child_gives_other_tokens_than_its_parent() -> None:
    entropy = SystemEntropy()
    entropy.token()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, entropy.token().encode())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(reading, 100).decode()
    os.close(reading)
    os.close(writing)
    assert len(theirs) == 22
    assert theirs not in {entropy.token() for _ in range(200)}


def test_tokens_are_22_url_safe_characters_and_do_not_repeat() -> None:
    entropy = SystemEntropy()
    made = {entropy.token() for _ in range(1_000)}
    assert len(made) == 1_000
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{22}", token) for token in made)
