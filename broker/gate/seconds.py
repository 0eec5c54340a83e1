"""The clock of leases at a verifier: it only goes forward, and goes on while the machine sleeps.

On Linux `time.monotonic` stands still then, and a verifier that wakes would take a lease of before for a fresh one.
"""

from __future__ import annotations

import sys
import time

if sys.platform == "linux":

    def elapsed_seconds() -> float:
        """Since the machine was started, its sleep included."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:
    elapsed_seconds = time.monotonic
