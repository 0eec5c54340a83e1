"""The operators of the story: the real `broker version …` command, in a process of its own, and its answers told."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from broker.cli.admin_client import AdminClient

from .processes import ROOT, wait_until
from .stage import Stage
from .telling import Teller

Then: TypeAlias = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Ran:
    """One command. started and acknowledged (its first line out, or the one that was waited for): Unix seconds."""

    code: int
    output: str
    started: float
    acknowledged: float


class Operators:
    """`operator` publishes and retires, `rollout-bot` canaries, promotes and rolls back, as trust.yaml lets them."""

    def __init__(self, stage: Stage, teller: Teller) -> None:
        self._stage = stage
        self._teller = teller

    async def run(self, *words: str, admin: str = "operator", says: str = "", then: Then | None = None) -> Ran:
        """One command, told, and expected to succeed. then: run as soon as a line of its output begins with `says`."""
        return self._tell(words, admin, await self._run(words, admin, says, then))

    async def run_all(self, *commands: tuple[str, ...]) -> None:
        """Commands that do not depend on each other, side by side."""
        ran = await asyncio.gather(*(self._run(words, "operator") for words in commands))
        for words, each in zip(commands, ran, strict=True):
            self._tell(words, "operator", each)

    async def versions(self, tool: str) -> dict[str, Mapping[str, Any]]:
        """All versions of a tool, by number."""
        ran = await self._run(("list", "--tool", tool, "--json"), "operator")
        return {record["version"]: record for record in json.loads(ran.output)["versions"]}

    async def records(self) -> list[dict[str, Any]]:
        """All audit records so far."""
        client = AdminClient(self._stage.broker, "operator", self._stage.key("operator"))
        found: list[dict[str, Any]] = []
        while True:
            page = await asyncio.to_thread(client.call, "GET", "/admin/records", query={"start": len(found)})
            if not page["records"]:
                return found
            found += page["records"]

    async def records_when(self, holds: Callable[[list[dict[str, Any]]], bool], what: str) -> list[dict[str, Any]]:
        """All records, once something holds of them: a gate reports some of what it did a moment later."""

        async def look() -> list[dict[str, Any]] | None:
            found = await self.records()
            return found if holds(found) else None

        return await wait_until(look, what)

    def _tell(self, words: tuple[str, ...], admin: str, ran: Ran) -> Ran:
        self._teller.sent(f"{admin} $ broker version {shlex.join(words)}")
        for line in ran.output.splitlines():
            self._teller.got(line)
        if ran.code != 0:
            self._teller.equal("the command succeeds", expected=0, found=ran.code)
        return ran

    async def _run(self, words: tuple[str, ...], admin: str, says: str = "", then: Then | None = None) -> Ran:
        options = ["--url", self._stage.broker, "--admin", admin, "--key", str(self._stage.key(admin))]
        started = time.time()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "broker.cli.main", "version", *words, *options),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        assert process.stdout is not None
        first = line = await process.stdout.readline()
        while line and not line.startswith(says.encode()):
            line = await process.stdout.readline()
            first += line
        acknowledged = time.time()
        if then is not None:
            await then()
        rest = await process.stdout.read()
        code = await process.wait()
        return Ran(code, (first + rest).decode(), started, acknowledged)
