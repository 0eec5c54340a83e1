"""`broker serve` with a watch on its own crypto: CPU time inside each ES256 verify and sign, in place.

Run as `python -m tests.bench.server WATCH serve …`; on SIGUSR1 the totals go into the file WATCH. In place, crypto costs
more than in a loop of nothing else: between two signatures a request has emptied the caches of their tables.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from broker.cli.main import main
from broker.engines import jws


class Watched:
    """A signature algorithm, timed."""

    def __init__(self, algorithm: Any) -> None:
        self._algorithm = algorithm
        self.totals = {"verify": [0, 0], "sign": [0, 0]}

    def verify(self, *arguments: Any) -> bool:
        begun = time.thread_time_ns()
        try:
            return bool(self._algorithm.verify(*arguments))
        finally:
            self._count("verify", begun)

    def sign(self, *arguments: Any) -> bytes:
        begun = time.thread_time_ns()
        try:
            return bytes(self._algorithm.sign(*arguments))
        finally:
            self._count("sign", begun)

    def _count(self, name: str, begun: int) -> None:
        total = self.totals[name]
        total[0] += 1
        total[1] += time.thread_time_ns() - begun


def watch(path: Path) -> None:
    """Time ES256 from now on."""
    watched = jws._ENGINES["ES256"] = Watched(jws._ENGINES["ES256"])  # type: ignore[assignment]

    def dump(*_: object) -> None:
        draft = path.with_suffix(".new")
        draft.write_text(json.dumps(watched.totals))
        os.replace(draft, path)

    signal.signal(signal.SIGUSR1, dump)


if __name__ == "__main__":
    watch(Path(sys.argv.pop(1)))
    main()
