"""The replicated store of the lease simulation: a primary and replicas that lag.

A node acts where it takes itself for the primary, and only on the incarnation that was claimed; a promoted one is another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from broker.domain.revocation.feed import Change
from broker.domain.revocation.lease import Holder
from broker.domain.revocation.scopes import RevocationScope

if TYPE_CHECKING:
    from lease_world import World

WAIT_SECONDS = 0.1


@dataclass(slots=True)
class Content:
    """What a store node holds. offset: how many writes it has. run: the incarnation that was claimed."""

    gen: int = 1
    seq: int = 0
    run: str = "node-0 from the start"
    offset: int = 0
    marks: dict[RevocationScope, int] = field(default_factory=dict)
    feed: tuple[Change, ...] = ()
    holders: dict[str, Holder] = field(default_factory=dict)

    def copy(self) -> Content:
        return Content(self.gen, self.seq, self.run, self.offset, dict(self.marks), self.feed, dict(self.holders))


class Node:
    """A server of the store: acts where it takes itself for the primary, and only on the incarnation that was claimed."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.name = f"node-{number}"
        self.incarnation = f"{self.name} from the start"
        self.follows = self.reign = 0  # whom, and in which of that one's times as a primary
        self.held = Content()
        self.acknowledged: dict[int, int] = {}
        self._waiting: list[tuple[int, Callable[[int], None]]] = []

    @property
    def is_primary(self) -> bool:
        return self.follows == self.number

    def follow(self, other: Node) -> None:
        self.follows, self.reign = other.number, other.reign
        self.held = Content(gen=0, run="", offset=-1)  # empty until a full copy has come
        if self.world.rules.copy_is_new_incarnation:
            self.incarnation = f"{self.name} from {self.world.now}"
        self._settle()

    def write(self, act: Callable[[Content], None], done: Callable[[int], None]) -> None:
        """Do it now; `done` hears how many replicas have it, once `required` have or waiting is over."""
        act(self.held)
        self.held.offset += 1
        if not self.world.rules.required_replicas:
            done(0)
            return
        self._waiting.append((self.held.offset, done))
        waiting = self._waiting[-1]

        def give_up() -> None:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
                done(self._replicas(waiting[0]))

        self.world.after(WAIT_SECONDS, give_up)
        self._spread()

    def replicate(self) -> None:
        if self.is_primary:
            self._spread()
        self.world.after(0.1, self.replicate)

    def _spread(self) -> None:
        copy, reign = self.held.copy(), self.reign
        for other in self.world.nodes:
            if other is not self:
                self.world.send(self.name, other.name, lambda other=other: other.take(self, reign, copy))  # type: ignore[misc]

    def take(self, primary: Node, reign: int, copy: Content) -> None:
        if (self.follows, self.reign) != (primary.number, reign):
            return  # what it says comes over a connection that is closed by now
        if copy.offset > self.held.offset:
            self.held = copy  # shared, and not written to unless this node is promoted
        offset = self.held.offset
        self.world.send(self.name, primary.name, lambda: primary.heard(self, reign, offset))

    def heard(self, replica: Node, reign: int, offset: int) -> None:
        # what a replica said before it was told to follow another is on its way still, and counts: it had it then
        if (self.follows, self.reign) != (self.number, reign):
            return
        self.acknowledged[replica.number] = max(offset, self.acknowledged.get(replica.number, 0))
        self._settle()

    def _replicas(self, offset: int) -> int:
        return sum(1 for has in self.acknowledged.values() if has >= offset)

    def _settle(self) -> None:
        if not self.is_primary:
            self.acknowledged.clear()
        for waiting in list(self._waiting):
            offset, done = waiting
            if self._replicas(offset) >= self.world.rules.required_replicas or not self.is_primary:
                self._waiting.remove(waiting)
                done(self._replicas(offset))
