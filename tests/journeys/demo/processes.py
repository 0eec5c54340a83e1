"""Real processes for a journey: start, wait until they serve, end by pid.

    with Processes(logs) as processes:
        broker = processes.start("broker", [sys.executable, "-m", "broker.cli.main", "serve", ...])
        broker.wait_ready("http://127.0.0.1:8420/readyz")

1. A process writes its output to a file of its own; what goes wrong names that file and shows its last lines.
2. Waiting has a deadline, and ends at once where the process does.
3. However the block is left, every process is ended: SIGTERM to its pid, SIGKILL where that does not help in time. The last
   one started is the first to go.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, TypeVar

import httpx2

ROOT: Final = Path(__file__).resolve().parents[3]
READY_SECONDS: Final = 30.0
STOP_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.02
_SHOWN_LINES: Final = 15

Found = TypeVar("Found")


class ProcessError(Exception):
    """A process did not become ready in time, or ended by itself; the message holds the end of its log."""


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on, all different."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()


async def wait_until(look: Callable[[], Awaitable[Found | None]], what: str, *, seconds: float = 10.0) -> Found:
    """What `look` finds, as soon as it finds something. Raises `TimeoutError`, which says what was waited for."""
    deadline = time.monotonic() + seconds
    while True:
        found = await look()
        if found is not None:
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:g} s in vain: {what}")
        await asyncio.sleep(_POLL_SECONDS)


class RunningProcess:
    """One process, started by `Processes.start`."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self.log = log
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def wait_ready(self, url: str, *, seconds: float = READY_SECONDS) -> None:
        """Wait until the URL answers with something below 500. Raises `ProcessError`."""
        deadline = time.monotonic() + seconds
        with httpx2.Client(timeout=1.0, trust_env=False) as http:
            while True:
                if self.exit_code is not None:
                    raise ProcessError(f"{self.name} ended with code {self.exit_code}\n{self.last_lines()}")
                try:
                    if http.get(url).status_code < 500:
                        return
                except httpx2.TransportError:
                    pass
                if time.monotonic() > deadline:
                    raise ProcessError(f"{self.name} did not answer {url} in {seconds:g} s\n{self.last_lines()}")
                time.sleep(_POLL_SECONDS)

    def stop(self, *, seconds: float = STOP_SECONDS) -> int:
        """End it, kindly first; its exit code, negative where a signal ended it. Harmless where it has ended."""
        self.signal(signal.SIGTERM)
        return self.wait(seconds=seconds)

    def signal(self, number: int) -> None:
        """Send one signal to its pid, if it runs."""
        if self.exit_code is None:
            self._process.send_signal(number)

    def wait(self, *, seconds: float = STOP_SECONDS) -> int:
        """Its exit code. It is killed at the deadline."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def last_lines(self, count: int = _SHOWN_LINES) -> str:
        """The end of its log, after the log's name."""
        lines = self.log.read_text(errors="replace").splitlines()[-count:]
        return "\n".join([f"{self.log}:", *(f"  {line}" for line in lines)])


class Processes:
    """The processes of one journey; a context manager that ends them all."""

    def __init__(self, logs: Path, *, cwd: Path = ROOT) -> None:
        self._logs = logs
        self._cwd = cwd
        self._running: list[RunningProcess] = []

    def start(self, name: str, command: Sequence[str], *, env: Mapping[str, str] | None = None) -> RunningProcess:
        """Start a process; its output goes to `<logs>/<name>.log`. A Ctrl-C reaches it through `stop` alone."""
        self._logs.mkdir(parents=True, exist_ok=True)
        log = self._logs / f"{name}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                cwd=self._cwd,
                env={**os.environ, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        running = RunningProcess(name, process, log)
        self._running.append(running)
        return running

    def stop_all(self) -> None:
        """End all of them, the last one started first."""
        while self._running:
            self._running.pop().stop()

    def __enter__(self) -> Processes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop_all()
