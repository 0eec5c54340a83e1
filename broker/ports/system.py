"""Time and chance, so that the use cases can be given both."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Wall clock. Only lifetimes hang on it; no revocation does."""

    def now(self) -> int:
        """Unix seconds, rounded down."""
        ...

    def now_ms(self) -> int:
        """Unix milliseconds, rounded down."""
        ...

    def timestamp(self) -> str:
        """UTC as RFC 3339 with microseconds and `Z`."""
        ...


class Entropy(Protocol):
    """Unguessable names."""

    def token(self) -> str:
        """128 random bits as 22 base64url characters, without padding."""
        ...
