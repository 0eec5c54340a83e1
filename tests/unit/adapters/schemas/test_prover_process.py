"""The prover's process may be killed, stopped, forked around or overloaded at any moment; whoever asks gets an answer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from broker.adapters.schemas.prover import MAX_QUESTION_BYTES, Prover, Stopped

INTEGER, NUMBER = {"type": "integer"}, {"type": "number"}
REPOSITORY = Path(__file__).parents[4]


@pytest.fixture
def prover() -> Iterator[Prover]:
    made = Prover()
    yield made
    made.close()


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.005)
    return holds()


def is_running(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return "\nState:\tZ" not in Path(f"/proc/{process_id}/status").read_text()


def heavy() -> dict:
    """Sixteen independent choices: the prover multiplies them out."""
    either = [
        {
            "anyOf": [
                {"properties": {f"a{n}": {"type": "string"}, f"b{n}": {"minimum": n}}, "required": [f"a{n}"]},
                {"properties": {f"a{n}": {"type": "integer"}}, "required": [f"b{n}"]},
            ]
        }
        for n in range(16)
    ]
    return {"allOf": either}


def test_an_inclusion_is_proved_one_way_and_not_claimed_the_other_way(prover):
    assert prover.ask("included", [INTEGER, NUMBER]) == [True, None]
    assert prover.ask("empty", [INTEGER, {"type": "string"}]) is True
    assert prover.ask("empty", [INTEGER, NUMBER]) is None


def test_no_process_is_started_before_the_first_question(prover):
    assert prover.process_id is None


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_worker_killed_between_questions_is_started_again_and_leaves_no_zombie(prover, number):
    prover.ask("included", [INTEGER, NUMBER])
    killed = prover.process_id
    os.kill(killed, number)
    assert prover.ask("included", [INTEGER, NUMBER]) == [True, None]
    assert prover.process_id != killed
    assert not is_running(killed)
    assert not Path(f"/proc/{killed}").exists()


def test_a_worker_killed_during_a_question_is_asked_once_more(prover):
    prover.ask("included", [INTEGER, NUMBER])
    first = prover.process_id
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(prover.ask, "included", [heavy(), {"type": "object"}])
        assert within(5, lambda: _cpu_ticks(first) > 20)
        os.kill(first, signal.SIGKILL)
        assert within(10, answer.done)
    assert not isinstance(answer.result(), Stopped) or answer.result().passing
    assert prover.process_id != first


def test_a_worker_that_stands_still_is_killed_at_the_deadline():
    prover = Prover(seconds=1)
    prover.ask("included", [INTEGER, NUMBER])
    os.kill(prover.process_id, signal.SIGSTOP)
    started = time.monotonic()
    assert prover.ask("included", [INTEGER, NUMBER]) == Stopped("the proof took longer than 1 seconds")
    assert time.monotonic() - started < 3
    assert prover.ask("included", [INTEGER, NUMBER]) == [True, None]
    prover.close()


def test_a_question_over_its_time_is_stopped_and_the_next_one_is_answered():
    prover = Prover(seconds=1)
    answer = prover.ask("included", [heavy(), {"type": "object"}])
    assert answer == Stopped("the proof took longer than 1 seconds")
    assert prover.ask("included", [INTEGER, NUMBER]) == [True, None]
    prover.close()


def test_a_question_over_its_memory_is_stopped_and_the_next_one_is_answered():
    prover = Prover(memory_bytes=96 * 1024 * 1024)
    answer = prover.ask("included", [heavy(), {"type": "object"}])
    assert isinstance(answer, Stopped)
    assert "96 MiB" in answer.why
    assert prover.ask("included", [INTEGER, NUMBER]) == [True, None]
    prover.close()


def test_a_question_that_cannot_be_written_or_is_too_large_is_not_asked(prover):
    deep: dict = {}
    for _ in range(100_000):
        deep = {"not": deep}
    assert prover.ask("included", [deep, {}]) == Stopped("it is nested too deep to be written", passing=False)
    while deep:  # taken apart by hand: freeing it at once would recurse
        deep = deep["not"]
    large = {"description": "x" * MAX_QUESTION_BYTES}
    assert isinstance(prover.ask("included", [large, {}]), Stopped)
    assert prover.process_id is None


def test_threads_share_one_worker(prover):
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: prover.ask("included", [INTEGER, {"minimum": n}]), range(64)))
    assert answers == [[None, None]] * 64
    assert prover.ask("included", [INTEGER, NUMBER]) == [True, None]


def test_a_forked_child_has_a_worker_of_its_own_and_leaves_the_parents_alone(prover):
    prover.ask("included", [INTEGER, NUMBER])
    worker = prover.process_id
    child = os.fork()
    if child == 0:
        good = prover.ask("included", [INTEGER, NUMBER]) == [True, None] and prover.process_id != worker
        prover.close()
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert prover.ask("included", [INTEGER, NUMBER]) == [True, None]
    assert prover.process_id == worker


def test_closing_ends_the_worker_and_nothing_is_proved_afterwards(prover):
    prover.ask("included", [INTEGER, NUMBER])
    worker = prover.process_id
    prover.close()
    assert not Path(f"/proc/{worker}").exists()
    assert prover.ask("included", [INTEGER, NUMBER]) == Stopped("the prover is closed")


@pytest.mark.parametrize("ending", ["pass", "os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_the_worker_ends_with_its_owner_however_that_ends(ending):
    program = f"""
        import os, signal
        from broker.adapters.schemas.prover import Prover
        prover = Prover()
        prover.ask("included", [{{"type": "integer"}}, {{}}])
        print(prover.process_id, flush=True)
        {ending}
    """
    ran = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", textwrap.dedent(program)],
        capture_output=True, text=True, check=False, cwd=REPOSITORY,
    )  # fmt: skip
    assert within(5, lambda: not is_running(int(ran.stdout)))
    assert ran.stderr == ""


def test_an_interrupt_at_the_terminal_does_not_reach_the_worker(prover):
    prover.ask("included", [INTEGER, NUMBER])
    assert os.getpgid(prover.process_id) != os.getpgid(0)


def test_the_worker_sees_nothing_of_the_environment(prover, monkeypatch):
    monkeypatch.setenv("BROKER_SECRET", "hunter2")
    prover.ask("included", [INTEGER, NUMBER])
    assert b"hunter2" not in Path(f"/proc/{prover.process_id}/environ").read_bytes()


def _cpu_ticks(process_id: int) -> int:
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
