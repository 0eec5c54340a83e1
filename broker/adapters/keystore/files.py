"""Private files: what only the broker may read.

1. A new file is complete or absent: written beside its place, synced, linked into it, its folder synced.
2. A file that is there is never written over: of two processes that make one at the same time, both use the first.
3. A file that others may read, or a folder that others may write to, is refused with the command that mends it.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import Final

from broker.domain.errors import ConfigurationError

_FILE_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700
_MAX_BYTES: Final = 65_536


def make_private_folder(folder: Path) -> None:
    """Make sure of a folder that nobody else can write to. Raises `ConfigurationError`."""
    try:
        folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        mode = folder.stat().st_mode
    except OSError as error:
        raise ConfigurationError(f"the key folder {folder} cannot be used: {error.strerror}") from error
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigurationError(f"others may write to the key folder {folder}: chmod 700 {folder}")


def read_private_file(path: Path, *, most_bytes: int = _MAX_BYTES) -> bytes:
    """The bytes of a file that only its owner may read, all of them. Raises `ConfigurationError`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise ConfigurationError(f"the key file {path} cannot be read: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        # The open file is asked, not its name, so that what is judged is what is read.
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise ConfigurationError(f"the key file {path} is not a regular file")
        if mode & 0o077:
            raise ConfigurationError(f"others may read the key file {path}: chmod 600 {path}, then replace the key")
        found = file.read(most_bytes + 1)
    if len(found) > most_bytes:
        raise ConfigurationError(f"the key file {path} holds more than {most_bytes} bytes: it is none of this broker's")
    return found


def create_private_file(path: Path, content: bytes) -> bool:
    """Make the file, synced with its folder; False where it is there already. Raises `ConfigurationError`."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(descriptor)
            os.link(draft, path)
        except FileExistsError:
            return False
        finally:
            os.unlink(draft)
        _sync_folder(path.parent)
    except OSError as error:
        raise ConfigurationError(f"the key file {path} cannot be made: {error.strerror}") from error
    return True


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
