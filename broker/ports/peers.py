"""The other replicas of this broker, and what they know of the store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from broker.domain.audit.replay import Replayed
from broker.domain.revocation.feed import Point


class Peers(Protocol):
    """The replicas that the operator has named beside this one."""

    async def recorded(self, point: Point) -> Mapping[str, bool | str]:
        """Whether each replica has on record what was done up to a point, or why it did not tell; in well under a second."""
        ...

    async def knowledge(self) -> Mapping[str, Replayed | str]:
        """What each replica knows by its logs, or why it did not tell; in bounded time. Empty where none is named."""
        ...
