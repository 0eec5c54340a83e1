"""The asking side of the prover: one worker process, started when the first question comes.

1. A question has a deadline, the worker a limit on memory and on processor time for each question. Over any of them the
   worker is killed and the answer is `Stopped`, which says which.
2. A worker that was killed from outside is started again and asked once more; one that its own question killed is not.
3. Questions from several threads wait for each other. A forked child gets a worker of its own.
4. The worker ends with its owner: on `close`, at exit, and when the owner dies, since its stdin then ends.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Final

import jsonschema_rs

import broker
from broker.domain.canonical import JsonValue

MEMORY_BYTES: Final = 512 * 1024 * 1024
SECONDS: Final = 5
MAX_QUESTION_BYTES: Final = 2 * 1024 * 1024
MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024
_SCRIPT: Final = str(Path(__file__).with_name("worker.py"))
_FROM_OUTSIDE: Final = frozenset((-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP))


@dataclass(frozen=True, slots=True)
class Stopped:
    """The worker gave no answer within its limits. passing: asking again at another time may help."""

    why: str
    passing: bool = True


class _Died(Exception):
    """The worker broke off; this never leaves the module."""


class Prover:
    """A worker and the pipes to it."""

    def __init__(self, *, seconds: int = SECONDS, memory_bytes: int = MEMORY_BYTES) -> None:
        self._seconds = seconds
        self._memory_bytes = memory_bytes
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()
        self._closed = False
        self._end: weakref.finalize[..., Prover] | None = None

    @property
    def process_id(self) -> int | None:
        """The worker's, while there is one."""
        return self._process.pid if self._process is not None else None

    def ask(self, operation: str, schemas: Sequence[JsonValue]) -> JsonValue | Stopped:
        """What `engines.cover` answers, or why it did not."""
        try:
            body = json.dumps([operation, list(schemas)], separators=(",", ":")).encode()
        except (RecursionError, ValueError, TypeError):
            return Stopped("it is nested too deep to be written", passing=False)
        if len(body) > MAX_QUESTION_BYTES:
            return Stopped(f"it is larger than {MAX_QUESTION_BYTES} bytes", passing=False)
        if self._owner != os.getpid():
            self._leave_to_parent()
        with self._lock:
            for attempt in (1, 2):
                answer = self._ask_once(len(body).to_bytes(4, "big") + body)
                if answer is not None:
                    return answer.value if isinstance(answer, _Answer) else answer
                if attempt == 2:
                    break
        return Stopped("the prover was killed while it worked")

    def close(self) -> None:
        """End the worker. Nothing is proved afterwards."""
        self._closed = True
        with self._lock:
            self._stop()

    def _ask_once(self, frame: bytes) -> _Answer | Stopped | None:
        """None where the worker was killed by somebody else, so that it is worth asking again."""
        if self._closed:
            return Stopped("the prover is closed")
        try:
            process = self._process or self._start()
        except OSError as error:
            return Stopped(f"the prover did not start: {error.strerror}")
        try:
            return _Answer(_exchange(process, frame, time.monotonic() + self._seconds))
        except TimeoutError:
            self._stop()
            return Stopped(f"the proof took longer than {self._seconds} seconds")
        except _Died:
            code = self._stop()
            if code in _FROM_OUTSIDE:
                return None
            if code == -signal.SIGXCPU:
                return Stopped(f"the proof took longer than {self._seconds} seconds")
            return Stopped(f"the proof took more than {self._memory_bytes >> 20} MiB, or broke the prover")

    def _start(self) -> subprocess.Popen[bytes]:
        folders = {str(Path(module.__file__ or "").resolve().parents[1]) for module in (broker, jsonschema_rs)}
        command = [sys.executable, "-I", "-S", _SCRIPT, str(self._memory_bytes), str(self._seconds), *sorted(folders)]
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env={},
            cwd="/",
            process_group=0,  # an interrupt at the terminal is for the command, which then closes its worker
        )
        assert process.stdin is not None
        assert process.stdout is not None
        os.set_blocking(process.stdin.fileno(), False)
        os.set_blocking(process.stdout.fileno(), False)
        self._process = process
        self._end = weakref.finalize(self, _end, process, os.getpid())
        return process

    def _stop(self) -> int | None:
        process, self._process = self._process, None
        if process is None:
            return None
        if self._end is not None:
            self._end.detach()
        return _end(process, os.getpid())

    def _leave_to_parent(self) -> None:
        """After a fork: the worker and its pipes belong to the parent, and so may the lock."""
        process, self._process = self._process, None
        if self._end is not None:
            self._end.detach()
        if process is not None:
            _end(process, self._owner)
        self._lock = Lock()
        self._owner = os.getpid()


@dataclass(frozen=True, slots=True)
class _Answer:
    value: JsonValue


def _end(process: subprocess.Popen[bytes], owner: int) -> int | None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except OSError:
                pass
    if owner != os.getpid():
        process.returncode = 0  # not this process's child: nothing to wait for, and nothing to say about it
        return None
    code = process.poll()
    if code is None and not _ends_soon(process):
        process.kill()
        process.wait()
        return None
    return process.returncode


def _ends_soon(process: subprocess.Popen[bytes]) -> bool:
    """Whether a worker that has broken off ends by itself: its exit code says why."""
    try:
        process.wait(0.05)
    except subprocess.TimeoutExpired:
        return False
    return True


def _exchange(process: subprocess.Popen[bytes], frame: bytes, deadline: float) -> JsonValue:
    """Raises `TimeoutError` at the deadline, `_Died` where the worker breaks off."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        rest = memoryview(frame)
        while rest:
            _wait(process.stdin.fileno(), select.POLLOUT, deadline)
            rest = rest[_written(process.stdin.fileno(), rest) :]
        size = int.from_bytes(_take(process.stdout.fileno(), 4, deadline), "big")
        if size > MAX_ANSWER_BYTES:
            raise TimeoutError
        answer: JsonValue = json.loads(_take(process.stdout.fileno(), size, deadline))
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, TimeoutError):
            raise
        raise _Died from error
    return answer


def _written(fd: int, part: memoryview) -> int:
    try:
        return os.write(fd, part)
    except BlockingIOError:
        return 0


def _take(fd: int, count: int, deadline: float) -> bytes:
    taken = bytearray()
    while len(taken) < count:
        _wait(fd, select.POLLIN, deadline)
        try:
            part = os.read(fd, min(count - len(taken), 1 << 20))
        except BlockingIOError:
            continue
        if not part:
            raise ConnectionResetError
        taken += part
    return bytes(taken)


def _wait(fd: int, event: int, deadline: float) -> None:
    poll = select.poll()
    poll.register(fd, event)
    left = deadline - time.monotonic()
    if left <= 0 or not poll.poll(max(1, int(left * 1000))):
        raise TimeoutError
