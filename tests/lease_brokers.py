"""The brokers of the lease simulation: they follow the feed, hold a lease on the store, grant leases, and give receipts.

The view and the receipt are the real ones of `domain/revocation`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.domain.revocation.feed import Change, Event, Heartbeat, Point, Snapshot
from broker.domain.revocation.lease import LEASE_SECONDS, RENEW_SECONDS, Holder, receipt, receipt_seconds
from broker.domain.revocation.scopes import RevocationScope
from broker.domain.revocation.view import RevocationView

from lease_rules import ACCOUNTS, VERSION, Credential
from lease_store import Content, Node

if TYPE_CHECKING:
    from lease_verifiers import Verifier
    from lease_world import World


class Broker:
    """Speaks to the node it takes for the primary. `until`: its own lease on the store, by its own clock."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.name = f"broker-{number}"
        self.stream = f"stream-{number}"
        self.node = world.nodes[0]
        self.clock = world.clock()
        self.gen = 1
        self.until = 0.0
        self.gen_known: float | None = None
        self.gen_since: float | None = None
        """When this broker first heard of a write in this gen that replicas have; `gen_known`: of this gen at all."""
        self.view = RevocationView()
        self.known: dict[RevocationScope, int] = {}
        self.streams: list[Verifier] = []

    @property
    def here(self) -> float:
        return self.clock.at(self.world.now)

    @property
    def is_fresh(self) -> bool:
        return self.here < self.until

    def begin(self) -> None:
        self.world.after(0.0, self._beat)
        self.world.after(0.0, self._follow)
        self.world.after(self.world.random.uniform(0.3, 1), self._resolve)

    def _resolve(self) -> None:
        """Now and then ask where the primary is; no answer while cut off from it."""
        node = self.world.nodes[self.world.primary]
        if (self.name, node.name) not in self.world.cuts and node is not self.node:
            self.node = node
        self.world.after(self.world.random.uniform(0.3, 1.5), self._resolve)

    def call(self, act: Callable[[Content], None], done: Callable[[int], None]) -> None:
        """One fenced step at the node: it happens and `done` hears of it, or something is lost and nothing is heard."""
        node, gen = self.node, self.gen

        def at_node() -> None:
            held = node.held
            if node.is_primary and held.gen == gen and held.run == node.incarnation:
                node.write(act, lambda replicas: self.world.send(node.name, self.name, lambda: done(replicas)))
            elif node.is_primary:
                found = held.copy()
                self.world.send(node.name, self.name, lambda: self._claim_or_adopt(node, found))

        self.world.send(self.name, node.name, at_node)

    def _claim_or_adopt(self, node: Node, found: Content) -> None:
        if node is not self.node or (found.gen == self.gen and found.run == node.incarnation):
            return
        if found.run == node.incarnation:  # claimed by another; the gen that this broker was in is over
            self._enter(found.gen)
            return
        gen = max(
            found.gen + 1, self.gen + 1, int(self.world.now * 1e6)
        )  # of the clock, so that no two claims share one
        known = dict(self.known)

        def at_node() -> None:
            held = node.held
            if not node.is_primary or (held.gen, held.seq, held.run) != (found.gen, found.seq, found.run):
                return

            def claim(held: Content) -> None:
                for scope, seq in known.items():
                    held.marks[scope] = max(seq, held.marks.get(scope, 0))
                held.gen, held.run, held.feed = gen, node.incarnation, ()
                held.seq = max([held.seq, *held.marks.values()]) + 1000

            node.write(claim, lambda _: self.world.send(node.name, self.name, lambda: self._enter(gen)))

        self.world.send(self.name, node.name, at_node)

    def _enter(self, gen: int) -> None:
        if gen > self.gen:
            self.gen, self.until, self.gen_since, self.gen_known = gen, 0.0, None, self.here
            if self.world.random.random() < 0.5:
                self.revoke(self.world.random.choice(ACCOUNTS))

    def _beat(self) -> None:
        sent, gen = self.here, self.gen

        def done(replicas: int) -> None:
            if replicas >= self.world.rules.required_replicas and gen == self.gen:
                self.until = max(self.until, sent + LEASE_SECONDS)
                self.gen_since = self.here if self.gen_since is None else self.gen_since
                if not self.view.is_lost and self.view.gen == gen:
                    self._tell(Heartbeat(gen, self.view.seq))

        self.call(lambda held: None, done)
        self.world.after(RENEW_SECONDS / self.clock.rate, self._beat)

    def _follow(self) -> None:
        """Read the feed; what was read is passed on in its order."""
        node, gen = self.node, self.gen

        def at_node() -> None:
            held = node.held
            if held.gen != gen or held.run != node.incarnation:
                return
            after = self.view.seq if self.view.gen == gen and not self.view.is_lost else None
            snapshot = Snapshot(gen, held.seq, dict(held.marks), {VERSION: "canary"})
            news = tuple(change for change in held.feed if after is not None and change.seq > after)
            self.world.send(node.name, self.name, lambda: self._read(snapshot, news))

        self.world.send(self.name, node.name, at_node)
        self.world.after(self.world.random.uniform(0.01, 0.15), self._follow)

    def _read(self, snapshot: Snapshot, news: tuple[Change, ...]) -> None:
        if self.view.is_lost or snapshot.gen != self.view.gen:
            self._take(snapshot)
        for change in news:
            self._take(change)

    def _take(self, event: Event) -> None:
        before = self.view.point
        self.view.take(event)
        if not self.view.is_lost and self.view.point > before:
            for scope, seq in self.view.marks.items():
                self.known[scope] = max(seq, self.known.get(scope, 0))
            self._tell(event)

    def _tell(self, event: Event) -> None:
        for verifier in self.streams:
            self.world.send(self.stream, verifier.name, lambda verifier=verifier: verifier.hear(self, event))  # type: ignore[misc]

    def connect(self, verifier: Verifier) -> None:
        for other in self.world.brokers:
            other.streams = [one for one in other.streams if one is not verifier]
        self.streams.append(verifier)
        if not self.view.is_lost:
            view = self.view
            event = Snapshot(view.gen, view.seq, dict(view.marks), dict(view.versions))
            self.world.send(self.stream, verifier.name, lambda: verifier.hear(self, event))

    def mint(self) -> None:
        account = self.world.random.choice(ACCOUNTS)
        if not self.is_fresh:
            return

        def act(held: Content) -> None:
            self.world.credentials.append(Credential(held.gen, held.seq, account))

        self.call(act, lambda _: None)

    def renew(
        self, verifier: str, applied: Point, answer: Callable[[Point], None], *, ambushed: Verifier | None
    ) -> None:
        """POST /revocations/lease."""
        if not self.is_fresh:
            return
        granted: list[Point] = []

        def act(held: Content) -> None:
            held.holders[verifier] = Holder(verifier, "client", applied)
            granted.append(Point(held.gen, held.seq))
            if ambushed is not None:
                self.world.ambush(ambushed, self)

        def done(replicas: int) -> None:
            if replicas >= self.world.rules.required_replicas and granted:
                answer(granted[0])

        self.call(act, done)

    def revoke(self, account: RevocationScope) -> None:
        """A revocation that waits for its receipt."""
        acted: list[Point] = []

        def act(held: Content) -> None:
            held.seq += 1
            held.marks[account] = held.seq
            held.feed = (*held.feed, Change(held.gen, held.seq, {account: held.seq}))
            acted.append(Point(held.gen, held.seq))

        def done(replicas: int) -> None:
            if acted:
                point = acted.pop()
                self.known[account] = max(point.seq, self.known.get(account, 0))
                self._watch(point, account, self.here)

        self.call(act, done)

    def _watch(self, point: Point, account: RevocationScope, since: float) -> None:
        """Look at who holds leases until nobody can act on what was before."""
        rules = self.world.rules
        is_given: list[bool] = []

        def consider(holders: tuple[Holder, ...] | None) -> None:
            elapsed = self.here - since
            over = elapsed >= rules.receipt_after
            # who holds a lease of an earlier gen stands in no list of this one: a young gen waits for all of them
            match rules.young_gen:
                case "waits from its first replicated write":
                    if self.gen_since is None or self.here - self.gen_since < rules.receipt_after:
                        return
                case "waits from when it was heard of":
                    if not over and (self.gen_known is None or self.here - self.gen_known < rules.receipt_after):
                        return
            if not over and holders is None:
                return
            spent = receipt_seconds(LEASE_SECONDS) if over else 0.0
            found = receipt(point, holders or (), elapsed=spent, lease_seconds=LEASE_SECONDS)
            if found.is_complete and not is_given:
                is_given.append(True)
                self.world.gives_receipt(point, account)

        def ask() -> None:
            if is_given:
                return
            if self.here - since < rules.receipt_after:
                seen: list[tuple[Holder, ...]] = []
                self.call(lambda held: seen.append(tuple(held.holders.values())), lambda _: consider(seen[-1]))
                self.world.after(0.05, ask)
            else:
                consider(None)
                self.world.after(0.05, ask)

        ask()
        self.world.after((rules.receipt_after - (self.here - since)) / self.clock.rate + 1e-9, lambda: consider(None))
