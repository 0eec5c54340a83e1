"""The key sets that a gate believes: one cache for each source, made when it is first asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from broker.domain.errors import Refusal
from broker.domain.policy.document import KeySource
from broker.domain.tokens.keys import VerificationKey
from broker.domain.tokens.keyset import Schedule
from broker.engines.key_cache import KeyCache, KeysUnreadableError
from broker.gate.jwks import MAX_BYTES, GateKeys

# A verifier that starts before its broker is not kept waiting for long.
_URLS: Final = Schedule(cooldown_seconds=5)
_FILES: Final = Schedule(ttl_seconds=5, cooldown_seconds=1)


class _FileKeys:
    """The keys in one file, read again every few seconds."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._cache = KeyCache(path, self._read, schedule=_FILES)

    async def find(self, *, kid: str | None, algorithm: str) -> VerificationKey | Refusal:
        return await self._cache.find(kid=kid, algorithm=algorithm)

    async def close(self) -> None:
        await self._cache.close()

    async def _read(self) -> bytes:
        return await asyncio.to_thread(self._read_file)

    def _read_file(self) -> bytes:
        try:
            with self._path.open("rb") as file:
                text = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise KeysUnreadableError(f"the file cannot be read: {error.strerror}") from None
        if len(text) > MAX_BYTES:
            raise KeysUnreadableError(f"the file is over {MAX_BYTES} bytes")
        return text


class GateKeySets:
    """`ports.keys.KeySets` for a gate or a verifier.

    elsewhere: for a source's URL, others that give the same keys.
    """

    def __init__(self, elsewhere: Mapping[str, Sequence[str]] | None = None) -> None:
        self._elsewhere = elsewhere or {}
        self._sources: dict[KeySource, GateKeys | _FileKeys] = {}

    async def find(self, source: KeySource, *, kid: str | None, algorithm: str) -> VerificationKey | Refusal:
        """The one key of the source that fits."""
        keys = self._sources.get(source)
        if keys is None:
            keys = self._sources[source] = self._open(source)
        return await keys.find(kid=kid, algorithm=algorithm)

    async def close(self) -> None:
        """Give up fetches under way and close the connections."""
        for keys in self._sources.values():
            await keys.close()

    def _open(self, source: KeySource) -> GateKeys | _FileKeys:
        if source.url is not None:
            return GateKeys(source.url, *self._elsewhere.get(source.url, ()), schedule=_URLS)
        if source.file is not None:
            return _FileKeys(source.file)
        raise ValueError("a key source is a URL or a file")


def broker_keys(urls: Sequence[str]) -> tuple[KeySource, GateKeySets]:
    """The keys of a broker that answers under these addresses."""
    first, *others = [f"{url}/jwks.json" for url in urls]
    return KeySource(url=first), GateKeySets({first: others})
