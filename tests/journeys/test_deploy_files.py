"""What `deploy/` ships works outside a container, too: its secrets, its store's settings, the command it runs.

The image itself is linted (hadolint) and built where there is a Docker daemon; here its parts run by hand.
"""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis as redis_py
import yaml

from broker_parts import BrokerProcess, free_port
from store_parts import PATIENCE_SECONDS, redis_program, valkey_program

DEPLOY = Path(__file__).parents[2] / "deploy"


def compose() -> Any:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    """What `deploy/make-secrets` makes for a store on a free port."""
    folder = tmp_path / "secrets"
    subprocess.run([DEPLOY / "make-secrets", folder, f"127.0.0.1:{free_port()}"], check=True, capture_output=True)
    return folder


@pytest.fixture(params=["valkey", "redis"])
def store(request: pytest.FixtureRequest, secrets: Path, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A server under the shipped settings, with folder, port and access list of this test."""
    program = valkey_program() if request.param == "valkey" else redis_program()
    if program is None:
        pytest.skip("redis-server is not installed; apt-get install redis-server")
    url = urlsplit((secrets / "store_url").read_text().strip())
    data = tmp_path / "store"
    data.mkdir()
    changes = {"dir": str(data), "port": str(url.port), "bind": "127.0.0.1", "aclfile": str(secrets / "valkey_acl")}
    lines = (DEPLOY / "valkey.conf").read_text().splitlines()
    kept = [line for line in lines if line.split(" ")[0] not in changes]
    conf = tmp_path / "store.conf"
    conf.write_text("\n".join([*kept, *(f"{name} {value}" for name, value in changes.items())]) + "\n")
    with (tmp_path / "store.log").open("wb") as log:
        process = subprocess.Popen([program, conf], stdout=log, stderr=log)
    try:
        wait_for_store(int(url.port or 0), process, tmp_path / "store.log")
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE_SECONDS)


def wait_for_store(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        try:
            with redis_py.Redis(port=port) as nobody:
                nobody.ping()
        except redis_py.AuthenticationError:
            return
        except redis_py.ConnectionError:
            time.sleep(0.005)
            continue
        raise AssertionError("the store lets anybody in")


def test_the_container_command_serves_from_a_store_under_the_shipped_settings(
    store: subprocess.Popen[bytes], secrets: Path, tmp_path: Path
) -> None:
    broker = BrokerProcess(tmp_path / "broker", "--store-file", str(secrets / "store_url"))
    try:
        broker.start()
        broker.wire.serve("ticket.edit@1")
        token = broker.wire.mint()["access_token"]
        assert broker.wire.is_active(token)
        broker.wire.command("ticket.edit@1", "rollback", force=True)
        assert not broker.wire.is_active(token)
        password = urlsplit((secrets / "store_url").read_text().strip()).password
        assert password
        assert password not in broker.said()
        assert password not in " ".join(command_line(broker.pid))
    finally:
        broker.remove()


def command_line(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")


def test_the_store_gives_the_broker_no_more_than_it_needs(store: subprocess.Popen[bytes], secrets: Path) -> None:
    url = (secrets / "store_url").read_text().strip()
    with redis_py.Redis.from_url(url) as user:
        assert user.info("server")["run_id"]
        for command in (
            ("FLUSHALL",),
            ("CONFIG", "SET", "maxmemory-policy", "allkeys-lru"),
            ("KEYS", "*"),
            ("GET", "other"),
        ):
            with pytest.raises(redis_py.exceptions.NoPermissionError):
                user.execute_command(*command)


def test_the_secrets_are_closed_to_others_and_are_never_replaced(secrets: Path) -> None:
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o700
    before = (secrets / "store_url").read_text()
    again = subprocess.run([DEPLOY / "make-secrets", secrets], capture_output=True, text=True)
    assert again.returncode == 1
    assert "is there already" in again.stderr
    assert (secrets / "store_url").read_text() == before
    password = urlsplit(before.strip()).password
    assert password
    assert len(password) == 43
    assert password not in (secrets / "valkey_acl").read_text()


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "No such file"), ("", "one line"), ("redis://a\nredis://b\n", "one line")],
    ids=["absent", "empty", "two-lines"],
)
def test_a_store_file_that_names_no_store_is_said_at_start(tmp_path: Path, content: str | None, says: str) -> None:
    file = tmp_path / "store_url"
    if content is not None:
        file.write_text(content)
    environment = {**os.environ, "BROKER_STORE_FILE": str(file)}
    run = [
        sys.executable,
        "-m",
        "broker.cli.main",
        "serve",
        "--policies",
        str(tmp_path),
        "--data",
        str(tmp_path / "data"),
    ]
    done = subprocess.run(run, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 3
    assert f"--store-file {file}" in done.stderr
    assert says in done.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("name", ["broker", "valkey"])
def test_a_service_writes_only_where_it_must_and_gains_no_rights(name: str) -> None:
    service = compose()["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_the_store_is_reached_by_the_broker_alone() -> None:
    made = compose()
    assert "ports" not in made["services"]["valkey"]
    assert made["services"]["valkey"]["networks"] == ["store"]
    assert made["networks"]["store"] == {"internal": True}
    assert made["services"]["broker"]["ports"] == ["127.0.0.1:8420:8420"]
    assert made["services"]["broker"]["environment"]["BROKER_STORE_FILE"] == "/run/secrets/store_url"


def test_the_image_runs_the_broker_as_a_user_without_rights() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    assert re.fullmatch(r"USER [1-9]\d*:[1-9]\d*", next(line for line in lines if line.startswith("USER")))
    assert json.loads(next(line for line in lines if line.startswith("ENTRYPOINT")).split(" ", 1)[1]) == ["broker"]
    pip = [line for line in lines if "pip install" in line]
    assert pip
    assert all("--require-hashes" in line or "--no-index" in line for line in pip)
