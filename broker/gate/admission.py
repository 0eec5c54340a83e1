"""From a call to a credential: the gate's own steps, for every form of it (DESIGN §7, 2–4).

1. The tool's versions, from the catalogue. The broker does not know the tool: refused as unknown.
2. The version that the call is for; its published contract; arguments against that contract and its closure; the digest
   of what this process serves. All of this is `domain.dispatch`, here it is given the facts.
3. The exchange. A call has one `txn`, also where it is exchanged again.
4. What refuses a call for its version may be out of date, by at most the catalogue's age. So such a refusal, and one by
   the broker for the version's state, has the catalogue asked anew and the call judged once more; then it stands.
5. No broker: refused. Nothing is ever admitted on what was known before.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from broker.domain.canonical import JsonError, JsonObject, canonical_json
from broker.domain.dispatch import (
    Code,
    Declaration,
    InvalidArguments,
    Refuse,
    Run,
    judge,
    refused_by_broker,
    refused_exchange,
    resolve,
    unavailable,
    unknown_tool,
)
from broker.domain.errors import Reason, Refusal
from broker.domain.ids import Digest, TaskName, ToolName, Version, parse_version
from broker.domain.lifecycle.states import VersionRecord
from broker.domain.schema.dialect import SchemaError
from broker.domain.scopes import parse_scope_parameter
from broker.engines import jws
from broker.gate.broker_client import BrokerClient, ExchangeCall, Granted
from broker.gate.broker_http import BrokerUnreachableError, Refused
from broker.gate.catalogue import Catalogue, ToolVersions
from broker.gate.handoff import HeldCredential
from broker.gate.subject import VerifiedSubject

_STATE_REASONS: Final = frozenset(
    reason.value
    for reason in (
        Reason.VERSION_UNKNOWN,
        Reason.VERSION_NOT_SERVED,
        Reason.VERSION_RETIRED,
        Reason.VERSION_ROLLED_BACK,
        Reason.VERSION_NOT_ROUTED,
        Reason.CONTRACT_MISMATCH,
    )
)
_STATE_CODES: Final = frozenset(
    {Code.INVALID_PARAMS, Code.SCHEMA_VERSION_RETIRED, Code.SCHEMA_VERSION_UNKNOWN, Code.CREDENTIAL_REFUSED}
)

logger = logging.getLogger("broker.gate")

Served: TypeAlias = Callable[[Version], Awaitable[Digest | None]]
"""Digest of the contract that this process serves for a version of the tool; None where it serves none."""


@dataclass(frozen=True, slots=True)
class Call:
    """One tools/call, as far as it was read. tool: the canonical name."""

    tool: ToolName
    arguments: JsonObject = field(repr=False)
    declaration: Declaration
    task: TaskName | None
    caller: VerifiedSubject
    txn: str
    protocol_version: str | None
    application: str | None


@dataclass(frozen=True, slots=True)
class Admitted:
    """The call may run this version, with this credential."""

    record: VersionRecord
    credential: HeldCredential
    undeclared: bool


Outcome: TypeAlias = Admitted | Refuse | InvalidArguments


class Admission:
    """Judges calls. Use it from one event loop."""

    def __init__(self, broker: BrokerClient, catalogue: Catalogue) -> None:
        self._broker = broker
        self._catalogue = catalogue

    async def admit(self, call: Call, served: Served) -> Outcome:
        """Whether a call may run, and what it runs with."""
        outcome = await self._try(call, served, not_before=None)
        if _may_be_out_of_date(outcome):
            outcome = await self._try(call, served, not_before=self._catalogue.now())
        return outcome.refuse if isinstance(outcome, _ByBroker) else outcome

    async def _try(self, call: Call, served: Served, *, not_before: float | None) -> Outcome | _ByBroker:
        try:
            known = await self._catalogue.of(call.tool, not_before=not_before)
            if known is None:
                return unknown_tool(call.tool)
            decision = await _decide(call, known, served)
            if isinstance(decision, Run):
                return await self._exchange(call, known, decision)
            return decision
        except BrokerUnreachableError as error:
            logger.warning("call refused, tool=%s txn=%s: %s", call.tool, call.txn, error)
            return unavailable(call.tool, error.retry_after_seconds)

    async def _exchange(self, call: Call, known: ToolVersions, run: Run) -> Admitted | _ByBroker:
        record = run.record
        answer = await self._broker.exchange(
            ExchangeCall(
                tool=record.tool,
                version=record.version,
                contract=record.contract,
                task=call.task,
                arguments=call.arguments,
                txn=call.txn,
                protocol_version=call.protocol_version,
                application=call.application,
                resource=known.audience,
            ),
            subject_token=call.caller.token,
        )
        if isinstance(answer, Refused):
            logger.info(
                "exchange refused, tool=%s txn=%s reason=%s request=%s",
                record.id,
                call.txn,
                answer.reason,
                answer.request_id,
            )
            current = parse_version(answer.data.get("current"))
            return _ByBroker(
                answer.reason, refused_exchange(record, answer.reason, answer.description, current=current)
            )
        return Admitted(record, _held(answer, known, record, call.txn), undeclared=run.undeclared)


@dataclass(frozen=True, slots=True)
class _ByBroker:
    """A refusal that the broker gave at the exchange, for `reason`."""

    reason: str
    refuse: Refuse


def _may_be_out_of_date(outcome: Outcome | _ByBroker) -> bool:
    match outcome:
        case _ByBroker():
            return outcome.reason in _STATE_REASONS
        case Refuse():
            return outcome.code in _STATE_CODES
    return False


async def _decide(call: Call, known: ToolVersions, served: Served) -> Run | Refuse | InvalidArguments:
    subject = call.caller.subject
    target = resolve(call.tool, known.records, call.declaration, agent=subject.agent, account=subject.account)
    if isinstance(target, Refuse):
        return target
    record = target.record
    published = known.contracts.get(record.version)
    if published is None:
        return refused_by_broker(
            record.tool, record.version, Reason.CONTRACT_MISMATCH.value, "its published contract is not usable here"
        )
    omitted: tuple[str, ...] = ()
    try:
        canonical_json(call.arguments)  # what has no one spelling can be neither bound nor recorded
        problem = published.problem(call.arguments)
        if problem is None and not target.declared:
            omitted = published.omitted(call.arguments)
    except (JsonError, SchemaError) as error:
        problem = str(error)
    return judge(target, problem=problem, omitted=omitted, served=await served(record.version))


def _held(granted: Granted, known: ToolVersions, record: VersionRecord, txn: str) -> HeldCredential:
    """The credential as the tool sees it. The broker's answer is believed, but not that it is of the form promised."""
    unverified = jws.read_unverified(granted.token)
    claims = unverified if isinstance(unverified, Refusal) else unverified.unverified_claims()
    scopes = parse_scope_parameter(granted.scope)
    task = granted.details[0].get("task") if len(granted.details) == 1 else None
    if isinstance(claims, Refusal) or scopes is None or not isinstance(task, str):
        raise BrokerUnreachableError("the broker's answer to an exchange holds no credential of its own form")
    jti, audience = claims.get("jti"), claims.get("aud")
    if not isinstance(jti, str) or audience != known.audience:
        raise BrokerUnreachableError("the broker's answer to an exchange holds a credential for another audience")
    return HeldCredential(
        token=granted.token,
        scopes=scopes,
        task=task,
        tool=record.tool,
        version=record.version,
        audience=known.audience,
        expires_at=int(time.time()) + granted.expires_in_seconds,
        jti=jti,
        txn=txn,
    )
