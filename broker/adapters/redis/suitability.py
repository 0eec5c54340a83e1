"""Whether a server can keep the store's promises, from what it says of itself.

| asked of INFO                 | unsuitable                      | why                                            |
|-------------------------------|---------------------------------|------------------------------------------------|
| redis_version, valkey_version | below Redis 7.0, below Valkey 8 | no function library that survives a restart    |
| maxmemory_policy              | anything but noeviction         | an evicted revocation would revive credentials |
| role                          | a replica                       | it cannot write, and may lag                   |

Worth a warning, since a new claim and the audit log make up for it: no append-only file, one that is not synced at each
write, a clock apart from ours (credentials and used-up assertions expire by the store's clock).

Of replication (`required` is how many replicas must have a write before the broker holds a lease on the store):

| found                                     | warning, because                                                            |
|-------------------------------------------|-----------------------------------------------------------------------------|
| replicas, none required                   | one that is promoted may lack a revocation that was acknowledged            |
| fewer replicas than required              | no lease, so nothing is minted                                              |
| more than twice as many as required       | a cut-off primary with some of them and a promoted one could both hold on   |
| min-replicas-to-write                     | it refuses a rollback too, where replicas are missing; the lease does not   |
| a cluster's node named by its own address | it is not found again once the tenant's slot is elsewhere                   |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker.domain.errors import StoreUnsuitableError

_OLDEST_REDIS: Final = (7, 0)
_OLDEST_VALKEY: Final = (8, 0)
_CLOCK_SECONDS: Final = 5


def parse_info(text: bytes) -> dict[str, str]:
    """The fields of an INFO answer, of all sections."""
    lines = (line.partition(":") for line in text.decode("utf-8", "replace").splitlines() if not line.startswith("#"))
    return {name: value.strip() for name, colon, value in lines if colon}


def check(info: Mapping[str, str]) -> None:
    """Raises `StoreUnsuitableError`, which says how to mend it."""
    name, version, oldest = "Redis", info.get("redis_version", ""), _OLDEST_REDIS
    if "valkey_version" in info:
        name, version, oldest = "Valkey", info["valkey_version"], _OLDEST_VALKEY
    if _numbers(version) < oldest:
        raise StoreUnsuitableError(
            f"the store is {name} {version or 'of no known version'}; it must be Redis 7.0, Valkey 8 or newer"
        )
    policy = info.get("maxmemory_policy", "unknown")
    if policy != "noeviction":
        raise StoreUnsuitableError(
            f"the store evicts keys (maxmemory-policy {policy}): a lost revocation would revive credentials; "
            "set maxmemory-policy noeviction"
        )
    if info.get("role") != "master":
        raise StoreUnsuitableError("the store is a replica; name the primary in the store's URL")


def warnings(info: Mapping[str, str], *, appendfsync: str | None, clock_apart_seconds: float) -> tuple[str, ...]:
    """What an operator should know; appendfsync is None where the server does not tell."""
    found = []
    if info.get("aof_enabled") != "1":
        found.append(
            "the store has no append-only file: after a restart it is empty, and is refilled from the audit log"
        )
    elif appendfsync not in (None, "always"):
        found.append(
            f"the store syncs its file with appendfsync {appendfsync}: a crash may lose its last steps, "
            "which are then refilled from the audit log"
        )
    if abs(clock_apart_seconds) > _CLOCK_SECONDS:
        found.append(f"the store's clock is {clock_apart_seconds:+.0f} s apart from this machine's: mend the clocks")
    return tuple(found)


def replication_warnings(info: Mapping[str, str], *, required: int, can_move: bool) -> tuple[str, ...]:
    """What an operator should know of the store's replicas."""
    found = []
    spelled = info.get("connected_slaves", "0")
    replicas = int(spelled) if spelled.isdecimal() else 0
    if replicas and not required:
        found.append(
            f"the store has {replicas} replica(s) and none is waited for: one that is promoted may lack what was "
            "acknowledged; set --required-replicas to at least half of them"
        )
    elif replicas < required:
        found.append(
            f"the store has {replicas} replica(s), {required} must acknowledge a write (--required-replicas): "
            "nothing is minted before there are so many"
        )
    elif replicas > 2 * required:
        found.append(
            f"the store has {replicas} replicas, of which {required} must acknowledge a write: after a network split two "
            "primaries could both have so many; set --required-replicas to at least half of them"
        )
    if "min_slaves_good_slaves" in info:
        found.append(
            "the store has min-replicas-to-write: where replicas are missing it refuses rollbacks too; set it to 0, the "
            "broker itself stops minting then"
        )
    if info.get("cluster_enabled") == "1" and not can_move:
        found.append(
            "the store is one node of a cluster, named by its own address: once the tenant's slot is elsewhere it is not "
            "found; name the cluster by cluster://"
        )
    return tuple(found)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
