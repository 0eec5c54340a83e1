"""What the broker says of each tool, kept for a second.

1. An entry is used for `ttl_seconds`, then asked for again with its ETag; at once where the broker's feed, if this process
   follows it, has said something of the tool's versions since. Requests for one tool share one answer.
2. Who has reason to doubt an entry asks for one that is not older than a moment: the entry was asked for after it.
3. The broker away: the last entry stays, and can only lead to a refusal, since the exchange fails then, too. Without an
   entry: `BrokerUnreachableError`. The broker is asked again after `RETRY_SECONDS`.
4. A contract counts only if its digest is the record's; a version without one is served to nobody.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from broker.domain.canonical import JsonObject
from broker.domain.contracts.contract import ContractError, ToolContract, parse_contract
from broker.domain.ids import Digest, ToolName, Version
from broker.domain.lifecycle.states import VersionRecord, read_record
from broker.domain.schema.closure import omitted_defaults
from broker.engines.arguments import ArgumentValidator
from broker.gate.broker_client import BrokerClient
from broker.gate.broker_http import BrokerUnreachableError, Refused
from broker.gate.seconds import elapsed_seconds

RETRY_SECONDS: Final = 0.5
_MAX_COMPILED: Final = 512

logger = logging.getLogger("broker.gate")


@dataclass(frozen=True, slots=True)
class PublishedContract:
    """A version's contract, compiled."""

    contract: ToolContract
    validator: ArgumentValidator

    def problem(self, arguments: JsonObject) -> str | None:
        """Why contract or closure refuse the arguments; None where both accept them."""
        return self.validator.problem(arguments)

    def omitted(self, arguments: JsonObject) -> tuple[str, ...]:
        """Pointers of the properties with a default that the arguments leave out."""
        return omitted_defaults(self.contract.input_schema, arguments)


@dataclass(frozen=True, slots=True)
class ToolVersions:
    """One tool as the broker knows it. contracts: those of the records that have a usable one."""

    tool: ToolName
    audience: str
    records: tuple[VersionRecord, ...]
    contracts: Mapping[Version, PublishedContract]


@dataclass(frozen=True, slots=True)
class _Entry:
    known: ToolVersions | None = None
    etag: str | None = None
    asked_at: float = float("-inf")
    retry_at: float = float("-inf")
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Catalogue:
    """The versions of the tools that this process serves. Ask for served names only: each name is remembered."""

    def __init__(
        self,
        broker: BrokerClient,
        *,
        changed_at: Callable[[ToolName], float] = lambda tool: float("-inf"),
        ttl_seconds: float = 1.0,
        clock: Callable[[], float] = elapsed_seconds,
    ) -> None:
        """changed_at: a moment of `clock`, when the tool's versions were last heard to change."""
        self._broker = broker
        self._changed_at = changed_at
        self._ttl = ttl_seconds
        self.now = clock
        self._entries: dict[ToolName, _Entry] = {}
        self._compiled: dict[Digest, PublishedContract] = {}

    async def of(self, tool: ToolName, *, not_before: float | None = None) -> ToolVersions | None:
        """The versions of a tool; None where the broker knows no such tool, or does not show it to this client.

        not_before: a moment of `now()`; an entry that was asked for earlier is asked for again.
        """
        entry = self._entries.setdefault(tool, _Entry())
        wanted = max(self.now() - self._ttl, self._changed_at(tool)) if not_before is None else not_before
        if entry.asked_at >= wanted:
            return entry.known
        async with entry.lock:
            entry = self._entries[tool]
            now = self.now()
            if entry.asked_at >= wanted or (entry.asked_at > float("-inf") and now < entry.retry_at):
                return entry.known
            if now < entry.retry_at:
                raise BrokerUnreachableError("the broker did not answer a moment ago")
            try:
                entry = await self._ask(tool, entry, now)
            except BrokerUnreachableError:
                self._entries[tool] = replace(entry, retry_at=self.now() + RETRY_SECONDS)
                if entry.asked_at == float("-inf"):
                    raise
                logger.warning("broker unreachable; tool %s is judged by what it last said", tool)
                return entry.known
            self._entries[tool] = entry
            return entry.known

    async def _ask(self, tool: ToolName, entry: _Entry, now: float) -> _Entry:
        answer = await self._broker.versions(tool, etag=entry.etag)
        match answer:
            case None:
                return replace(entry, known=None, etag=None, asked_at=now)
            case Refused():  # of this server, not of the tool: nothing is known, so nothing may run
                raise BrokerUnreachableError(f"the broker refuses this server: {answer.reason}")
        if answer.body is None:
            return replace(entry, asked_at=now)
        return replace(entry, known=self._read(tool, answer.body), etag=answer.etag, asked_at=now)

    def _read(self, tool: ToolName, body: JsonObject) -> ToolVersions:
        audience, listed = body.get("audience"), body.get("versions")
        if body.get("tool") != tool or not isinstance(audience, str) or not isinstance(listed, list):
            raise BrokerUnreachableError("the broker's answer does not describe the tool that was asked for")
        records: list[VersionRecord] = []
        contracts: dict[Version, PublishedContract] = {}
        for item in listed:
            try:
                if not isinstance(item, dict):
                    raise ValueError("a version is a JSON object")
                record = read_record(item)
            except ValueError as error:
                raise BrokerUnreachableError(f"the broker lists a version that cannot be read: {error}") from None
            records.append(record)
            contract = self._contract(record, item.get("members"))
            if contract is not None:
                contracts[record.version] = contract
        return ToolVersions(tool=tool, audience=audience, records=tuple(records), contracts=contracts)

    def _contract(self, record: VersionRecord, members: object) -> PublishedContract | None:
        made = self._compiled.get(record.contract)
        if made is not None:
            return made
        try:
            contract = parse_contract(members)
            if contract.digest != record.contract:
                raise ContractError(f"the members' digest is {contract.digest}, the record's is {record.contract}")
            made = PublishedContract(contract=contract, validator=ArgumentValidator(contract))
        except ContractError as error:
            logger.warning("the contract of %s is not usable: %s", record.id, error)
            return None
        if len(self._compiled) >= _MAX_COMPILED:
            self._compiled.clear()
        self._compiled[record.contract] = made
        return made
