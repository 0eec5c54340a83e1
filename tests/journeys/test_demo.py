"""The demo, run as a person runs it; and the part of it that decides whether it went well."""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from rich.console import Console

from journeys.demo.processes import ROOT, ProcessError, Processes
from journeys.demo.telling import Step, Teller, play

DEMO = [sys.executable, "-m", "tests.journeys.demo"]
DEADLINE_SECONDS = 180
TOLD = (
    "it is good for reading, and for nothing else",
    "ana's own token opens nothing there",
    "bob declares 4: refused",
    "no use was accepted that came after the receipt",
    "the one that was copied is refused, too",
    "the first canary's does not come back",
    "told to list again, listed, tried once more, answered",
    "a version that was never served: refused",
    "a task that policy does not allow: refused",
    "a write, which version 4 no longer knows: refused",
    "no version declared, and the timeout by its old name: refused",
    "a path that leads out of its root: refused",
    "no token of the story is in the records",
)


def pids_in(output: str) -> list[int]:
    line = next(line for line in output.splitlines() if "processes" in line)
    return [int(found) for found in re.findall(r"[a-z]+ (\d+)", line)]


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_demo_tells_its_story_to_a_good_end_and_leaves_nothing_behind() -> None:
    done = subprocess.run(DEMO, cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    missing = [line for line in TOLD if f"✓ {line}" not in done.stdout]
    assert missing == []
    assert "Every step did what it should" in done.stdout
    assert "✗" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 110
    assert "\x1b" not in done.stdout
    pids = pids_in(done.stdout)
    assert len(pids) == 5
    assert not any(map(runs, pids))


def test_a_demo_that_is_interrupted_ends_all_its_processes_and_names_its_logs() -> None:
    with subprocess.Popen(DEMO, cwd=ROOT, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        told = ""
        for line in demo.stdout:
            told += line
            if "processes" in line:
                break
        demo.send_signal(signal.SIGTERM)
        rest, _ = demo.communicate(timeout=DEADLINE_SECONDS)
    assert demo.returncode == 130
    assert "interrupted" in rest
    folder = Path(re.sub(r"\s", "", rest.partition("data of this run:")[2]))
    assert "broker" in (folder / "logs" / "broker.log").read_text()
    shutil.rmtree(folder)
    pids = pids_in(told)
    assert len(pids) == 5
    assert not any(map(runs, pids))


async def verdict_of(*steps: Callable[[Teller], Awaitable[None]]) -> tuple[int, str]:
    output = io.StringIO()
    teller = Teller(Console(file=output, width=100))

    def bound(step: Callable[[Teller], Awaitable[None]]) -> Step:
        return step.__name__, lambda: step(teller)

    return await play(teller, [bound(step) for step in steps]), output.getvalue()


async def good(teller: Teller) -> None:
    teller.equal("two is two", expected=2, found=2)


async def wrong(teller: Teller) -> None:
    teller.equal("the answer", expected=42, found=41)


async def broken(teller: Teller) -> None:
    good_so_far = 1
    teller.equal("so far so good", expected=1, found=good_so_far)
    raise ConnectionError("nobody listens")


async def idle(teller: Teller) -> None:
    teller.say("nothing is checked here")


async def test_a_story_whose_every_check_holds_is_good() -> None:
    code, told = await verdict_of(good, good)
    assert code == 0
    assert "Every step did what it should" in told


async def test_a_check_that_fails_says_what_was_expected_and_found_and_ends_the_story() -> None:
    code, told = await verdict_of(good, wrong, good)
    assert code == 1
    assert re.search(r"✗ the answer\n\s+expected: 42\n\s+found: +41\n", told)
    assert "2 of 3 steps" in told
    assert told.count("✓ two is two") == 1


async def test_a_step_that_breaks_ends_the_story_badly() -> None:
    code, told = await verdict_of(broken, good)
    assert code == 1
    assert "✗ ConnectionError: nobody listens" in told


async def test_a_step_that_checks_nothing_is_not_good() -> None:
    code, _ = await verdict_of(good, idle)
    assert code == 1


async def test_no_story_is_no_good_story() -> None:
    code, _ = await verdict_of()
    assert code == 1


@pytest.mark.parametrize(
    ("check", "holds"),
    [
        (lambda teller: teller.holds("words", expected="list again", found="Please list again."), True),
        (lambda teller: teller.holds("words", expected="list again", found="Please wait."), False),
        (lambda teller: teller.at_most("seconds", limit=60, found=60), True),
        (lambda teller: teller.at_most("seconds", limit=60, found=61), False),
        (lambda teller: teller.at_least("seconds", limit=1, found=1), True),
        (lambda teller: teller.at_least("seconds", limit=1, found=0), False),
    ],
)
async def test_each_kind_of_check_can_fail(check: Callable[[Teller], None], holds: bool) -> None:
    async def step(teller: Teller) -> None:
        check(teller)

    code, _ = await verdict_of(step)
    assert code == (0 if holds else 1)


def test_a_process_that_ends_before_it_is_ready_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    with Processes(tmp_path, cwd=tmp_path) as processes:
        process = processes.start("oven", [sys.executable, "-c", "print('no gas'); raise SystemExit(7)"])
        with pytest.raises(ProcessError, match=r"(?s)oven ended with code 7\n.*oven\.log.*no gas"):
            process.wait_ready("http://127.0.0.1:1/", seconds=20)


def test_a_process_that_will_not_end_is_killed_at_the_deadline(tmp_path: Path) -> None:
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); signal.pause()"
    with Processes(tmp_path, cwd=tmp_path) as processes:
        process = processes.start("deaf", [sys.executable, "-c", deaf])
        deadline = time.monotonic() + 20
        while "deaf" not in process.log.read_text():
            assert time.monotonic() < deadline
        assert process.stop(seconds=0.2) == -signal.SIGKILL
        assert not runs(process.pid)
