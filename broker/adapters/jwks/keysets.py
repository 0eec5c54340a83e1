"""The key sets of issuers, clients and administrators, from files and URLs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

from broker.adapters.jwks.fetch import DEADLINE_SECONDS, fetch_jwks, open_client
from broker.adapters.jwks.files import KeyFile
from broker.domain.errors import Refusal
from broker.domain.policy.document import KeySource
from broker.domain.tokens.keys import VerificationKey
from broker.domain.tokens.keyset import Schedule
from broker.engines.key_cache import KeyCache


class HttpKeySets:
    """`ports.keys.KeySets` over HTTP and files. One set is kept for each source that policy names, so they are few."""

    def __init__(
        self,
        *,
        schedule: Schedule | None = None,
        deadline_seconds: float = DEADLINE_SECONDS,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._schedule = schedule or Schedule()
        self._deadline_seconds = deadline_seconds
        self._seconds = seconds
        self._client = open_client()
        self._caches: dict[str, KeyCache] = {}
        self._files: dict[str, KeyFile] = {}

    async def find(self, source: KeySource, *, kid: str | None, algorithm: str) -> VerificationKey | Refusal:
        """The one key that fits. Refused: `TOKEN_KEY_UNKNOWN`, or `TOKEN_KEYS_UNAVAILABLE` where no set is known."""
        if source.file is not None:
            file = self._files.get(source.file)
            if file is None:
                file = self._files[source.file] = KeyFile(source.file, schedule=self._schedule)
            return file.find(now=self._seconds(), kid=kid, algorithm=algorithm)
        if source.url is None:
            raise ValueError("a key source is a file or a URL")
        cache = self._caches.get(source.url)
        if cache is None:
            fetch = partial(fetch_jwks, self._client, source.url, deadline_seconds=self._deadline_seconds)
            cache = KeyCache(source.url, fetch, schedule=self._schedule, seconds=self._seconds)
            self._caches[source.url] = cache
        return await cache.find(kid=kid, algorithm=algorithm)

    async def close(self) -> None:
        """Give up fetches under way and close the connections."""
        await asyncio.gather(*(cache.close() for cache in self._caches.values()))
        await self._client.aclose()
