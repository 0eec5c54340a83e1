"""A primary that others know the address of: sentinels, or the nodes of a cluster.

1. All that are known are asked at once; the address that most of those who answer name comes first. Sentinels differ for a
   moment after a failover, and a node that was cut off goes on naming itself: then the others are tried as well.
2. An address is taken once the server there says (ROLE) that it is a primary. The best named that does so is taken.
3. This is asked whenever a connection is opened, so after every one that broke, and every refusal of a node that is no
   longer the one to ask.
4. Now and then, and soon after a write that too few replicas acknowledged, it is asked in the background: an address that
   more than half of all who may be asked name, and that is a primary, replaces the present one. Connections to another are
   then let go: an old primary that was cut off would otherwise keep whoever is connected to it.

What keeps a broker safe that is led to the wrong primary all the same is the fence, and the count of replicas.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol

from hiredis import pack_command
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError, ResponseError

from broker.adapters.redis.connection import Address
from broker.adapters.redis.replies import failure_of
from broker.adapters.redis.topology import closed, opened
from broker.domain.errors import BrokerError, StoreUnavailableError, StoreUnsuitableError

LOOK_SECONDS: Final = 2.0
LOOK_SOON_SECONDS: Final = 0.25
LATELY_SECONDS: Final = 0.1
ASK_SHARE: Final = 0.4
PROBE_SHARE: Final = 0.5
"""Of the time that a connection may take: what those who know may take to answer, and then those whom they name."""


class Advice(Protocol):
    """Whom to ask, what, and how to read the answer. who: for people, in the plural."""

    who: str
    question: tuple[str, ...]

    @property
    def known(self) -> Sequence[Address]:
        """Those who may be asked."""
        ...

    def read(self, answer: object, asked: Address) -> Address | None:
        """The address that an answer names; None where whoever was asked knows of none."""
        ...

    def nobody(self) -> BrokerError:
        """All who answered know of no primary."""
        ...

    def silence(self) -> None:
        """Nobody answered."""
        ...


Dial = Callable[[Address | None], AbstractConnection]


class Advised:
    """`Topology` for a primary that may move. dial: to the store; dial_adviser: to those who know."""

    can_move = True

    def __init__(self, advice: Advice, *, dial: Dial, dial_adviser: Dial, connect_seconds: float) -> None:
        self._advice = advice
        self._dial = dial
        self._dial_adviser = dial_adviser
        self._ask_seconds = ASK_SHARE * connect_seconds
        self._probe_seconds = PROBE_SHARE * connect_seconds
        self._present: Address | None = None
        self._looking: asyncio.Task[None] | None = None
        self._looked_at = 0.0
        self._lately: dict[bool, tuple[float, list[Address]]] = {}

    async def open(self) -> AbstractConnection:
        tried = await self._named(of_all=False)
        try:
            connection, self._present = await self._first(tried)
        except (BrokerError, RedisError, OSError):
            others = [name for name in await self._named(of_all=True) if name not in tried]
            if not others:
                raise
            connection, self._present = await self._first(others)
        return connection

    def is_present(self, connection: AbstractConnection) -> bool:
        return self._present is None or (connection.host, connection.port) == self._present  # type: ignore[attr-defined]

    def look(self, *, soon: bool = False) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now - self._looked_at < (LOOK_SOON_SECONDS if soon else LOOK_SECONDS) and self._looked_at <= now:
            return
        if self._looking is not None and not self._looking.done() and self._looking.get_loop() is loop:
            return
        self._looked_at = now
        self._looking = loop.create_task(self._look(), name="store topology")

    async def _look(self) -> None:
        """Rule 4."""
        with suppress(BrokerError, RedisError, OSError):
            votes = await self._votes()
            (named, count), *_ = votes.most_common()
            if named != self._present and count * 2 > len(self._advice.known):
                connection, self._present = await self._first([named])
                self._lately.clear()
                await closed(connection)

    async def _named(self, *, of_all: bool) -> list[Address]:
        """The most named first. What was heard a moment ago is not asked again: calls may fail by the hundred in a second."""
        now = asyncio.get_running_loop().time()
        at, named = self._lately.get(of_all, (0.0, []))
        if not at <= now < at + LATELY_SECONDS:
            named = [name for name, _ in (await self._votes(of_all=of_all)).most_common()]
            self._lately[of_all] = now, named
        return named

    async def _votes(self, *, of_all: bool = False) -> Counter[Address]:
        """How many name which address. of_all: also of those who answer when more than half have named one already.

        Raises what stands in the way where nobody names one.
        """
        known = self._advice.known
        asking = [asyncio.create_task(self._ask(adviser)) for adviser in known]
        votes: Counter[Address] = Counter()
        answered, failure = 0, None
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._ask_seconds):
                    for answer in asyncio.as_completed(asking):
                        try:
                            named = await answer
                        except (RedisError, OSError) as error:
                            failure = error
                            continue
                        answered += 1
                        if named is not None:
                            votes[named] += 1
                            if votes[named] * 2 > len(known) and not of_all:
                                break
        finally:
            await _ended(asking)
        if votes:
            return votes
        if answered:
            raise self._advice.nobody()
        self._advice.silence()
        if isinstance(failure, RedisError) and isinstance(said := failure_of(failure), StoreUnsuitableError):
            raise StoreUnsuitableError(f"asking {self._advice.who}: {said}")
        raise StoreUnavailableError(f"none of {self._advice.who} answers")

    async def _ask(self, adviser: Address) -> Address | None:
        connection = await opened(self._dial_adviser(adviser))
        try:
            return self._advice.read(await _asked(connection, *self._advice.question), adviser)
        finally:
            await closed(connection)

    async def _first(self, named: Sequence[Address]) -> tuple[AbstractConnection, Address]:
        """A connection to the first of these that is a primary (2). Raises what is wrong with the first of them."""
        probes = [asyncio.create_task(self._probe(at)) for at in named]
        taken: asyncio.Task[AbstractConnection] | None = None
        try:
            await asyncio.wait(probes[:1], timeout=self._probe_seconds)
            if not _succeeded(probes[0]) and len(probes) > 1:
                await asyncio.wait(probes[1:], timeout=self._probe_seconds if probes[0].done() else 0)
            taken = next(filter(_succeeded, probes), None)
            if taken is not None:
                return taken.result(), named[probes.index(taken)]
            if probes[0].done():
                await probes[0]
            raise StoreUnavailableError("the store's primary does not answer")
        finally:
            others = [probe for probe in probes if probe is not taken]
            await _ended(others)
            for probe in filter(_succeeded, others):
                await closed(probe.result())

    async def _probe(self, at: Address) -> AbstractConnection:
        connection = await opened(self._dial(at))
        try:
            role = await _asked(connection, "ROLE")
            if not isinstance(role, list) or not role or role[0] != b"master":
                raise StoreUnavailableError("the server that is named as the store's primary is none")
        except BaseException:
            await closed(connection)
            raise
        return connection


async def _asked(connection: AbstractConnection, *question: str) -> object:
    await connection.send_packed_command(pack_command(question), check_health=False)  # type: ignore[arg-type]
    reply = await connection.read_response(disconnect_on_error=False)
    if isinstance(reply, ResponseError):
        raise reply
    return reply


def _succeeded(task: asyncio.Task[AbstractConnection]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


async def _ended(tasks: Sequence[asyncio.Task[object]] | Sequence[asyncio.Task[AbstractConnection]]) -> None:
    """Break off what still runs, and have every failure looked at."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Sentinels:
    """`Advice` of sentinels that watch a primary under a name."""

    def __init__(self, hosts: Sequence[Address], name: str) -> None:
        self.who = "the sentinels"
        self.known = hosts
        self.question: tuple[str, ...] = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", name)
        self._name = name

    def read(self, answer: object, asked: Address) -> Address | None:
        match answer:
            case [bytes(host), bytes(port)]:
                return host.decode(), int(port)
            case _:
                return None

    def nobody(self) -> BrokerError:
        return StoreUnsuitableError(
            f"the sentinels watch no primary named {self._name}; mend the name in the store's URL"
        )

    def silence(self) -> None:
        """They are those of the URL."""


class ClusterNodes:
    """`Advice` of the nodes of a cluster, about one slot. Once nodes have been heard of, they are asked in place of the hosts
    of the URL, primaries first, at most `MOST`.
    """

    MOST: Final = 9

    def __init__(self, hosts: Sequence[Address], slot: int) -> None:
        self.who = "the nodes of the cluster"
        self.question: tuple[str, ...] = ("CLUSTER", "SLOTS")
        self._hosts = tuple(hosts)
        self._heard: tuple[Address, ...] = ()
        self._slot = slot

    @property
    def known(self) -> Sequence[Address]:
        return self._heard or self._hosts

    def read(self, answer: object, asked: Address) -> Address | None:
        named: Address | None = None
        primaries: dict[Address, None] = {}
        replicas: dict[Address, None] = {}
        for first, last, primary, *others in answer if isinstance(answer, list) else ():
            at = _place(primary, asked)
            primaries[at] = None
            replicas.update((_place(other, asked), None) for other in others)
            if first <= self._slot <= last:
                named = at
        self._heard = tuple({**primaries, **replicas})[: self.MOST]
        return named

    def nobody(self) -> BrokerError:
        return StoreUnavailableError("no node of the cluster holds the tenant's slot at present")

    def silence(self) -> None:
        self._heard = ()


def _place(node: Sequence[object], asked: Address) -> Address:
    """A node's address as CLUSTER SLOTS says it; one that does not know its own is where it was asked."""
    host, port, *_ = node
    return host.decode() if isinstance(host, bytes) and host not in (b"", b"?") else asked[0], int(port)  # type: ignore[call-overload]
