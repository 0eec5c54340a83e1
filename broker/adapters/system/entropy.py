"""Chance from the operating system."""

from __future__ import annotations

import secrets


class SystemEntropy:
    """`ports.system.Entropy` on the operating system's generator."""

    __slots__ = ()

    def token(self) -> str:
        return secrets.token_urlsafe(16)
