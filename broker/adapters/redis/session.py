"""What the three ports share: the connection, the tenant's keys, and the incarnation that is spoken to.

`gen` is 0 until a broker has adopted or claimed an incarnation, and again when the store lost its functions: then every
call fails before it is sent. `seq` is the highest sequence seen; a store that shows a lower one has lost revocations.
"""

from __future__ import annotations

from redis.exceptions import ResponseError

from broker.adapters.redis.keys import TenantKeys
from broker.adapters.redis.pipeline import Pipeline
from broker.adapters.redis.replies import failure_of, is_function_missing
from broker.domain.errors import BrokerError, StoreUnclaimedError


class Session:
    """Calls to the store's functions on behalf of one tenant."""

    __slots__ = ("gen", "keys", "pipeline", "seq")

    def __init__(self, pipeline: Pipeline, keys: TenantKeys) -> None:
        self.pipeline = pipeline
        self.keys = keys
        self.gen = 0
        self.seq = 0

    async def step(self, function: bytes, keys: tuple[bytes, ...], *arguments: bytes | str | int) -> list[object]:
        """One fenced call; its reply. Raises what the reply stands for."""
        return self.reply(await self.pipeline.call(*self.fenced(function, keys, *arguments)))

    def fenced(
        self, function: bytes, keys: tuple[bytes, ...], *arguments: bytes | str | int
    ) -> tuple[bytes | str | int, ...]:
        """The command of a fenced call."""
        if not self.gen:
            raise StoreUnclaimedError("no incarnation of the store has been adopted or claimed yet")
        return (b"FCALL", function, len(keys), *keys, self.gen, self.seq, *arguments)

    async def command(self, *command: bytes | str | int) -> object:
        """One command outside the fence, for looking at the store. Raises what the reply stands for."""
        reply = await self.pipeline.call(*command)
        if isinstance(reply, ResponseError):
            raise failure_of(reply)
        if isinstance(reply, BrokerError):
            raise type(reply)(*reply.args)
        return reply

    def reply(self, reply: object) -> list[object]:
        """A function's reply as a list, or the failure that it stands for."""
        if type(reply) is list:
            return reply
        if isinstance(reply, BrokerError):
            raise type(reply)(*reply.args)  # one for each caller: the pipeline hands the same to all
        if isinstance(reply, ResponseError):
            if is_function_missing(reply):
                self.gen = 0  # whoever took the functions away may have taken more: look at the store again first
            raise failure_of(reply)
        return [reply]

    def saw(self, seq: int) -> None:
        """The store was seen at this sequence."""
        if seq > self.seq:
            self.seq = seq
