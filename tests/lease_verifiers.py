"""The verifiers of the lease simulation: they accept by the real view and the real leases of `domain/revocation`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.domain.revocation.feed import Event, Point
from broker.domain.revocation.lease import LEASE_SECONDS, RENEW_SECONDS, Leases
from broker.domain.revocation.view import RevocationView, Standing

from lease_brokers import Broker
from lease_rules import VERSION, Credential, Gone

if TYPE_CHECKING:
    from lease_world import World


class Verifier:
    """Accepts by the real view and leases, counted on its own clock."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.name = f"verifier-{number}"
        self.clock = world.clock()
        self.view = RevocationView()
        self.leases = Leases()
        self.saved = Point(0, 0)
        self.is_ambushed = False
        self.life = 0
        self.heard_at = 0.0
        self.stream = world.brokers[0]

    @property
    def here(self) -> float:
        return self.clock.at(self.world.now)

    def begin(self) -> None:
        self._connect()
        self._renew(self.life)
        self._look()

    def restart(self) -> None:
        """Another process, another clock; what it had on disk may lag behind what it knew."""
        self.saved = self.view.floor if self.world.random.random() < 0.7 else self.saved
        self.life += 1
        self.clock = self.world.clock()
        self.view = RevocationView(floor=self.saved)
        self.leases = Leases()
        self._connect()
        self._renew(self.life)

    def _connect(self) -> None:
        self.stream = broker = self.world.random.choice(self.world.brokers)
        self.heard_at = self.here
        self.world.send(self.name, broker.name, lambda: broker.connect(self))

    def hear(self, broker: Broker, event: Event) -> None:
        # events of a stream that was given up still come: nothing may hang on their order
        self.view.take(event)
        self.heard_at = self.here
        if self.view.is_lost and broker is self.stream:
            self._connect()

    def _renew(self, life: int) -> None:
        if life != self.life:
            return
        sent, broker = self.here, self.world.random.choice(self.world.brokers)
        applied = self.view.point
        ambushed, self.is_ambushed = (self if self.is_ambushed else None), False

        late = self.world.random.uniform(0, 1.5) if ambushed and self.world.random.random() < 0.5 else 0.0

        def answer(point: Point) -> None:
            def come() -> None:
                self.world.after(late, lambda: self._granted(life, point, sent))

            self.world.send(broker.name, self.name, come)

        self.world.send(self.name, broker.name, lambda: broker.renew(self.name, applied, answer, ambushed=ambushed))
        if self.here - self.heard_at > 1.0 or self.view.is_lost:
            self._connect()
        self.world.after(RENEW_SECONDS / self.clock.rate, lambda: self._renew(life))

    def _granted(self, life: int, point: Point, sent: float) -> None:
        if life != self.life:
            return
        rules = self.world.rules
        self.leases.grant(
            point if rules.binds_lease else self.view.point,
            sent_at=sent if rules.counts_from_sending else self.here,
            lease_seconds=LEASE_SECONDS,
            view=self.view,
        )
        if point.gen != self.view.gen:
            self._connect()

    def _look(self) -> None:
        self.probe(self.world.gone[-6:])
        if self.world.credentials:
            self.world.accepted += self.accepts(self.world.credentials[-1])
        self.world.after(0.13, self._look)

    def accepts(self, one: Credential) -> bool:
        if not self.leases.is_fresh(self.view, now=self.here):
            return False
        standing = self.view.judge(
            gen=one.gen, rseq=one.rseq, keys=(), versions=(VERSION,), scopes=lambda: (one.account,)
        )
        return standing is Standing.ALIVE

    def probe(self, gone: list[Gone] | tuple[Gone, ...]) -> None:
        """Count what is accepted though a receipt was given."""
        if gone and self.leases.is_fresh(self.view, now=self.here):
            recent = self.world.credentials[-20:]
            self.world.stale += any(one.covers(other) and self.accepts(other) for one in gone for other in recent)
