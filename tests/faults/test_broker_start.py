"""A broker that is stopped, or asked to load its policy again, before it has started."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_parts import BrokerProcess, PolicyTree, free_port, wait_until
from store_parts import PATIENCE_SECONDS


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    made = BrokerProcess(tmp_path)
    try:
        yield made
    finally:
        made.remove()


def launch_until(broker: BrokerProcess, file: str) -> None:
    """Launch it, and wait until it has come as far as to make this file."""
    broker.launch()
    wait_until((broker.data / file).exists, what=f"{file} is there")


@pytest.mark.parametrize(
    ("number", "file"),
    [
        (signal.SIGTERM, "store/broker.lock"),
        (signal.SIGTERM, "store/store.sock"),
        (signal.SIGTERM, "audit/log.sqlite"),
        (signal.SIGINT, "keys"),
    ],
)
def test_a_signal_while_it_starts_ends_it_in_order_and_leaves_nothing_running(
    broker: BrokerProcess, number: signal.Signals, file: str
) -> None:
    launch_until(broker, file)
    assert broker.stop(number) == 0
    assert "Traceback" not in broker.said()
    lock = broker.data / "store" / "server.lock"
    if lock.exists() and lock.read_text():
        with pytest.raises(ProcessLookupError):
            os.kill(broker.store_pid(), 0)
    broker.start()
    assert broker.stop() == 0


def test_a_wish_to_load_the_policy_again_does_not_end_a_broker_that_starts(broker: BrokerProcess) -> None:
    launch_until(broker, "store/broker.lock")
    assert broker.process is not None
    broker.process.send_signal(signal.SIGHUP)
    wait_until(broker.is_ready, seconds=40, what="the broker becomes ready")
    wait_until(lambda: " loaded\n" in broker.said(), what="the policy is loaded again")
    assert broker.stop() == 0


def serve(*options: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """`broker serve` that is expected to end by itself."""
    command = [sys.executable, "-m", "broker.cli.main", "serve", *options]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BROKER_")}
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )


@pytest.mark.parametrize(
    ("issuer", "says"),
    [
        ("broker.example", "an https URL without query"),
        ("https://[::1", "a URL such as https://broker.example was expected"),
        ("https://broker.example:abc", "a URL such as https://broker.example was expected"),
        ("https://broker.example:99999", "a URL such as https://broker.example was expected"),
        ("https://broker.example/?a=b", "an https URL without query"),
        ("https://bro ker.example", "an https URL without query"),
        ("https://a..example", "an https URL without query"),
        ("https://me:pw@broker.example", "leave user and password out"),
        ("https://broker.example/", "leave the trailing slash out"),
        ("http://broker.example", "plain http is for loopback only"),
    ],
)
def test_an_issuer_that_is_no_base_url_is_said_so_before_anything_is_made(
    tmp_path: Path, issuer: str, says: str
) -> None:
    ended = serve("--issuer", issuer, cwd=tmp_path)
    assert ended.returncode == 3
    assert ended.stderr.startswith("broker: --issuer ")
    assert says in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--peer", "https://other.example"), "--peer: replicas share a store; name it with --store"),
        (("--required-replicas", "1"), "--required-replicas: the embedded store has no replicas"),
        (("--peer", "other.example", "--store", "unix:///nowhere"), "--peer 'other.example': an https URL"),
    ],
)
def test_replicas_that_cannot_be_are_said_so_before_anything_is_made(
    tmp_path: Path, options: tuple[str, ...], says: str
) -> None:
    ended = serve(*options, cwd=tmp_path)
    assert (ended.returncode, list(tmp_path.iterdir())) == (3, [])
    assert says in ended.stderr


def test_an_address_that_is_taken_says_how_to_go_on(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        ended = serve("--port", str(other.getsockname()[1]), cwd=tmp_path)
    assert ended.returncode == 3
    assert "end what listens there, or name another --port" in ended.stderr
    assert list(tmp_path.iterdir()) == []


def policies(folder: Path) -> str:
    return str(PolicyTree(folder / "policies").folder)


@pytest.mark.parametrize(
    ("store", "code", "says"),
    [
        ("redis://u:secretpw@127.0.0.1:1", 4, "the store cannot be reached (127.0.0.1:1); is it running"),
        ("unix:///nowhere/store.sock", 4, "the store cannot be reached (/nowhere/store.sock); is it running"),
        ("redis://u:secretpw@[::1", 3, "store: the URL is not well formed"),
        (
            "sentinel://u:secretpw@127.0.0.1:1,127.0.0.1:2/brokers?sentinel_password=secretpw",
            *(4, "none of the sentinels answers (brokers by the sentinels 127.0.0.1:1, 127.0.0.1:2); is it running"),
        ),
        (
            "cluster://u:secretpw@127.0.0.1:1",
            4,
            "none of the nodes of the cluster answers (the cluster at 127.0.0.1:1)",
        ),
    ],
)
def test_a_store_that_is_not_there_is_said_with_its_address_and_without_its_password(
    tmp_path: Path, store: str, code: int, says: str
) -> None:
    ended = serve("--policies", policies(tmp_path), "--port", str(free_port()), "--store", store, cwd=tmp_path)
    assert ended.returncode == code
    assert says in ended.stderr
    assert "secretpw" not in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_store_url_that_leads_to_something_else_says_so(tmp_path: Path, broker: BrokerProcess) -> None:
    broker.start()
    store = f"redis://127.0.0.1:{broker.port}"
    ended = serve("--policies", str(broker.policies.folder), "--port", str(free_port()), "--store", store, cwd=tmp_path)
    assert ended.returncode == 4
    assert "neither Redis nor Valkey" in ended.stderr


def test_a_data_folder_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = serve("--policies", policies(tmp_path), "--port", str(free_port()), "--data", "file/data", cwd=tmp_path)
    assert ended.returncode == 3
    assert f"{tmp_path / 'file/data/store'} (Not a directory); name another with --data" in ended.stderr
