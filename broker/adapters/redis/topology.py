"""Where the primary of a tenant is, and a connection to it.

A pipeline asks its topology for a connection and knows nothing else of where the store runs. `OneAddress` is a store at one
address, which may be a name that leads elsewhere tomorrow; `advised.py` asks sentinels, or the nodes of a cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError


class Topology(Protocol):
    """Finds the primary, again each time a connection is opened. can_move: whether it may be elsewhere next time."""

    @property
    def can_move(self) -> bool: ...

    async def open(self) -> AbstractConnection:
        """An open connection to the present primary. Raises what redis-py raises, or a `BrokerError` that says more."""
        ...

    def is_present(self, connection: AbstractConnection) -> bool:
        """Whether a connection still leads to what was last found to be the primary."""
        ...

    def look(self, *, soon: bool = False) -> None:
        """Ask in the background whether the primary has moved, if that was not asked lately. soon: there is a reason to."""
        ...


class OneAddress:
    """A store at one address: that of the URL."""

    can_move = False

    def __init__(self, dial: Callable[[None], AbstractConnection]) -> None:
        self._dial = dial

    async def open(self) -> AbstractConnection:
        return await opened(self._dial(None))

    def is_present(self, connection: AbstractConnection) -> bool:
        return True

    def look(self, *, soon: bool = False) -> None:
        """There is nobody to ask."""


async def opened(connection: AbstractConnection) -> AbstractConnection:
    """The connection, open; whatever happens meanwhile, it is not left half open."""
    try:
        await connection.connect()  # type: ignore[no-untyped-call]
    except BaseException:
        await closed(connection)
        raise
    return connection


async def closed(connection: AbstractConnection) -> None:
    """Close a connection, whatever state it is in, without waiting for the other side."""
    with suppress(RedisError, OSError):
        await connection.disconnect(nowait=True)
