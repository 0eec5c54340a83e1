"""Where a broker's processes log to, and what they leave out."""

from __future__ import annotations

import logging
import sys


def log_to_stderr(worker: str = "") -> None:
    """worker: which one, after the name of each logger; one that waits for other replicas asks them again and again."""
    said = f"%(asctime)s %(levelname)s %(name)s{worker}: %(message)s"
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format=said)
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # a line for each request that it sends
