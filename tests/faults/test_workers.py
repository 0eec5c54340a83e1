"""One broker of several processes: any of them serves any request, and together they start, follow, end and come back.

| event                                        | then                                                                 |
|----------------------------------------------|----------------------------------------------------------------------|
| a worker is killed                           | the others go on; it is started again, and its log goes on           |
| an administrator has one load the policy     | all answer by it within a moment; so after SIGHUP                     |
| the store is killed                          | it comes back, is claimed once, and what was rolled back stays so    |
| SIGTERM                                      | every worker ends its log; exit 0                                    |
| the parent is killed                         | workers and store are gone, and the next start works                 |
| a worker cannot start                        | neither does the broker, with that worker's words and exit code      |
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from broker.adapters.auditlog.database import read_records

from broker_load import Load
from broker_parts import BrokerProcess, exchange_form, read_log, refused, wait_until
from replica_parts import CANARY, STABLE, refusal_of, serve_both

COUNT = 2


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One for all tests, since each leaves it working, which is the point."""
    made = BrokerProcess(tmp_path_factory.mktemp("broker"), "--workers", str(COUNT))
    try:
        start(made)
        serve_both(made)  # type: ignore[arg-type]
        made.wire.serve("ticket.edit@1")
        yield made
        assert "Traceback" not in made.said(), made.said()
    finally:
        made.remove()


def start(broker: BrokerProcess) -> None:
    """Start it, and wait until all its workers serve."""
    said = f"{COUNT} workers serve"
    before = broker.said().count(said) if broker.log.exists() else 0
    broker.start()
    wait_until(lambda: broker.said().count(said) > before, what="all workers serve")


def workers(broker: BrokerProcess) -> list[int]:
    """Their process ids, as the system has them."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat, command = (entry / "stat").read_text(), (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if int(stat.rpartition(")")[2].split()[1]) == broker.pid and b"--worker\0" in command:
                found.append(int(entry.name))
    return sorted(found)


def log_of(broker: BrokerProcess, worker: int) -> list[dict[str, Any]]:
    name = f"log-{worker}.sqlite" if worker else "log.sqlite"
    return [record for _, record in read_records(broker.audit_path.with_name(name))]


def all_records(broker: BrokerProcess) -> list[dict[str, Any]]:
    return [record for worker in range(COUNT) for record in log_of(broker, worker)]


def fresh(broker: BrokerProcess) -> httpx2.Client:
    """A client whose connections are new, so that any worker may accept them."""
    limits = httpx2.Limits(max_keepalive_connections=0)
    return httpx2.Client(base_url=broker.url, timeout=15.0, limits=limits)


def test_every_worker_serves_and_what_one_minted_all_know(broker: BrokerProcess) -> None:
    with Load(broker, callers=8) as load:
        load.wait_for_tokens(60)
        wait_until(
            lambda: all(any(r["type"] == "mint" for r in log_of(broker, n)) for n in range(COUNT)),
            what="each worker has minted",
        )
    load.check_failures()
    kids = {record["kid"] for record in all_records(broker) if record["type"] == "mint"}
    assert len(kids) == 1
    assert [broker.wire.is_active(token) for token in load.tokens[-20:]] == [True] * 20
    assert len([r for r in all_records(broker) if r["type"] == "gen.claim"]) == 1, "one claimed, the others adopted"


def test_the_logs_of_all_workers_can_be_read_at_any_of_them(broker: BrokerProcess) -> None:
    first = broker.wire.admin("GET", "/records").json()
    assert (first["log"], first["logs"]) == (0, list(range(COUNT)))
    for worker in range(COUNT):
        (first,) = broker.wire.admin("GET", f"/records?log={worker}&limit=1").json()["records"]
        assert (first["index"], first["id"]) == (0, log_of(broker, worker)[0]["id"])
    answer = broker.wire.admin("GET", "/records?log=7")
    assert (answer.status_code, answer.json()["where"]) == (400, "log")


def provers(broker: BrokerProcess) -> list[int]:
    """The processes that prove things about schemas, of all its workers."""
    ours, found = set(workers(broker)), []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat, command = (entry / "stat").read_text(), (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if int(stat.rpartition(")")[2].split()[1]) in ours and b"schemas/worker.py" in command:
                found.append(int(entry.name))
    return found


def test_what_one_worker_had_proved_no_other_proves_again(broker: BrokerProcess) -> None:
    assert len(provers(broker)) <= 1


def add_version(broker: BrokerProcess) -> str:
    """Another version of a tool of ours in the files; the digest of the policy changes with it."""
    path = broker.policies.folder / "trust.yaml"
    trust = json.loads(path.read_text())
    trust["defaults"]["ttl"] = f"{int(trust['defaults']['ttl'][:-1]) - 1}s"
    path.write_text(json.dumps(trust))
    return str(trust["defaults"]["ttl"])


def policies_in_force(broker: BrokerProcess) -> list[str]:
    """The policy that each worker loaded last."""
    loaded = [[r["policy"] for r in log_of(broker, n) if r["type"] == "policy.change"] for n in range(COUNT)]
    return [each[-1] for each in loaded]


def test_a_policy_that_one_worker_was_told_to_load_is_in_force_at_all_of_them(broker: BrokerProcess) -> None:
    add_version(broker)
    answer = broker.wire.admin("POST", "/policy/reload")
    assert answer.status_code == 200, answer.text
    wait_until(
        lambda: policies_in_force(broker) == [answer.json()["policy"]] * COUNT, seconds=10, what="all have loaded it"
    )
    assert len(provers(broker)) <= 1


def test_a_hang_up_has_all_workers_load_the_policy(broker: BrokerProcess) -> None:
    before = policies_in_force(broker)
    add_version(broker)
    os.kill(broker.pid, signal.SIGHUP)
    wait_until(
        lambda: len(set(policies_in_force(broker))) == 1 and policies_in_force(broker) != before,
        seconds=10,
        what="all have loaded it",
    )


def test_a_worker_that_is_killed_is_started_again_while_the_others_serve(broker: BrokerProcess) -> None:
    before = workers(broker)
    with fresh(broker) as http:
        os.kill(before[1], signal.SIGKILL)
        wait_until(lambda: before[1] not in workers(broker), what="it is gone")
        wait_until(lambda: len(workers(broker)) == COUNT, what="there is another")
        assert http.get("/healthz").status_code == 200
    with Load(broker, callers=4) as load:
        load.wait_for_tokens(20)
    opened = [sum(r["type"] == "log.open" for r in log_of(broker, n)) for n in range(COUNT)]
    wait_until(
        lambda: sum(sum(r["type"] == "log.open" for r in log_of(broker, n)) for n in range(COUNT)) == COUNT + 1,
        what=f"its log goes on: {opened}",
    )
    assert len([r for r in all_records(broker) if r["type"] == "gen.claim"]) == 1


def test_a_store_that_died_is_claimed_once_and_a_rollback_at_any_worker_stays(broker: BrokerProcess) -> None:
    assert refusal_of(broker.wire.exchange(**CANARY)) == "minted"
    broker.wire.command("db.query@4", "rollback")
    with fresh(broker) as http:
        for _ in range(4 * COUNT):
            headers, form = broker.wire.proof("svc")
            assert refused(http.post("/token", data={**exchange_form(**CANARY), **form}, headers=headers))[2] == (
                "version_rolled_back"
            )
    os.kill(broker.store_pid(), signal.SIGKILL)
    wait_until(lambda: claims(broker) == 2, seconds=20, what="it is claimed anew")
    wait_until(lambda: broker.wire.exchange(**STABLE).status_code == 200, seconds=20, what="it goes on")
    with Load(broker, callers=4) as load:
        load.wait_for_tokens(20)
    assert claims(broker) == 2
    assert refusal_of(broker.wire.exchange(**CANARY)) == "version_rolled_back"


def claims(broker: BrokerProcess) -> int:
    return len([record for record in all_records(broker) if record["type"] == "gen.claim"])


def test_when_the_parent_is_killed_nothing_of_the_broker_is_left_and_the_next_start_works(
    broker: BrokerProcess,
) -> None:
    pids = [*workers(broker), broker.store_pid()]
    broker.stop(signal.SIGKILL)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), what="all are gone")
    start(broker)
    assert refusal_of(broker.wire.exchange(**CANARY)) == "version_rolled_back"
    assert refusal_of(broker.wire.exchange(**STABLE)) == "minted"


def test_sigterm_ends_every_worker_in_order(broker: BrokerProcess) -> None:
    with Load(broker, callers=4) as load:
        load.wait_for_tokens(20)
    assert broker.stop() == 0
    for worker in range(COUNT):
        assert log_of(broker, worker)[-1]["type"] == "log.close"
    start(broker)


def test_a_broker_whose_worker_cannot_start_ends_with_its_words_and_code(tmp_path: Path) -> None:
    made = BrokerProcess(tmp_path, "--workers", "2")
    (made.data / "audit").mkdir(parents=True)
    try:
        with (made.data / "audit" / "log-1.sqlite.lock").open("wb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            assert made.launch().wait(40) == 3
        assert "log-1.sqlite is in use by another process" in made.said()
        assert "Traceback" not in made.said()
    finally:
        made.remove()
    assert read_log(made)[-1]["type"] == "log.close"
