"""Groups of real servers on loopback: a primary with replicas and sentinels, and a cluster of six nodes."""

from __future__ import annotations

import contextlib
import hashlib
import re
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis as redis_py
from broker.adapters.redis.keys import tenant_keys
from redis.crc import key_slot

from store_parts import PATIENCE_SECONDS, StoreProcess, free_ports, new_tenant, valkey_program

DEPLOY = Path(__file__).parents[1] / "deploy"
NAME = "brokers"
NODE = ("--bind", "127.0.0.1", "--repl-diskless-sync-delay", "0", "--repl-timeout", "10")


def wait_for(condition: Callable[[], Any], what: str) -> None:
    """Wait for a condition of a server, with a deadline; a server that does not answer yet is one of them."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            if condition():
                return
        except redis_py.RedisError:
            pass
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


def _start(servers: list[StoreProcess]) -> None:
    """All at once, and not from threads: a server dies with the thread that started it."""
    for server in servers:
        server.launch()
    for server in servers:
        server.ready()


def _online(admin: Any) -> int:
    info = admin.info("replication")
    return sum(info[name]["state"] == "online" for name in info if re.fullmatch(r"slave\d", name))


class SentinelGroup:
    """Three sentinels that watch a primary with two replicas, everybody under the users that `deploy/` ships.

    The tests themselves come in as the default user.
    """

    def __init__(self) -> None:
        ports = free_ports(6)
        self.ports = ports[:3]
        self.sentinel_ports = ports[3:]
        program = valkey_program()
        self.secret = secrets.token_urlsafe(16)
        own = ("--masteruser", "replica", "--masterauth", self.secret)
        self.nodes = [StoreProcess(program, *NODE, *own, "--port", str(port)) for port in self.ports]
        for node in self.nodes:
            users = node.folder / "users.acl"
            users.write_text("\n".join(self._users("store.acl")) + "\n")
            node.settings += ("--aclfile", str(users))
        for node in self.nodes[1:]:
            node.settings += ("--replicaof", f"127.0.0.1 {ports[0]}")
        self.sentinels = [StoreProcess(program, sentinel=self._settings(port)) for port in self.sentinel_ports]
        _start(self.nodes)
        with self.nodes[0].admin() as admin:
            wait_for(lambda: _online(admin) == 2, "no replicas")  # or the sentinels hear of them 10 s later
        _start(self.sentinels)
        for sentinel in self.sentinels:
            with sentinel.admin() as admin:
                wait_for(lambda admin=admin: self._is_complete(admin), "the sentinels do not find each other")

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.sentinel_ports)
        own = f"sentinel_username=broker&sentinel_password={self.secret}"
        return f"sentinel://broker:{self.secret}@{hosts}/{NAME}?{own}"

    @property
    def primary(self) -> StoreProcess:
        """The node that most sentinels name."""
        named = [self._named(sentinel) for sentinel in self.sentinels]
        return self.nodes[self.ports.index(max(set(named), key=named.count))]

    def port_of(self, node: StoreProcess) -> int:
        return self.ports[self.nodes.index(node)]

    def others(self, node: StoreProcess) -> list[StoreProcess]:
        return [other for other in self.nodes if other is not node]

    def wait_for_another_primary(self, old: StoreProcess) -> StoreProcess:
        wait_for(lambda: self.primary is not old and self._is_primary(self.primary), "no other primary")
        return self.primary

    def remove(self) -> None:
        for one in (*self.sentinels, *self.nodes):
            one.remove()

    def _users(self, file: str) -> list[str]:
        digest = hashlib.sha256(self.secret.encode()).hexdigest()
        lines = (DEPLOY / file).read_text().replace("#DIGEST", f"#{digest}").splitlines()
        return ["user default on nopass ~* &* +@all", *(line for line in lines if line != "user default off")]

    def _settings(self, port: int) -> str:
        users = "\n".join(self._users("sentinel.acl"))
        return f"""\
bind 127.0.0.1
port {port}
{users}
sentinel sentinel-user sentinel
sentinel sentinel-pass {self.secret}
sentinel monitor {NAME} 127.0.0.1 {self.ports[0]} 2
sentinel auth-user {NAME} sentinel
sentinel auth-pass {NAME} {self.secret}
sentinel down-after-milliseconds {NAME} 500
sentinel failover-timeout {NAME} 3000
sentinel parallel-syncs {NAME} 2
"""

    def _is_complete(self, sentinel: Any) -> bool:
        seen = sentinel.execute_command("SENTINEL", "MASTER", NAME)
        return (seen[b"num-other-sentinels"], seen[b"num-slaves"], seen[b"flags"]) == (b"2", b"2", b"master")

    def _named(self, sentinel: StoreProcess) -> int:
        with sentinel.admin() as admin:
            return int(admin.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)[1])

    def _is_primary(self, node: StoreProcess) -> bool:
        with node.admin() as admin:
            return bool(admin.info("replication")["role"] == "master")


class Cluster:
    """Six nodes: three primaries with a third of the slots each, and a replica for each of them."""

    def __init__(self) -> None:
        self.ports = free_ports(6)
        settings = (
            *("--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-replica-validity-factor", "0"),
            *("--cluster-require-full-coverage", "no"),  # or all tenants wait while one of them has no primary
        )
        program = valkey_program()
        self.nodes = [StoreProcess(program, *NODE, *settings, "--port", str(port)) for port in self.ports]
        _start(self.nodes)
        bounds = (0, 5461, 10923, 16384)
        for number, node in enumerate(self.nodes):
            with node.admin() as admin:
                if number < 3:
                    admin.execute_command("CLUSTER", "ADDSLOTSRANGE", bounds[number], bounds[number + 1] - 1)
                admin.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
                for port in self.ports[:number]:
                    admin.execute_command("CLUSTER", "MEET", "127.0.0.1", port)
        self.ids = [self._ask(node, "CLUSTER", "MYID").decode() for node in self.nodes]
        for primary, replica in zip(self.ids[:3], self.nodes[3:], strict=True):
            wait_for(lambda p=primary, r=replica: self._ask(r, "CLUSTER", "REPLICATE", p), "no replica")  # type: ignore[misc]
        for node in self.nodes:
            wait_for(lambda node=node: self.is_complete(node), "the nodes do not find each other")  # type: ignore[misc]

    @property
    def url(self) -> str:
        """Two of the nodes are named, the others are heard of."""
        return f"cluster://127.0.0.1:{self.ports[0]},127.0.0.1:{self.ports[4]}"

    def holder(self, tenant: str) -> StoreProcess:
        """The primary that holds a tenant's slot, as most nodes see it."""
        slot = slot_of(tenant)
        named: list[int] = []
        for node in self.nodes:
            try:
                slots = self._ask(node, "CLUSTER", "SLOTS")
            except redis_py.RedisError:
                continue
            named += [entry[2][1] for entry in slots if entry[0] <= slot <= entry[1]]
        return self.nodes[self.ports.index(max(set(named), key=named.count))]

    def replica_of(self, primary: StoreProcess) -> StoreProcess:
        with primary.admin() as admin:
            port = int(admin.info("replication")["slave0"]["port"])
        return self.nodes[self.ports.index(port)]

    def id_of(self, node: StoreProcess) -> str:
        return self.ids[self.nodes.index(node)]

    def begin_to_move(self, slot: int, source: StoreProcess, target: StoreProcess) -> None:
        self._ask(target, "CLUSTER", "SETSLOT", str(slot), "IMPORTING", self.id_of(source))
        self._ask(source, "CLUSTER", "SETSLOT", str(slot), "MIGRATING", self.id_of(target))

    def move_keys(self, slot: int, source: StoreProcess, target: StoreProcess) -> None:
        port = str(self.ports[self.nodes.index(target)])
        while keys := self._ask(source, "CLUSTER", "GETKEYSINSLOT", str(slot), "1000"):
            self._ask(source, "MIGRATE", "127.0.0.1", port, "", "0", "5000", "KEYS", *keys)

    def end_move(self, slot: int, target: StoreProcess) -> None:
        for node in (target, *self.nodes):
            with contextlib.suppress(redis_py.ResponseError):  # replicas are told by their primaries
                self._ask(node, "CLUSTER", "SETSLOT", str(slot), "NODE", self.id_of(target))

    def is_complete(self, node: StoreProcess) -> bool:
        with node.admin() as admin:
            info = admin.cluster("info")
            link = admin.info("replication")
            mine = link["role"] == "slave" and link["master_link_status"] == "up"
            whole = info["cluster_state"] == "ok" and info["cluster_known_nodes"] == "6"
            return whole and (mine or bool(link["connected_slaves"]))

    def remove(self) -> None:
        for node in self.nodes:
            node.remove()

    @staticmethod
    def _ask(node: StoreProcess, *command: str | bytes) -> Any:
        with redis_py.Redis(unix_socket_path=str(node.socket), socket_timeout=0.5) as admin:
            admin.response_callbacks.clear()
            return admin.execute_command(*command)


def slot_of(tenant: str) -> int:
    return key_slot(tenant_keys(tenant).control)


def tenant_in(slots: range) -> str:
    """A new tenant whose slot is one of these."""
    while True:
        tenant = new_tenant()
        if slot_of(tenant) in slots:
            return tenant


def cut_off(primary: StoreProcess, replicas: list[StoreProcess]) -> None:
    """From now on nothing that the primary does reaches its replicas: they are frozen, and their connections closed."""
    for replica in replicas:
        replica.freeze()
    with primary.admin() as admin:
        admin.execute_command("CLIENT", "KILL", "TYPE", "REPLICA")
        wait_for(lambda: admin.info("replication")["connected_slaves"] == 0, "the replicas are not cut off")
