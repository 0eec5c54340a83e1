"""Very many live credentials of one version, written as fast as the store takes them.

Each is written by the store's own function, with the very arguments that the adapter sends; only the `jti` differs. What
waits in the outbox is acknowledged batch by batch, as a broker does.
"""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any
from urllib.parse import unquote, urlsplit

from broker.adapters.redis.credentials import RedisCredentials
from broker.adapters.redis.keys import JTI_BYTES, tenant_keys
from broker.adapters.redis.session import Session
from broker.domain.ids import VersionId
from broker.ports.store import Issue
from hiredis import Reader, pack_command

BATCH = 1000
TEMPLATE = bytes(range(JTI_BYTES))
LIFE_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Minting:
    """What all of them have in common. gen, seq: of the store."""

    url: str
    tenant: str
    version: VersionId
    gen: int
    seq: int


class _Seen:
    """A pipeline that sends nothing and keeps what it was to send."""

    def __init__(self, seq: int) -> None:
        self.command: tuple[Any, ...] = ()
        self.seq = seq

    async def call(self, *command: Any) -> object:
        self.command = command
        return [b"issued", self.seq, 1]


def _command(minting: Minting) -> tuple[Any, ...]:
    """What the adapter sends for the credential `TEMPLATE`."""
    seen = _Seen(minting.seq)
    session = Session(seen, tenant_keys(minting.tenant))  # type: ignore[arg-type]
    session.gen, session.seq = minting.gen, minting.seq
    issue = Issue(
        spell(TEMPLATE), minting.version, minting.seq, int(time.time()) + LIFE_SECONDS, None, b'{"type":"mint"}'
    )
    asyncio.run(RedisCredentials(session).issue(issue))
    return seen.command


def spell(raw: bytes) -> str:
    """A `jti` from its bytes."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def mint(minting: Minting, count: int, sampled: int) -> list[str]:
    """Write `count` credentials over one connection; the jti of every one in `count // sampled`."""
    command = _command(minting)
    keys = tenant_keys(minting.tenant)
    key = keys.credential + TEMPLATE
    sample: list[str] = []
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(unquote(urlsplit(minting.url).path))
        reader = Reader()
        for jtis in _batches(count):
            packed = [_pack(command, key, keys.credential, jti) for jti in jtis]
            replies = _exchange(connection, reader, packed)
            wrong = next((reply for reply in replies if type(reply) is not list or reply[0] != b"issued"), None)
            if wrong is not None:
                raise RuntimeError(f"not issued: {wrong!r}")
            settled = [reply[2] for reply in replies]
            control = (b"FCALL", b"outbox_acknowledge_1", 2, keys.control, keys.outbox, minting.gen, minting.seq)
            _exchange(connection, reader, [pack_command((*control, *settled))])
            sample += [spell(jti) for jti in jtis[:: max(1, count // sampled)]]
    return sample[:sampled]


def mint_many(minting: Minting, count: int, *, sampled: int, processes: int) -> list[str]:
    """The same from several processes at once."""
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        shares = [pool.submit(mint, minting, count // processes, sampled // processes) for _ in range(processes)]
        return [jti for share in shares for jti in share.result()]


def _batches(count: int) -> Iterator[list[bytes]]:
    for start in range(0, count, BATCH):
        many = min(BATCH, count - start)
        raw = os.urandom(JTI_BYTES * many)
        yield [raw[at : at + JTI_BYTES] for at in range(0, len(raw), JTI_BYTES)]


def _pack(command: tuple[Any, ...], key: bytes, prefix: bytes, jti: bytes) -> bytes:
    return pack_command(tuple(prefix + jti if part == key else jti if part == TEMPLATE else part for part in command))


def _exchange(connection: socket.socket, reader: Reader, packed: list[bytes]) -> list[Any]:
    connection.sendall(b"".join(packed))
    replies: list[Any] = []
    while len(replies) < len(packed):
        reader.feed(connection.recv(1 << 20))
        while (reply := reader.gets()) is not False:
            replies.append(reply)
    return replies
