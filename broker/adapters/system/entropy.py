"""Chance from the operating system."""

from __future__ import annotations

import base64
import os
from typing import Final

_TOKEN_BYTES: Final = 16
_DRAWN_TOKENS: Final = 64


class SystemEntropy:
    """`ports.system.Entropy` on the operating system's generator, asked for some tokens at a time.

    1. What was drawn before a fork is not used after it, so two processes never give the same token.
    2. A token leaves the pool in one step (`list.pop`), so two threads never give the same one either.
    """

    __slots__ = ("_pool", "_process")

    def __init__(self) -> None:
        self._pool: list[bytes] = []
        self._process = os.getpid()

    def token(self) -> str:
        if self._process != os.getpid():
            self._pool, self._process = [], os.getpid()
        try:
            raw = self._pool.pop()
        except IndexError:
            drawn = os.urandom(_DRAWN_TOKENS * _TOKEN_BYTES)
            pool = [drawn[at : at + _TOKEN_BYTES] for at in range(0, len(drawn), _TOKEN_BYTES)]
            raw = pool.pop()
            self._pool = pool
        return base64.urlsafe_b64encode(raw)[:22].decode("ascii")
