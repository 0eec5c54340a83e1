"""A discrete-event simulation of brokers, a replicated store and verifiers, around the real rules of `domain/revocation`.

What is real: the view, the leases and the receipt. What is simulated: time, each process's own clock, the network, the store.

| part      | does                                                                                                      |
|-----------|-----------------------------------------------------------------------------------------------------------|
| network   | delays, loses, doubles and reorders messages; parts are cut off from each other                            |
| clock     | each process counts monotonic seconds of its own, up to `DRIFT` too fast or too slow; anew after a restart |
| store     | a primary and two replicas that lag; a failover promotes either, the other is told later, the old one last |
| broker    | follows the feed, grants a lease after a write that `required` replicas have, gives receipts               |
| verifier  | streams from one broker, renews at any, is restarted, and is asked again and again what it accepts         |

A `Rules` names what is done, so that a rule can be broken and the breakage be seen: `stale` counts each time that a verifier
accepted what a receipt, given before, had said to be gone.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable

from broker.domain.revocation.feed import Point
from broker.domain.revocation.lease import DRIFT
from broker.domain.revocation.scopes import RevocationScope

from lease_brokers import Broker
from lease_rules import ACCOUNTS, Clock, Credential, Gone, Rules
from lease_store import Node
from lease_verifiers import Verifier

END_SECONDS = 9.0


class World:
    """One schedule; `run` plays it to its end."""

    def __init__(self, seed: int, rules: Rules) -> None:
        self.rules = rules
        self.random = random.Random(seed)
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        pick = self.random
        self.hop = pick.choice((0.00003, 0.001, 0.01, 0.05))  # a usual message takes about this
        self.loss = pick.choice((0.0, 0.02, 0.2))
        self.doubles = pick.choice((0.0, 0.05))
        self.straggles = pick.choice((0.0, 0.05))
        self.cuts: set[tuple[str, str]] = set()
        self.nodes = [Node(self, number) for number in range(3)]
        self.primary = self.reign = 0
        self.brokers = [Broker(self, number) for number in range(2)]
        self.verifiers = [Verifier(self, number) for number in range(3)]
        self.credentials: list[Credential] = []
        self.gone: list[Gone] = []
        self.receipts = 0
        self.failovers = 0
        self.stale = 0
        self.accepted = 0

    def clock(self) -> Clock:
        rate = self.random.choice((1 - DRIFT, 1 + DRIFT, 1 + self.random.uniform(-DRIFT, DRIFT)))
        return Clock(self.random.uniform(0, 1e6), rate)

    def at(self, moment: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, (moment, next(self._count), act))

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        self.at(self.now + seconds, act)

    def send(self, source: str, target: str, act: Callable[[], None]) -> None:
        """Have `act` happen at the target, or not, or twice, and whenever it comes."""
        pick = self.random
        if pick.random() < self.loss:
            return
        for _ in range(2 if pick.random() < self.doubles else 1):
            delay = self.hop * pick.uniform(0.5, 2)
            if pick.random() < self.straggles:
                delay += pick.uniform(0, 3)

            def arrive() -> None:
                if (source, target) not in self.cuts:
                    act()

            if (source, target) not in self.cuts:
                self.after(delay, arrive)

    def cut(self, one: str, other: str, seconds: float) -> None:
        """Nothing passes between two for a while."""
        pairs = ((one, other), (other, one))
        self.cuts.update(pairs)
        self.after(seconds, lambda: self.cuts.difference_update(pairs))

    def run(self) -> World:
        for node in self.nodes:
            node.replicate()
        for broker in self.brokers:
            broker.begin()
        for verifier in self.verifiers:
            verifier.begin()
        self.after(0.3, self._mint)
        self.after(1.0, self._trouble)
        self.after(1.0, self._revoke)
        while self._events:
            moment, _, act = heapq.heappop(self._events)
            if moment > END_SECONDS:
                break
            self.now = moment
            act()
        return self

    def _mint(self) -> None:
        self.random.choice(self.brokers).mint()
        self.after(self.random.uniform(0.02, 0.3), self._mint)

    def _revoke(self) -> None:
        self.random.choice(self.brokers).revoke(self.random.choice(ACCOUNTS))
        self.after(self.random.uniform(0.3, 2.5), self._revoke)

    def _trouble(self) -> None:
        pick = self.random
        what = pick.choices(("ambush", "failover", "cut", "restart"), (4, 2, 3, 2))[0]
        verifier, broker = pick.choice(self.verifiers), pick.choice(self.brokers)
        match what:
            case "ambush":
                verifier.is_ambushed = True
            case "failover":
                self._fail_over()
            case "restart":
                verifier.restart()
            case _:
                ends = (verifier.name, pick.choice((broker.name, pick.choice(self.nodes).name)))
                self.cut(
                    *(ends if pick.random() < 0.7 else (broker.name, pick.choice(self.nodes).name)),
                    pick.uniform(0.2, 4),
                )
        self.after(pick.uniform(0.2, 2.5), self._trouble)

    def ambush(self, verifier: Verifier, broker: Broker) -> None:
        """A revocation right after a lease was granted, and no news of it for the one who holds it."""
        for other in self.brokers:
            self.cut(other.stream, verifier.name, 3.5)
        broker.revoke(self.random.choice(ACCOUNTS))

    def _fail_over(self) -> None:
        """The primary is cut off, with some who still believe it; a replica is promoted, the other is told, then the old one."""
        pick = self.random
        old = self.nodes[self.primary]
        if any(node.follows != self.primary for node in self.nodes):
            return
        self.failovers += 1
        first, second = pick.sample([node for node in self.nodes if node is not old], 2)
        believers: list[str] = [old.name]
        for one in (*self.brokers, *self.verifiers):
            if pick.random() < 0.5:
                believers += [one.name, one.stream] if isinstance(one, Broker) else [one.name]
        others = {first.name, second.name}
        others.update(one.name for one in self.verifiers)
        others.update(name for one in self.brokers for name in (one.name, one.stream))
        others.difference_update(believers)
        away = pick.uniform(0.5, 6)
        is_reached = pick.random() < 0.5  # the second replica hears the old primary until it is told to follow another
        for one, other in itertools.product(believers, sorted(others)):
            if not (is_reached and (one, other) == (old.name, second.name)):
                self.cut(one, other, away)

        def promote() -> None:
            self.reign += 1
            first.follows, first.reign, self.primary = first.number, self.reign, first.number
            first.held = first.held.copy()

        promoted = pick.uniform(0.01, 1.0)
        told = promoted + pick.uniform(0, 1.5)
        self.after(promoted, promote)
        self.after(told, lambda: second.follow(first))
        self.after(max(told, away) + pick.uniform(0, 1), lambda: old.follow(first))

    def gives_receipt(self, point: Point, account: RevocationScope) -> None:
        self.receipts += 1
        gone = Gone(point, account)
        self.gone.append(gone)
        for seconds in (0.0, 0.00005, 0.0002, 0.001, 0.01, 0.02, 0.05, 0.2, 0.5, 1.0, 1.9):
            self.after(seconds, lambda: [verifier.probe((gone,)) for verifier in self.verifiers])


def play(seed: int, rules: Rules | None = None) -> World:
    """One schedule, to its end."""
    return World(seed, rules or Rules()).run()
