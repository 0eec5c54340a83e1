"""Answers that outlive the process: one file of lines, for commands that ask the same questions on every run.

1. A line is `key check answer`: the digest of the question, eight digits over the rest of the line, JSON. A line that was
   torn or changed is passed over; a file that cannot be read is started afresh. Losing it costs time, never an answer.
2. The name of the file holds the digest of the code that answers and the version of the library that proves, so an answer
   is never taken over from other code.
3. Several processes may write: a line is appended under a lock, in one write.
4. The file is the owner's alone. One that others could have written to is not believed: a false proof would let a
   policy through.
5. Over `MAX_BYTES` the newer half is kept.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
from hashlib import sha256
from pathlib import Path
from typing import Final

from broker.domain.canonical import JsonValue

MAX_BYTES: Final = 16 * 1024 * 1024
MAX_LINE_BYTES: Final = 256 * 1024
_KEY: Final = 32
_CHECK: Final = 8
_KEPT_FILES: Final = 3


class RememberedAnswers:
    """The file, read when it is opened, and again where an answer is missing that another process may have written."""

    def __init__(self, folder: Path, identity: str, *, name: str = "answers") -> None:
        """identity: what the answers depend on beside the question. name: what the files of this kind are called."""
        self._path = folder / f"{name}-{sha256(identity.encode()).hexdigest()[:16]}.lines"
        self._name = name
        self._known: dict[str, bytes] = {}
        self._seen: tuple[int, int] | None = None
        self._usable = self._prepare(folder)
        if self._usable:
            self._read()
            self._tidy(folder)

    def get(self, key: str) -> JsonValue:
        """The answer, None where there is none."""
        line = self._known.get(key)
        if line is None and self._usable and self._stamp() != self._seen:
            self._read()
            line = self._known.get(key)
        if line is None:
            return None
        try:
            value: JsonValue = json.loads(line)
        except (ValueError, RecursionError):
            return None
        return value

    def put(self, key: str, answer: JsonValue) -> None:
        """Remember an answer; quietly not, where that cannot be done."""
        body = json.dumps(answer, separators=(",", ":")).encode()
        if not self._usable or len(body) > MAX_LINE_BYTES:
            return
        self._known[key] = body
        with contextlib.suppress(OSError):
            self._append(key.encode() + b" " + _check(key.encode(), body) + b" " + body + b"\n")

    def _prepare(self, folder: Path) -> bool:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return _is_ours(os.stat(folder))
        except OSError:
            return False

    def _stamp(self) -> tuple[int, int] | None:
        try:
            state = os.stat(self._path)
        except OSError:
            return None
        return state.st_ino, state.st_size

    def _read(self) -> None:
        self._seen = self._stamp()
        try:
            descriptor = self._open(os.O_RDONLY)
        except FileNotFoundError:
            return
        except OSError:
            self._usable = False
            return
        with os.fdopen(descriptor, "rb") as file:
            if not _is_ours(os.fstat(descriptor)):
                self._usable = False
                return
            content = file.read(2 * MAX_BYTES)
        self._known |= _lines(content)
        if len(content) > MAX_BYTES:
            with contextlib.suppress(OSError):
                self._shorten()

    def _open(self, flags: int) -> int:
        return os.open(self._path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def _append(self, line: bytes) -> None:
        descriptor = self._open(os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            state = os.fstat(descriptor)
            if not _is_ours(state) or state.st_nlink == 0:
                return  # somebody shortened the file meanwhile; the next answer goes into the new one
            torn = state.st_size > 0 and os.pread(descriptor, 1, state.st_size - 1) != b"\n"
            written = os.write(descriptor, b"\n" + line if torn else line)
            if self._seen == (state.st_ino, state.st_size) or not state.st_size:  # nobody else has written meanwhile
                self._seen = (state.st_ino, state.st_size + written)
        finally:
            os.close(descriptor)

    def _shorten(self) -> None:
        """Keep the newer half, in a new file that takes the old one's place."""
        descriptor = self._open(os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.fstat(descriptor).st_nlink == 0:
                return
            kept: list[bytes] = []
            size = 0
            for key, body in reversed(self._known.items()):
                size += len(key) + len(body) + _CHECK + 3
                if size > MAX_BYTES // 2:
                    break
                kept.append(key.encode() + b" " + _check(key.encode(), body) + b" " + body + b"\n")
            fresh = self._path.with_suffix(f".{os.getpid()}")
            with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
                file.writelines(reversed(kept))
            fresh.replace(self._path)
        finally:
            os.close(descriptor)

    def _tidy(self, folder: Path) -> None:
        """Let files of older code go, but for the last few: two releases may run side by side."""
        with contextlib.suppress(OSError):
            files = sorted(folder.glob(f"{self._name}-*.lines"), key=lambda path: path.stat().st_mtime, reverse=True)
            for path in files[_KEPT_FILES:]:
                if path != self._path:
                    path.unlink(missing_ok=True)


def _lines(content: bytes) -> dict[str, bytes]:
    known: dict[str, bytes] = {}
    for line in content.split(b"\n"):
        key, check, body = line[:_KEY], line[_KEY + 1 : _KEY + 1 + _CHECK], line[_KEY + _CHECK + 2 :]
        if body and check == _check(key, body):
            name = key.decode("ascii", "replace")
            known.pop(name, None)
            known[name] = body
    return known


def _check(key: bytes, body: bytes) -> bytes:
    return sha256(key + b" " + body).hexdigest()[:_CHECK].encode()


def _is_ours(state: os.stat_result) -> bool:
    return state.st_uid == os.geteuid() and not state.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
