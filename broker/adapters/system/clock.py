"""The wall clock, and one that goes on while the machine sleeps."""

from __future__ import annotations

import sys
import time


class SystemClock:
    """`ports.system.Clock` on the operating system's clock."""

    __slots__ = ("_text",)

    def __init__(self) -> None:
        # One pair, replaced whole: threads may race to replace it, never mix two seconds.
        self._text: tuple[int, str] = (-1, "")

    def now(self) -> int:
        return int(time.time())

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def timestamp(self) -> str:
        seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
        known, text = self._text
        if seconds != known:
            text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
            self._text = (seconds, text)
        return f"{text}.{nanoseconds // 1_000:06d}Z"


if sys.platform == "linux":

    def elapsed_seconds() -> float:
        """Since the machine was started, its sleep included: a lease must not outlast it. `time.monotonic` stands still then."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:
    elapsed_seconds = time.monotonic
