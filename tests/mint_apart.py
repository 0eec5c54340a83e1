"""A mint taken apart: it looks at the version's state in one step and writes the credential in others.

What the store does in one function is done here in four commands, so that a test can see what would slip between them.
"""

from __future__ import annotations

import struct

import redis.asyncio as redis_asyncio
from broker.adapters.redis.keys import raw_jti, tenant_keys
from broker.ports.store import Issue, Issued, IssueRefused

MINTABLE = (b"canary", b"stable", b"deprecated")
UNLIMITED = 0xFFFFFFFF


class MintApart:
    """The broken mint of one tenant, over as many connections as there are mints at once."""

    def __init__(self, url: str, tenant: str, *, gen: int, at_once: int = 64) -> None:
        self.gen = gen
        self.keys = tenant_keys(tenant)
        self.redis = redis_asyncio.Redis.from_url(url, max_connections=at_once)

    async def looks_mintable(self, issue: Issue) -> bool:
        """The look."""
        return await self.redis.hget(self.keys.states, issue.version) in MINTABLE  # type: ignore[misc, arg-type]

    async def write(self, issue: Issue) -> Issued:
        """What follows the look, whatever has happened since."""
        rseq = int(await self.redis.hget(self.keys.control, "seq"))  # type: ignore[misc, arg-type]
        gseq = int(await self.redis.hincrby(self.keys.control, "gseq", 1))  # type: ignore[misc, arg-type]
        jti = raw_jti(issue.jti)
        assert jti is not None
        numbers = b"".join(number.to_bytes(6, "big") for number in (self.gen, rseq, gseq))
        record = b"\x01" + jti + numbers + struct.pack(">II", UNLIMITED, issue.expires_at)
        await self.redis.set(self.keys.credential + jti, record, exat=issue.expires_at)
        return Issued(self.gen, rseq, gseq)

    async def issue(self, issue: Issue) -> Issued | IssueRefused:
        """Both, one after the other."""
        return await self.write(issue) if await self.looks_mintable(issue) else IssueRefused.NOT_MINTABLE

    async def close(self) -> None:
        await self.redis.aclose()
