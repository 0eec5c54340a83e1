"""The embedded server: one for a directory, dying with its broker, coming back after it died, readable after a crash."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from broker.adapters.redis.embedded import EmbeddedServer
from broker.adapters.redis.folder import SOCKET_PATH_BYTES
from broker.adapters.redis.store import RedisStore
from broker.domain.errors import ConfigurationError, StoreUnavailableError, StoreUnclaimedError
from broker.domain.lifecycle.states import State
from broker.ports.store import Issued

from store_parts import (
    PATIENCE_SECONDS,
    an_issue,
    claim,
    claimed_store,
    new_tenant,
    until,
    valkey_program,
    version_record,
)

BROKER = """
import asyncio, pathlib, sys
from broker.adapters.redis.embedded import EmbeddedServer

async def main():
    server = EmbeddedServer(pathlib.Path(sys.argv[1]))
    await server.start()
    print(server.pid, flush=True)
    await server.supervise()

asyncio.run(main())
"""


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[EmbeddedServer]:
    made = EmbeddedServer(tmp_path)
    await made.start()
    yield made
    await made.stop()


def a_broker(data_dir: Path) -> tuple[subprocess.Popen[str], int]:
    """A process with an embedded server; and the server's process id."""
    broker = subprocess.Popen([sys.executable, "-c", BROKER, str(data_dir)], stdout=subprocess.PIPE, text=True)
    assert broker.stdout is not None
    return broker, int(broker.stdout.readline())


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


async def test_it_keeps_its_promises_to_the_disk_and_to_nobody_outside(tmp_path: Path, server: EmbeddedServer) -> None:
    store = await claimed_store(server.url, new_tenant())
    assert store.warnings == ()
    folder = tmp_path / "store"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for name in ("store.sock", "valkey.conf", "store.log", "broker.lock", "server.lock"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600, name
    listening = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]  # noqa: ASYNC240
    inodes = {line[9] for line in listening if line[3] == "0A"}
    assert server.pid is not None
    held = {os.readlink(f"/proc/{server.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{server.pid}/fd")}
    assert not {f"socket:[{inode}]" for inode in inodes} & held
    await store.close()


async def test_a_second_broker_on_the_directory_is_refused_by_name(tmp_path: Path, server: EmbeddedServer) -> None:
    with pytest.raises(ConfigurationError, match=f"process {os.getpid()}"):
        await EmbeddedServer(tmp_path).start()
    store = RedisStore(server.url, new_tenant())
    await store.inspect()
    await store.close()


async def test_a_server_that_dies_comes_back_as_another_incarnation_with_its_content(server: EmbeddedServer) -> None:
    watching = asyncio.create_task(server.supervise())
    store = await claimed_store(server.url, new_tenant(), call_seconds=5)
    assert isinstance(await store.issue(an_issue()), Issued)
    first = server.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    await until(lambda: server.pid not in (None, first))
    with pytest.raises(StoreUnclaimedError):
        await answer(store)
    assert (await store.inspect()).gseq == 1
    await claim(store, version_record("3", State.STABLE))
    assert isinstance(await store.issue(an_issue()), Issued)
    await store.close()
    await server.stop()
    await watching


async def answer(store: RedisStore) -> object:
    """What the store says once it can be reached again."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return await store.issue(an_issue())
        except StoreUnavailableError:
            if time.monotonic() > deadline:
                raise


async def test_after_stop_the_directory_is_free_and_the_data_is_there(tmp_path: Path) -> None:
    first = EmbeddedServer(tmp_path)
    await first.start()
    pid = first.pid
    store = await claimed_store(first.url, "default")
    await store.issue(an_issue())
    await store.close()
    await first.stop()
    assert pid is not None
    assert first.pid is None
    assert not is_alive(pid)
    second = EmbeddedServer(tmp_path)
    await second.start()
    again = RedisStore(second.url, "default")
    found = await again.inspect()
    assert (found.is_claimed, found.gseq) == (False, 1)
    await again.close()
    await second.stop()


async def test_a_server_that_does_not_end_is_ended(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path)
    await server.start()
    pid = server.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    await server.stop(within_seconds=0.1)
    assert not is_alive(pid)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
async def test_the_server_dies_with_its_broker_however_that_ends(tmp_path: Path) -> None:
    broker, pid = a_broker(tmp_path)
    broker.kill()
    broker.communicate()
    await until(lambda: not is_alive(pid))
    again = EmbeddedServer(tmp_path)
    await again.start()
    await again.stop()


async def test_a_server_that_outlived_its_broker_is_ended_before_another_starts(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    lock = os.open(folder / "server.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    orphan = subprocess.Popen(  # noqa: ASYNC220
        [
            valkey_program(),
            "--port",
            "0",
            "--unixsocket",
            str(folder / "store.sock"),
            "--appendonly",
            "yes",
            "--dir",
            folder,
        ],
        pass_fds=(lock,),
        stdout=subprocess.DEVNULL,
    )
    os.pwrite(lock, str(orphan.pid).encode(), 0)
    os.close(lock)
    server = EmbeddedServer(tmp_path)
    await server.start()
    assert orphan.wait(PATIENCE_SECONDS) == -signal.SIGKILL
    store = RedisStore(server.url, new_tenant())
    await store.inspect()
    await store.close()
    await server.stop()


async def test_a_process_id_left_behind_by_a_crash_ends_nobody(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    (folder / "server.lock").write_text(str(os.getpid()))  # not locked: the server is gone, its number is now ours
    server = EmbeddedServer(tmp_path)
    await server.start()
    await server.stop()


async def test_a_tail_cut_off_by_a_crash_is_let_go_and_the_rest_is_kept(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path)
    await server.start()
    store = await claimed_store(server.url, "default")
    for _ in range(5):
        await store.issue(an_issue())
    await store.close()
    await server.stop()
    (tail,) = (tmp_path / "store" / "appendonlydir").glob("*.incr.aof")
    with tail.open("r+b") as file:
        file.truncate(tail.stat().st_size - 7)
    await server.start()
    again = RedisStore(server.url, "default")
    assert (await again.inspect()).gseq in (4, 5)
    await again.close()
    await server.stop()


async def test_a_file_that_cannot_be_loaded_is_a_failure_that_says_where_to_look(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path)
    await server.start()
    store = await claimed_store(server.url, "default")
    await store.close()
    await server.stop()
    (tail,) = (tmp_path / "store" / "appendonlydir").glob("*.incr.aof")
    tail.write_bytes(b"this is no append-only file" + tail.read_bytes())
    with pytest.raises(StoreUnavailableError, match=r"store\.log"):
        await server.start()
    assert server.pid is None


async def test_a_long_path_puts_the_socket_into_a_private_directory(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * SOCKET_PATH_BYTES)
    server = EmbeddedServer(deep)
    await server.start()
    at = Path(server.url.removeprefix("unix://"))
    assert len(os.fsencode(at)) <= SOCKET_PATH_BYTES
    assert stat.S_IMODE(at.parent.stat().st_mode) == 0o700
    store = RedisStore(server.url, new_tenant())
    await store.inspect()
    await store.close()
    await server.stop()
    assert not at.parent.exists()


async def test_a_directory_with_odd_letters_works(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path / 'with space, "quote", #, % and ü')
    await server.start()
    store = RedisStore(server.url, new_tenant())
    await store.inspect()
    await store.close()
    await server.stop()


async def test_a_directory_that_cannot_be_used_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="data directory"):
        await EmbeddedServer(tmp_path / "file").start()


async def test_a_socket_left_behind_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(tmp_path / "store" / "store.sock"))
    server = EmbeddedServer(tmp_path)
    await server.start()
    await server.stop()
