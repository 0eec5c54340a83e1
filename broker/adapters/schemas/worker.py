"""The worker process that proves: reads questions from stdin, writes answers to stdout, until stdin ends.

A frame is four bytes of length, big endian, and JSON. A question is `[operation, [schema, …]]`; the answer is what
`engines.cover` gives. Run as a script, with the folders of its two imports as arguments: it needs nothing else, so it
starts in a fraction of what the broker takes, and sees neither the environment's modules nor the broker's secrets.

Limits, set here before the first question: address space, no core dump, and processor seconds for each question. Over
one of them the process dies; whoever asked sees that.
"""

from __future__ import annotations

import json
import os
import resource
import select
import sys
from typing import Any

_PARENT_CHECK_SECONDS = 5


def main(memory_bytes: int, cpu_seconds: int, folders: list[str]) -> None:
    sys.path[:0] = folders
    from broker.engines.cover import difference, empty, included  # found on the path that was just set

    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_AS, memory_bytes)
    parent = os.getppid()
    while (question := _read(parent)) is not None:
        _limit(resource.RLIMIT_CPU, int(_used_seconds()) + cpu_seconds + 1)
        operation, schemas = question
        answer: Any = None
        if operation == "included":
            answer = included(*schemas)
        elif operation == "empty":
            answer = empty(schemas)
        elif operation == "difference":
            answer = difference(*schemas)
        body = json.dumps(answer).encode()
        _write(len(body).to_bytes(4, "big") + body)


def _limit(kind: int, soft: int) -> None:
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        soft = min(soft, hard)
    try:
        resource.setrlimit(kind, (soft, hard))
    except (ValueError, OSError):
        pass  # a system without this limit; the deadline of the asking side still holds


def _used_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _read(parent: int) -> Any:
    header = _take(4, parent)
    body = _take(int.from_bytes(header, "big"), parent) if header else b""
    return json.loads(body) if body else None


def _take(count: int, parent: int) -> bytes:
    taken = b""
    while len(taken) < count:
        # A process that was forked from the asking one may hold stdin open, so its end is not the only sign.
        while not select.select([0], [], [], _PARENT_CHECK_SECONDS)[0]:
            if os.getppid() != parent:
                return b""
        part = os.read(0, min(count - len(taken), 1 << 20))
        if not part:
            return b""
        taken += part
    return taken


def _write(frame: bytes) -> None:
    while frame:
        frame = frame[os.write(1, frame) :]


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
