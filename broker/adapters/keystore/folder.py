"""The folder of the broker's own keys, which replicas share.

| file                       | holds                                                                            |
|----------------------------|----------------------------------------------------------------------------------|
| `signing-<alg>-<n>.pem`    | a private signing key, PKCS #8                                                   |
| `audit-arguments-<n>.key`  | 32 random bytes under which the audit log digests arguments; the greatest n does |
| `retired-keys`             | one `kid` a line: keys that were revoked, for ever                               |

1. A file that cannot be used stops the start. It is never replaced: that would kill what it signed without a word.
2. Of several processes that make the next key at the same time, all use the one that was there first.
3. A retired key is on disk as such before anything relies on it. Its file stays, and is not read any more.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from broker.adapters.keystore.files import create_private_file, make_private_folder, read_private_file
from broker.domain.audit.arguments import DigestKey
from broker.domain.canonical import JsonObject
from broker.domain.errors import ConfigurationError
from broker.engines.jwk import (
    PrivateKey,
    generate_private_key,
    load_private_pem,
    private_pem,
    public_jwk,
    signing_algorithm,
)
from broker.engines.jws import encode_header

TOKEN_TYPE: Final = "at+jwt"  # noqa: S105
_SECRET_BYTES: Final = 32
_SIGNING: Final = re.compile(r"signing-([A-Za-z0-9]+)-([1-9][0-9]{0,5})\.pem")
_DIGEST: Final = re.compile(r"audit-arguments-([1-9][0-9]{0,5})\.key")
_RETIRED: Final = "retired-keys"
_MOST_RETIRED_BYTES: Final = 16_777_216

Stamp: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key and its public half. number: of two of one algorithm the greater one is the newer."""

    number: int
    algorithm: str
    private: PrivateKey
    jwk: JsonObject
    header: bytes

    @property
    def kid(self) -> str:
        return str(self.jwk["kid"])


class KeyFolder:
    """Reads and makes the files; keeps in mind what it has read, since a file never changes."""

    def __init__(self, path: Path) -> None:
        make_private_folder(path)
        self._path = path
        self._read: dict[str, SigningKey] = {}

    def stamp(self) -> Stamp:
        """Changes whenever a key was made or retired."""
        try:
            folder = os.stat(self._path)
        except OSError:
            return ()
        try:
            retired = os.stat(self._path / _RETIRED)
        except OSError:
            return (folder.st_mtime_ns,)
        return (folder.st_mtime_ns, retired.st_mtime_ns, retired.st_size)

    def signing_keys(self) -> tuple[SigningKey, ...]:
        """All signing keys but the retired ones. Raises `ConfigurationError`."""
        found = _files(self._path, _SIGNING)
        for path, match in found:
            if path.name not in self._read:
                self._read[path.name] = _load_signing(path, match)
        retired = self.retired()
        keys = [self._read[path.name] for path, _ in found]
        return tuple(key for key in keys if key.kid not in retired)

    def retired(self) -> frozenset[str]:
        """The `kid`s of retired keys. Raises `ConfigurationError`."""
        path = self._path / _RETIRED
        if not path.exists():
            return frozenset()
        return frozenset(line for line in _read_retired(path).splitlines() if line)

    def newest(self, algorithm: str) -> int:
        """The greatest number of its keys, retired ones too; 0 for none. Asked before `signing_keys`, see `make`."""
        numbers = [int(match[2]) for _, match in _files(self._path, _SIGNING) if match[1] == algorithm]
        return max(numbers, default=0)

    def make(self, algorithm: str, number: int) -> str | None:
        """Make a key under the number that follows `newest`; its name, None where another process was quicker (2)."""
        name = f"signing-{algorithm}-{number}.pem"
        pem = private_pem(generate_private_key(algorithm))
        return name if create_private_file(self._path / name, pem) else None

    def retire(self, kid: str) -> bool:
        """Write a key down as retired, synced; False where it was. Raises `ConfigurationError`."""
        with self._retired_file() as descriptor:
            held = os.read(descriptor, os.fstat(descriptor).st_size + 1)
            if kid in held.decode("utf-8", "replace").splitlines():
                return False
            # a line that a crash cut off must not run into this one
            torn = b"\n" if held and not held.endswith(b"\n") else b""
            os.write(descriptor, torn + kid.encode() + b"\n")
            os.fsync(descriptor)
        return True

    @contextmanager
    def _retired_file(self) -> Iterator[int]:
        path = self._path / _RETIRED
        try:
            create_private_file(path, b"")
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                yield descriptor
            finally:
                os.close(descriptor)
        except OSError as error:
            raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from None

    def make_digest_key(self) -> str | None:
        """Make the first key for digests of arguments where there is none; its name."""
        name = "audit-arguments-1.key"
        if _files(self._path, _DIGEST) or not create_private_file(
            self._path / name, secrets.token_bytes(_SECRET_BYTES)
        ):
            return None
        return name

    def digest_key(self) -> DigestKey:
        """The newest key for digests of arguments."""
        return max((_load_digest(path, match) for path, match in _files(self._path, _DIGEST)), key=lambda k: k.version)


def _read_retired(path: Path) -> str:
    return read_private_file(path, most_bytes=_MOST_RETIRED_BYTES).decode("utf-8", "replace")


def name_of(key: SigningKey) -> str:
    """The file of a signing key."""
    return f"signing-{key.algorithm}-{key.number}.pem"


def _files(folder: Path, pattern: re.Pattern[str]) -> list[tuple[Path, re.Match[str]]]:
    try:
        found = [(path, pattern.fullmatch(path.name)) for path in sorted(folder.iterdir())]
    except OSError as error:
        raise ConfigurationError(f"the key folder {folder} cannot be read: {error.strerror}") from None
    return [(path, match) for path, match in found if match is not None]


def _load_signing(path: Path, match: re.Match[str]) -> SigningKey:
    algorithm = match[1]
    private = load_private_pem(read_private_file(path))
    if private is None or signing_algorithm(private) != algorithm:
        raise ConfigurationError(
            f"the key file {path} holds no {algorithm} private key: restore it, or move it away to have a new one made"
        )
    jwk = public_jwk(private, algorithm=algorithm)
    header = encode_header({"typ": TOKEN_TYPE, "alg": algorithm, "kid": jwk["kid"]})
    return SigningKey(number=int(match[2]), algorithm=algorithm, private=private, jwk=jwk, header=header)


def _load_digest(path: Path, match: re.Match[str]) -> DigestKey:
    secret = read_private_file(path)
    if len(secret) != _SECRET_BYTES:
        raise ConfigurationError(
            f"the key file {path} does not hold {_SECRET_BYTES} bytes: restore it, or move it away for a new one"
        )
    return DigestKey(version=int(match[1]), secret=secret)
