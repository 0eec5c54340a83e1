"""A receipt in a gen of which no replica has acknowledged anything yet proves nothing, however long ago the store acted.

Until then the replica may still follow the primary of the gen before, which goes on granting leases with its help. From the
first write on that it has acknowledged in this gen, nobody is granted a lease of another.
"""

from __future__ import annotations

import time
from pathlib import Path

from broker.domain.revocation.feed import Point
from broker.domain.revocation.lease import LEASE_SECONDS, receipt_seconds
from broker.domain.revocation.scopes import EVERYTHING
from broker.services.receipts import Receipts

from composed_broker import composed
from store_parts import StoreProcess, listen, new_jti, until, valkey_program

LONG_SECONDS = 100.0


class Clock:
    """A monotonic clock that shows what it is set to."""

    def __init__(self) -> None:
        self.at = time.monotonic()

    def __call__(self) -> float:
        return self.at


async def test_time_counts_from_the_first_write_that_a_replica_has(tmp_path: Path) -> None:
    primary = StoreProcess(valkey_program(), "--repl-diskless-sync-delay", "0").start()
    replica = StoreProcess(valkey_program()).start()
    port = listen(primary)
    try:
        async with composed(tmp_path, store=primary.url, required_replicas=1) as (parts, _):
            clock = Clock()
            receipts = Receipts(following=parts.following, leases=parts.store.feed, monotonic=clock)
            applied = await parts.store.revoke((EVERYTHING,), id=new_jti(), intent=b"{}")
            acted_at, point = clock(), Point(applied.gen, applied.seq)
            await until(lambda: parts.following.reached_at(point) is not None)

            clock.at = acted_at + LONG_SECONDS
            found = await receipts.standing(point, acted_at=acted_at)
            assert not found.is_complete, "no replica has anything of this gen"

            with replica.admin() as admin:
                admin.execute_command("REPLICAOF", "127.0.0.1", port)
            await until(lambda: parts.following.gen_proved_since() is not None)
            proved_at = parts.following.gen_proved_since()
            assert proved_at is not None
            clock.at = proved_at + LEASE_SECONDS
            found = await receipts.standing(point, acted_at=acted_at)
            assert not found.is_complete, "who holds a lease of the gen before may use it still"
            clock.at = proved_at + receipt_seconds(LEASE_SECONDS) + 0.001  # the sum of the two may be rounded down
            assert (await receipts.standing(point, acted_at=acted_at)).is_complete
    finally:
        primary.remove()
        replica.remove()
