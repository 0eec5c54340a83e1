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

from broker_parts import BrokerProcess, wait_until
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


def test_an_address_that_is_taken_says_how_to_go_on(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        ended = serve("--port", str(other.getsockname()[1]), cwd=tmp_path)
    assert ended.returncode == 3
    assert "end what listens there, or name another --port" in ended.stderr
    assert list(tmp_path.iterdir()) == []
