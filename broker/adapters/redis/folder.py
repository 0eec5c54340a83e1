"""The embedded store's own folder: who owns it, which server runs in it, and what that is started with.

| in `<data directory>/store/` (0700) | is                                                                 |
|-------------------------------------|--------------------------------------------------------------------|
| broker.lock                         | locked by the broker that owns the folder; holds its process id    |
| server.lock                         | locked by the server itself, as long as it lives; holds its id     |
| valkey.conf, store.log              | what it was started with, and what it says                         |
| store.sock (0600)                   | the only way in: no TCP port is opened                             |
| appendonlydir/                      | the data, synced at each write; a tail cut off by a crash is let go |

1. A second broker on the same folder is refused: `ConfigurationError`.
2. The kernel keeps `server.lock` locked exactly as long as the server lives. So while it is locked, the process id in
   it is the server's and no other's, and a server that outlived its broker can be ended safely.
3. A path longer than 100 bytes does not fit a socket address: the socket then lies in a private directory of its own
   under the system's temporary directory.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from broker.domain.errors import ConfigurationError

SOCKET_PATH_BYTES: Final = 100


class StoreFolder:
    """One broker's hold on the folder of its embedded store."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir.absolute() / "store"
        self.socket = self.path / "store.sock"
        self._owner: int | None = None
        self._socket_folder: Path | None = None

    @property
    def config(self) -> Path:
        return self.path / "valkey.conf"

    @property
    def log(self) -> Path:
        return self.path / "store.log"

    def own(self) -> None:
        """Make the folder this broker's, or raise `ConfigurationError` (1)."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.chmod(0o700)
            owner = os.open(self.path / "broker.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigurationError(
                f"data directory: the store cannot be kept in {self.path} ({error.strerror}); name another with --data"
            ) from None
        if not _lock(owner):
            other = os.read(owner, 20).decode("ascii", "replace").strip()
            os.close(owner)
            raise ConfigurationError(
                f"data directory {self.path.parent}: another broker (process {other or 'unknown'}) uses it; "
                "stop that one, or give this one a directory of its own"
            )
        os.ftruncate(owner, 0)
        os.pwrite(owner, str(os.getpid()).encode(), 0)
        self._owner = owner
        if len(os.fsencode(self.socket)) > SOCKET_PATH_BYTES:  # (3)
            self._socket_folder = Path(tempfile.mkdtemp(prefix="mayfly-"))
            self.socket = self._socket_folder / "store.sock"

    def give_back(self) -> None:
        """Let another broker have the folder."""
        if self._socket_folder is not None:
            shutil.rmtree(self._socket_folder, ignore_errors=True)
            self._socket_folder = None
        if self._owner is not None:
            os.close(self._owner)  # which unlocks it
            self._owner = None

    def open_server_lock(self) -> int:
        """The file that a server locks, not locked yet."""
        return os.open(self.path / "server.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def lock_server(self, lock: int) -> bool:
        """Lock it; False while a server holds it, which is ended for that (2)."""
        if _lock(lock):
            return True
        spelled = os.pread(lock, 20, 0)
        if spelled.isdigit():
            with suppress(ProcessLookupError):
                os.kill(int(spelled), signal.SIGKILL)
        return False

    def write_config(self, *, maxmemory_bytes: int) -> None:
        """Write what the server is started with."""
        settings = (
            ("port", "0"),
            ("unixsocket", _quoted(self.socket)),
            ("unixsocketperm", "600"),
            ("dir", _quoted(self.path)),
            ("daemonize", "no"),
            ("save", '""'),
            ("appendonly", "yes"),
            ("appendfsync", "always"),
            ("aof-load-truncated", "yes"),
            ("maxmemory", str(maxmemory_bytes)),
            ("maxmemory-policy", "noeviction"),
        )
        config = os.open(self.config, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(config, "w", encoding="utf-8") as file:
            file.writelines(f"{name} {value}\n" for name, value in settings)

    def open_log(self) -> int:
        """The server's log, to be appended to."""
        return os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def _lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _quoted(path: Path) -> str:
    text = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
