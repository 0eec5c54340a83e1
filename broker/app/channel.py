"""The channel between a broker and each of its worker processes: a socket pair, lines of text.

| who says it | line        | means                                                                        |
|-------------|-------------|------------------------------------------------------------------------------|
| the broker  | JSON object | first and only: the settings, the descriptor of the listener, the process id  |
| a worker    | `up`        | signals are heard from now on                                                 |
| a worker    | `ready`     | requests are served from now on                                               |
| a worker    | `loaded`    | an administrator had it load the policy again: the others must follow         |

The end of the channel is the end of the other side. Settings travel here and not on a command line, which everybody can read.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from broker.app.settings import Settings

UP: Final = "up"
READY: Final = "ready"
LOADED: Final = "loaded"
_PATH: Final = "path"


def spell_order(settings: Settings, *, listener: int) -> bytes:
    """The broker's line to a new worker."""
    held = {field.name: _spelled(getattr(settings, field.name)) for field in fields(settings)}
    return json.dumps({"settings": held, "listener": listener, "parent": os.getpid()}).encode() + b"\n"


def _spelled(value: Any) -> Any:
    if isinstance(value, Path):
        return {_PATH: str(value)}
    return list(value) if isinstance(value, tuple) else value


def _read(value: Any) -> Any:
    if isinstance(value, dict):
        return Path(value[_PATH])
    return tuple(value) if isinstance(value, list) else value


class WorkerChannel:
    """A worker's side. settings, listener, parent: what it was told."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        with self._socket.makefile("rb") as file:
            order = json.loads(file.readline())
        self.settings = Settings(**{name: _read(value) for name, value in order["settings"].items()})
        self.listener = socket.socket(fileno=order["listener"])
        self.parent: int = order["parent"]

    def tell(self, line: str) -> None:
        """Say one of the above. Where nobody listens any more, the end is near anyway."""
        try:
            self._socket.sendall(line.encode() + b"\n")
        except OSError:
            pass

    def watch(self, ended: Callable[[], None]) -> None:
        """Call back once the broker is gone."""
        loop = asyncio.get_running_loop()

        def readable() -> None:
            if not self._socket.recv(64):
                loop.remove_reader(self._socket)
                ended()

        self._socket.setblocking(True)
        loop.add_reader(self._socket, readable)

    def close(self) -> None:
        """Say and hear no more."""
        self._socket.close()
