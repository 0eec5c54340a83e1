"""What a verifier must not forget over a restart: how far the feed had got, and which keys were revoked.

1. One file for one broker and client, several processes may share it. Counters only grow, keys are only added: what is
   written is the maximum of what is there and what is new, under a lock, whole or not at all (fsync, rename, fsync).
2. No file yet: nothing was seen. A file that cannot be read, or is of another broker: `ConfigurationError`, since going on
   without it could accept what was refused before.
3. The format is 1; it grows only.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from broker.domain.canonical import MAX_INTEGER, JsonError, JsonObject, parse_json_object
from broker.domain.errors import ConfigurationError
from broker.domain.revocation.feed import Point
from broker.domain.revocation.view import START

if sys.platform != "win32":
    import fcntl

FORMAT: Final = 1
MAX_BYTES: Final = 1_048_576


@dataclass(frozen=True, slots=True)
class Seen:
    """How far the feed had got, and the scopes of the keys that were revoked."""

    point: Point = START
    keys: frozenset[str] = field(default_factory=frozenset)

    def merged(self, other: Seen) -> Seen:
        """The maximum of both."""
        return Seen(max(self.point, other.point), self.keys | other.keys)


def default_path(*, issuer: str, client_id: str) -> Path:
    """Below `$XDG_STATE_HOME`, else `~/.local/state`. Raises `ConfigurationError` where there is no home."""
    name = hashlib.sha256(f"{issuer}\n{client_id}".encode()).hexdigest()[:32]
    stated = os.environ.get("XDG_STATE_HOME", "")
    try:
        folder = Path(stated) if os.path.isabs(stated) else Path.home() / ".local" / "state"
    except RuntimeError:
        raise ConfigurationError("state_file: this process has no home directory; give the path of a file") from None
    return folder / "mayfly-broker" / f"{name}.json"


class StateFile:
    """The file of one verifier. Its methods block; call them in a thread."""

    def __init__(self, path: Path, *, issuer: str, client_id: str) -> None:
        self.path = path
        self._feed = f"{issuer} {client_id}"

    def open(self) -> Seen:
        """What was seen before; the folder is made. Raises `ConfigurationError` (rule 2)."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._locked():
                return self._read()
        except OSError as error:
            raise ConfigurationError(
                f"state_file: {self.path} cannot be used ({error.strerror}); give a path that this process may write"
            ) from None

    def save(self, seen: Seen) -> Seen:
        """Add what was seen; what the file holds now. Raises `OSError`, and `ConfigurationError` (rule 2)."""
        with self._locked():
            found = self._read()
            merged = found.merged(seen)
            if merged != found:
                self._write(merged)
            return merged

    def _read(self) -> Seen:
        try:
            with self.path.open("rb") as file:
                text = file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            return Seen()
        if len(text) > MAX_BYTES:
            raise self._unusable(f"it is over {MAX_BYTES} bytes")
        try:
            value = parse_json_object(text)
        except JsonError as error:
            raise self._unusable(str(error)) from None
        if value.get("v") != FORMAT:
            raise self._unusable(f"it is not of format {FORMAT}")
        if value.get("feed") != self._feed:
            raise self._unusable("it belongs to another broker or client")
        gen, seq, keys = value.get("gen"), value.get("seq"), value.get("keys")
        if not _is_counter(gen) or not _is_counter(seq) or not isinstance(keys, list):
            raise self._unusable("gen, seq or keys is not of its form")
        if not all(isinstance(key, str) for key in keys):
            raise self._unusable("keys is not of its form")
        return Seen(Point(int(gen), int(seq)), frozenset(map(str, keys)))  # type: ignore[arg-type]

    def _write(self, seen: Seen) -> None:
        value: JsonObject = {
            "v": FORMAT,
            "feed": self._feed,
            "gen": seen.point.gen,
            "seq": seen.point.seq,
            "keys": [*sorted(seen.keys)],
        }
        draft = self._beside(".new")
        with draft.open("w", encoding="utf-8") as file:
            file.write(json.dumps(value) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, self.path)
        if sys.platform != "win32":  # a folder cannot be opened there
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One process at a time. On Windows nothing is locked: give each process a file of its own there."""
        with self._beside(".lock").open("wb") as lock:
            if sys.platform != "win32":
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _beside(self, ending: str) -> Path:
        return self.path.with_name(self.path.name + ending)

    def _unusable(self, why: str) -> ConfigurationError:
        return ConfigurationError(
            f"state_file: {self.path} cannot be read: {why}. It says what this verifier had seen revoked; remove it only "
            "if no credential from before is alive"
        )


def _is_counter(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_INTEGER
