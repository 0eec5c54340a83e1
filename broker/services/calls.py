"""What gates report of tool calls, and what they may know of versions.

1. Only an authenticated client with `report` under may; only of tools that `trust.yaml` lets it act for; `client` in the
   record is who reported, whatever the report says.
2. The whole batch is durable before it is acknowledged. A malformed entry refuses the batch, naming the entry.
3. `act` is a chain of actors as in a token (RFC 8693 §4.1); issuer and name of each are kept.
4. Raw arguments are not accepted. Texts are printable and numbers exact, so that every record can be shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from broker.domain.audit.records import Call, Record, ToolCallDenied, ToolCallEnded, ToolCallStarted
from broker.domain.canonical import MAX_INTEGER, JsonObject, JsonValue
from broker.domain.errors import Reason, Refusal
from broker.domain.ids import ToolName, parse_tool_name
from broker.domain.policy.document import ClientTrust
from broker.domain.scopes import within_patterns
from broker.domain.tokens.ancestors import named_actors
from broker.domain.tokens.client_auth import ClientCredentials
from broker.domain.tokens.subject import check_act
from broker.ports.store import CredentialStore
from broker.ports.system import Clock, Entropy
from broker.services.clients import Clients, replayed
from broker.services.recorder import Recorder

MAX_RECORDS: Final = 256
MAX_TEXT: Final = 512
STATUSES: Final = frozenset({"ok", "tool_error", "cancelled"})
_CALL: Final = (
    "version",
    "contract",
    "protocol_version",
    "agent",
    "agent_issuer",
    "account",
    "account_issuer",
    "task",
    "txn",
    "jti",
    "application",
)
_OWN: Final = frozenset({"event", "tool", "status", "duration_us", "reason", "where", "declared", "act", *_CALL})


class Calls:
    """The use cases; one for a process."""

    def __init__(
        self, *, clients: Clients, store: CredentialStore, recorder: Recorder, clock: Clock, entropy: Entropy
    ) -> None:
        self._clients = clients
        self._store = store
        self._recorder = recorder
        self._clock = clock
        self._entropy = entropy

    async def authorize(self, credentials: ClientCredentials | Refusal, power: str) -> ClientTrust | Refusal:
        """The client, if `trust.yaml` gives it this power; its assertion is used up."""
        found = await self._clients.client(credentials)
        if isinstance(found, Refusal):
            return found
        client, assertion = found
        if assertion is not None and not await self._store.take(assertion):
            return replayed()
        if power not in client.may:
            return Refusal(
                Reason.CLIENT_NOT_PERMITTED,
                f"trust.yaml gives this client no `{power}` under may",
                why=f"trust.yaml/clients/{client.client_id}/may has no {power}",
            )
        return client

    async def report(self, client: ClientTrust, body: JsonObject) -> Refusal | None:
        """Write reported calls down; None once all are durable."""
        entries = body.get("records")
        if not isinstance(entries, list) or not 0 < len(entries) <= MAX_RECORDS:
            return _malformed(f"1–{MAX_RECORDS} records were expected", "records")
        records: list[Record] = []
        for index, entry in enumerate(entries):
            record = self._read(client, entry, f"records/{index}")
            if isinstance(record, Refusal):
                return record
            records.append(record)
        await asyncio.gather(*(self._recorder.append(record) for record in records))
        return None

    def _read(self, client: ClientTrust, entry: JsonValue, where: str) -> Record | Refusal:
        if not isinstance(entry, dict):
            return _malformed("an object was expected", where)
        unknown = sorted(set(entry) - _OWN)
        if unknown:
            return _malformed(f"an unknown member; known are {', '.join(sorted(_OWN))}", where)
        tool = parse_tool_name(entry.get("tool"))
        if tool is None or not may_act_for(client, tool):
            return _malformed("a tool was expected that this client acts for", f"{where}/tool")
        for name in _OWN - {"event", "tool", "duration_us", "act"}:
            value = entry.get(name)
            if value is not None and not (isinstance(value, str) and len(value) <= MAX_TEXT and value.isprintable()):
                return _malformed(f"at most {MAX_TEXT} printable characters were expected", f"{where}/{name}")
        refused = check_act(entry["act"]) if "act" in entry else None
        if refused is not None:
            return _malformed(refused.detail, f"{where}/act")
        call = _call(client, tool, entry)
        identity = self._entropy.token()
        now = self._clock.timestamp()
        match entry.get("event"):
            case "start":
                return ToolCallStarted(id=identity, ts=now, call=call)
            case "end":
                status, duration = entry.get("status"), entry.get("duration_us")
                if (
                    status not in STATUSES
                    or not isinstance(duration, int)
                    or isinstance(duration, bool)
                    or not 0 <= duration <= MAX_INTEGER
                ):
                    return _malformed(
                        f"status ({', '.join(sorted(STATUSES))}) and duration_us (microseconds) were expected", where
                    )
                return ToolCallEnded(id=identity, ts=now, call=call, status=str(status), duration_us=duration)
            case "deny":
                return ToolCallDenied(
                    id=identity,
                    ts=now,
                    call=call,
                    reason=_text(entry.get("reason")) or "unstated",
                    where=_text(entry.get("where")),
                    declared=_text(entry.get("declared")),
                )
            case _:
                return _malformed("start, end or deny was expected", f"{where}/event")


def may_act_for(client: ClientTrust, tool: ToolName) -> bool:
    """Whether `trust.yaml` lets the client act for this tool."""
    return within_patterns(tool, client.tools)


def _call(client: ClientTrust, tool: ToolName, entry: Mapping[str, JsonValue]) -> Call:
    values = {name: _text(entry.get(name)) for name in _CALL}
    absent = {name: "not reported by the gate" for name, value in values.items() if value is None}
    absent["arguments"] = "in the mint record of the same txn"
    act = named_actors(entry.get("act"))
    return Call(tool=tool, client=client.client_id, absent=absent, act=act, **values)  # type: ignore[arg-type]  # none is `arguments`


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None


def _malformed(detail: str, where: str) -> Refusal:
    return Refusal(Reason.PARAMETER_INVALID, detail, where=where)
