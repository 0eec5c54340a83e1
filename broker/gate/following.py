"""One follower for all that need it in a process: a gate and a verifier of one client share its view, lease and connections.

1. What is shared is found when it is first needed, in the event loop that needs it: by broker, client and state file.
2. It ends with the last that gives its share back, or with the loop.
3. The state file is read at once, so that a mistake in the settings stops the start and not the first request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from broker.domain.ids import ToolName
from broker.domain.revocation.lease import WAIT_SECONDS
from broker.domain.revocation.view import Standing
from broker.gate.client_auth import ClientAuth
from broker.gate.credentials import Presented
from broker.gate.feed_client import FeedClient
from broker.gate.feed_state import Seen, StateFile, default_path
from broker.gate.follower import SILENCE_SECONDS, Follower
from broker.gate.seconds import elapsed_seconds

START_SECONDS: Final = 2.0
"""How long the first requests wait for the feed, where nobody started it before them."""

StateSetting: TypeAlias = "str | Path | Literal['default'] | None"

logger = logging.getLogger("broker.gate")

_Key: TypeAlias = tuple[str, tuple[str, ...], str, Path | None]


@dataclass(slots=True)
class _Shared:
    follower: Follower
    holders: int


_shared: dict[tuple[asyncio.AbstractEventLoop, _Key], _Shared] = {}


class Following:
    """A share in a follower. Use it from one event loop.

    state_file: a path; "default" is one below the user's state folder; None: what was seen is forgotten at a restart.
    Raises `ConfigurationError`.
    """

    def __init__(
        self, urls: Sequence[str], auth: ClientAuth, *, issuer: str, state_file: StateSetting = "default"
    ) -> None:
        if state_file is None:
            logger.warning(
                "state_file=None: after a restart this verifier believes what it is told first, even by a broker on an old store"
            )
            path = None
        else:
            path = (
                default_path(issuer=issuer, client_id=auth.client_id) if state_file == "default" else Path(state_file)
            )
        self._state = StateFile(path, issuer=issuer, client_id=auth.client_id) if path is not None else None
        if self._state is not None:
            self._state.open()
        self._urls = tuple(urls)
        self._auth = auth
        self._key: _Key = (issuer, self._urls, auth.client_id, path)
        self._held: tuple[asyncio.AbstractEventLoop, _Shared] | None = None

    def start(self) -> Follower:
        """The follower, at work; it is begun where nobody has yet."""
        loop = asyncio.get_running_loop()
        if self._held is not None and self._held[0] is loop:
            return self._held[1].follower
        for known in [known for known in _shared if known[0].is_closed()]:
            del _shared[known]
        shared = _shared.get((loop, self._key))
        if shared is None:
            client = FeedClient(self._urls, self._auth, silence_seconds=SILENCE_SECONDS)
            seen = self._state.open() if self._state is not None else Seen()
            shared = _shared[loop, self._key] = _Shared(Follower(client, state=self._state, seen=seen), 0)
            shared.follower.start()
        shared.holders += 1
        self._held = (loop, shared)
        return shared.follower

    async def aclose(self) -> None:
        """Give the share back; again is nothing."""
        if self._held is None:
            return
        (loop, shared), self._held = self._held, None
        shared.holders -= 1
        if not shared.holders:
            del _shared[loop, self._key]
            await shared.follower.aclose()

    def changed_at(self, tool: ToolName) -> float:
        """When the feed last said something of a tool's versions, by `elapsed_seconds`; begins to follow."""
        return self.start().changed_at(tool)

    async def judge(self, presented: Presented) -> Standing:
        """What is known of a credential; `UNKNOWN` where no lease is held. Waits shortly for what is about to be known."""
        follower = self.start()
        standing = presented.standing(follower)
        if standing not in (Standing.AHEAD, Standing.UNKNOWN):
            return standing
        begun = elapsed_seconds()
        until = begun + WAIT_SECONDS
        if not follower.has_been_fresh:
            until = max(until, follower.started_at + START_SECONDS)
        while standing in (Standing.AHEAD, Standing.UNKNOWN):
            left = until - elapsed_seconds()
            if left <= 0 or not await follower.moved(within_seconds=left):
                break
            standing = presented.standing(follower)
        return standing
