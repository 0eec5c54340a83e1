"""What the steps of the story share: the stage, the people on it, and the one credential that dies on the way."""

from __future__ import annotations

from dataclasses import dataclass

from .callers import Caller
from .exchanges import Credential, Exchanges
from .operators import Operators
from .processes import wait_until
from .stage import Stage
from .telling import Teller


@dataclass(slots=True)
class Scene:
    """ana and bob are analysts, dora a database administrator, eve a guest. bob has the official client.

    first_canary: ana's credential for version 4, from before its rollback.
    """

    stage: Stage
    tell: Teller
    operators: Operators
    exchanges: Exchanges
    ana: Caller
    bob: Caller
    dora: Caller
    eve: Caller
    first_canary: Credential | None = None

    async def until_listed(self, caller: Caller, version: str) -> None:
        """Wait until a person's tools/list shows this version of db.query."""

        async def look() -> bool | None:
            return True if await caller.listed_version("db.query") == version else None

        await wait_until(look, f"tools/list shows db.query {version} to {caller.name}")
