"""The store behind the three ports `CredentialStore`, `VersionStore` and `StoreFence`, over one connection.

What must have reached replicas goes over a second one (`replicated.py`), and only where replicas are required.
"""

from __future__ import annotations

from typing import Final

from redis.crc import key_slot

from broker.adapters.redis.advised import Advised, ClusterNodes, Sentinels
from broker.adapters.redis.connection import Protocol, StorePlace, dialer, parse_place
from broker.adapters.redis.credentials import RedisCredentials
from broker.adapters.redis.feed import RedisFeed
from broker.adapters.redis.incarnation import RedisFence
from broker.adapters.redis.keys import TenantKeys, tenant_keys
from broker.adapters.redis.pipeline import Pipeline
from broker.adapters.redis.replicated import Replicated
from broker.adapters.redis.session import Session
from broker.adapters.redis.topology import OneAddress, Topology
from broker.adapters.redis.versions import RedisVersions
from broker.domain.errors import ConfigurationError

LONGEST_WAIT_SECONDS: Final = 2.0
"""How long a reader of the feed may wait for a step."""


class RedisStore:
    """One tenant of a Redis or Valkey server; connects when it is first used.

    call_seconds: the longest that a call may take, reconnecting included; connect_seconds: for a connection alone.
    queue_limit: how many calls may wait at once. protocol: RESP 2 or 3, which makes no difference but on the wire.
    required_replicas: how many replicas must have a step of `replicated` before it counts; None for 1 where a primary may
    be replaced by a replica of its own accord (sentinels, a cluster), else 0.
    Raises `ConfigurationError` for an unusable URL or tenant.
    """

    def __init__(
        self,
        url: str,
        tenant: str,
        *,
        call_seconds: float = 1.0,
        connect_seconds: float = 1.0,
        queue_limit: int = 10_000,
        protocol: Protocol = 2,
        required_replicas: int | None = None,
    ) -> None:
        try:
            keys = tenant_keys(tenant)
        except ValueError:
            raise ConfigurationError("tenant: 1 to 32 of a-z, 0-9 and -, a letter first") from None
        place = parse_place(url)
        if required_replicas is None:
            required_replicas = 0 if place.kind == "address" else 1
        topology = _topology(place, keys, connect_seconds=connect_seconds, protocol=protocol)
        self._pipeline = Pipeline(topology, call_seconds=call_seconds, queue_limit=queue_limit)
        self._session = session = Session(self._pipeline, keys)
        waiting = (
            Pipeline(topology, call_seconds=call_seconds, queue_limit=queue_limit, replicas=required_replicas)
            if required_replicas
            else None
        )
        self.replicated = Replicated(session, waiting, required=required_replicas, count_seconds=call_seconds / 2)
        self._listening = Pipeline(topology, call_seconds=call_seconds + LONGEST_WAIT_SECONDS, queue_limit=queue_limit)
        self._fence = fence = RedisFence(session, required_replicas=required_replicas, can_move=topology.can_move)
        credentials, versions = RedisCredentials(session), RedisVersions(session, self.replicated)
        # the ports' methods, bound once: no call on the hot road passes through another layer
        self.issue = credentials.issue
        self.inquire = credentials.inquire
        self.release = credentials.release
        self.take = credentials.take
        self.view = versions.view
        self.change = versions.change
        self.revoke = versions.revoke
        self.marks = versions.marks
        self.inspect = fence.inspect
        self.adopt = fence.adopt
        self.claim = fence.claim
        self.pending = fence.pending
        self.acknowledge = fence.acknowledge
        self.feed = RedisFeed(session, self.replicated, self._listening)

    @property
    def gen(self) -> int:
        """The incarnation that is spoken to; 0 for none."""
        return self._session.gen

    @property
    def calls(self) -> int:
        """How many commands went to the store, repeats included."""
        return self._pipeline.calls

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the last inspection found worth an operator's attention."""
        return self._fence.warnings

    async def close(self) -> None:
        """Close the connections; calls that still wait fail."""
        await self._pipeline.close()
        await self._listening.close()
        await self.replicated.close()


def _topology(place: StorePlace, keys: TenantKeys, *, connect_seconds: float, protocol: Protocol) -> Topology:
    dial = dialer(place.settings, connect_seconds=connect_seconds, protocol=protocol)
    if place.kind == "address":
        return OneAddress(dial)
    sentinels = place.kind == "sentinel"
    return Advised(
        Sentinels(place.hosts, place.name) if sentinels else ClusterNodes(place.hosts, key_slot(keys.control)),
        dial=dial,
        dial_adviser=dialer(place.asking, connect_seconds=connect_seconds, protocol=protocol),
        connect_seconds=connect_seconds,
    )
