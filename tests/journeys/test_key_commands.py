"""`broker key …` against a running broker: which key signs, another one, and one that leaked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest

from broker_parts import BrokerProcess, pem_of, read_log, wait_until


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    made = BrokerProcess(tmp_path_factory.mktemp("broker")).start()
    made.wire.serve("ticket.edit@1")
    yield made
    made.remove()


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("admin") / "operator.pem"
    path.write_bytes(pem_of("operator"))
    return path


def run(broker: BrokerProcess, key: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BROKER_")}
    reach = ("--url", broker.url, "--admin", "operator", "--key", str(key))
    command = [sys.executable, "-m", "broker.cli.main", "key", *words, *reach]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)


def states(broker: BrokerProcess, key: Path) -> dict[str, str]:
    ended = run(broker, key, "list", "--json")
    assert ended.returncode == 0, ended.stderr
    return {one["kid"]: one["state"] for one in json.loads(ended.stdout)["keys"]}


def signing(broker: BrokerProcess, key: Path) -> str:
    (kid,) = [kid for kid, state in states(broker, key).items() if state == "signs"]
    return kid


def kid_of(token: str) -> Any:
    return jwt.get_unverified_header(token)["kid"]


def published(broker: BrokerProcess) -> set[str]:
    return {one["kid"] for one in broker.wire.http.get("/jwks.json").json()["keys"]}


def test_a_new_key_signs_and_what_the_old_one_signed_stays_good(broker: BrokerProcess, key: Path) -> None:
    old, before = signing(broker, key), broker.wire.mint()["access_token"]
    ended = run(broker, key, "rotate")
    assert ended.returncode == 0, ended.stderr
    new = signing(broker, key)
    assert ended.stdout == f"{new} signs from now on\n"
    assert states(broker, key)[old] == "verifies"
    after = broker.wire.mint()["access_token"]
    assert (kid_of(before), kid_of(after)) == (old, new)
    assert broker.wire.is_active(before)
    assert broker.wire.is_active(after)
    (made,) = [record for record in read_log(broker) if record["type"] == "key.create" and record["kid"] == new]
    assert made["by"] == "operator"


def test_a_key_that_leaked_is_dead_with_all_that_it_signed_and_stays_so_over_a_restart(
    broker: BrokerProcess, key: Path
) -> None:
    gone, before = signing(broker, key), broker.wire.mint()["access_token"]
    ended = run(broker, key, "revoke", gone, "--reason", "it stood in a bug report")
    assert ended.returncode == 0, ended.stderr
    assert gone in ended.stdout
    assert not broker.wire.is_active(before)
    assert gone not in published(broker)
    after = broker.wire.mint()["access_token"]
    assert kid_of(after) == signing(broker, key) != gone
    assert states(broker, key)[gone] == "retired"
    wait_until(lambda: any(record["type"] == "key.retire" for record in read_log(broker)), what="it is on record")
    broker.stop(signal.SIGKILL)
    broker.start()
    assert gone not in published(broker)
    assert kid_of(broker.wire.mint()["access_token"]) == kid_of(after)
    assert not broker.wire.is_active(before)


def test_a_key_that_the_broker_does_not_have_is_not_revoked(broker: BrokerProcess, key: Path) -> None:
    ended = run(broker, key, "revoke", "nobodys", "--reason", "x")
    assert ended.returncode == 2
    assert "broker key list" in ended.stderr
