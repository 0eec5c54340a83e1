"""The crypto that a request cannot do without, measured on the server's core while the server rests."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from tests.bench.setup import SERVER_CORE


def _crypto(pipe: object, core: int) -> None:
    """CPU seconds of one ES256 verify and one sign, measured on this core, each time it is asked."""
    os.sched_setaffinity(0, {core})
    key, message, how = ec.generate_private_key(ec.SECP256R1()), b"x" * 700, ec.ECDSA(hashes.SHA256())
    public, signature = key.public_key(), key.sign(b"x" * 700, how)
    while pipe.recv():  # type: ignore[attr-defined]
        times = []
        for action in (lambda: public.verify(signature, message, how), lambda: key.sign(message, how)):
            best = []
            for _ in range(5):
                begun = time.process_time()
                for _ in range(200):
                    action()
                best.append((time.process_time() - begun) / 200)
            times.append(statistics.median(best))
        pipe.send(tuple(times))  # type: ignore[attr-defined]


class Calibration:
    """The crypto of one request on the server's core, taken beside every round."""

    def __init__(self) -> None:
        self._pipe, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("spawn").Process(
            target=_crypto, args=(theirs, SERVER_CORE), daemon=True
        )
        self._process.start()

    def take(self) -> tuple[float, float]:
        """CPU seconds of verify and of sign."""
        self._pipe.send(True)
        return self._pipe.recv()  # type: ignore[no-any-return]

    def stop(self) -> None:
        self._pipe.send(False)
        self._process.join(10)
