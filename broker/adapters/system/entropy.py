"""Chance from the operating system."""

from __future__ import annotations

import base64
import os
from typing import Final

_TOKEN_BYTES: Final = 16
_DRAWN_BYTES: Final = 64 * _TOKEN_BYTES


class SystemEntropy:
    """`ports.system.Entropy` on the operating system's generator, asked for some tokens at a time.

    What was drawn before a fork is not used after it, so two processes never give the same token.
    """

    __slots__ = ("_at", "_drawn", "_process")

    def __init__(self) -> None:
        self._drawn = b""
        self._at = 0
        self._process = os.getpid()

    def token(self) -> str:
        if self._at >= len(self._drawn) or self._process != os.getpid():
            self._drawn, self._at, self._process = os.urandom(_DRAWN_BYTES), 0, os.getpid()
        begin = self._at
        self._at = begin + _TOKEN_BYTES
        return base64.urlsafe_b64encode(self._drawn[begin : self._at])[:22].decode("ascii")
