"""A JWK Set in a file: read again whenever the file is another one than before.

1. At most once in `LOOK_SECONDS`, a question looks at the file's identity (device, inode, size, times); nothing is read
   while that is unchanged. A key that is not there is looked for at once.
2. A file that is gone, too large or not a JWK Set leaves the old set, raises one alarm in the log, and is read again
   once it changes. The old set counts for as long as `Schedule.max_stale_seconds` says.
"""

from __future__ import annotations

import logging
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

from broker.adapters.jwks.fetch import MAX_BYTES
from broker.domain.errors import Refusal
from broker.domain.tokens.keys import JwksError, KeySet, VerificationKey
from broker.domain.tokens.keyset import Known, Schedule, accept, look_up
from broker.engines.jwk import parse_jwks

_log: Final = logging.getLogger("broker.keys")
_Stamp: TypeAlias = tuple[int, int, int, int, int]
_GONE: Final[_Stamp] = (0, 0, 0, 0, 0)
LOOK_SECONDS: Final = 1.0


class KeyFile:
    """The keys in one file."""

    def __init__(self, path: str, *, schedule: Schedule) -> None:
        self._path = path
        self._schedule = schedule
        self._known = Known()
        self._stamp: _Stamp | None = None
        self._is_good = False
        self._looked_at: float | None = None

    def find(self, *, now: float, kid: str | None, algorithm: str) -> VerificationKey | Refusal:
        """The key that fits. `now` is seconds on a clock that only goes forward."""
        if self._looked_at is not None and 0 <= now - self._looked_at < LOOK_SECONDS:
            found = look_up(self._known, self._schedule, now=now, kid=kid, algorithm=algorithm)
            if not isinstance(found, Refusal):
                return found
        self._looked_at = now
        stamp = _stamp_of(self._path)
        if stamp != self._stamp:
            self._stamp = stamp
            self._is_good = self._read(now)
        elif self._is_good:
            self._known = replace(self._known, good_at=now)
        return look_up(self._known, self._schedule, now=now, kid=kid, algorithm=algorithm)

    def _read(self, now: float) -> bool:
        found = _read_keys(self._path)
        if isinstance(found, str):
            _log.error("the keys of %s are kept as they were: %s", self._path, found)
            return False
        self._known = accept(self._known, self._schedule, found, now=now)
        return True


def _stamp_of(path: str) -> _Stamp:
    try:
        seen = os.stat(path)
    except OSError:
        return _GONE
    return (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)


def _read_keys(path: str) -> KeySet | str:
    try:
        seen = os.stat(path)
        if not stat.S_ISREG(seen.st_mode):
            return "not a regular file"
        if seen.st_size > MAX_BYTES:
            return f"the file is over {MAX_BYTES} bytes"
        found = parse_jwks(Path(path).read_bytes())
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    return found.problem if isinstance(found, JwksError) else found
