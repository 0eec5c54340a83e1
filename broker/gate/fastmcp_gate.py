"""The gate as fastmcp middleware: what it does with each call and each listing. `fastmcp.version_gate` makes one from settings.

For each `tools/call`, also those that a tool makes while it runs (DESIGN §7):

1. The name is served here and known to the broker, or stands in `ungated`. The request's JSON has one reading, the caller
   is authenticated by our own verifier.
2. `admission`: version, arguments, contract pin, exchange.
3. The start is on record, then exactly the version that was decided on runs, through the middlewares inside this one,
   with `broker.gate.credential()` in reach and the caller's own token out of it.
4. However it ended, the credential is given back and the end recorded, before the answer goes out or at a deadline.

`tools/list` shows each caller one version a tool, the one it is routed to, and nothing that is not served as published.
Put this middleware first: what stands before it sees calls that it will refuse.

Not seen on stdio: two members of one name in a request, since the framework hands over no text there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import mcp_types
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.auth import AuthProvider, RemoteAuthProvider
from fastmcp.server.context import Context
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools.base import InputRequiredToolResult, Tool, ToolResult
from mcp import MCPError
from pydantic import AnyHttpUrl

from broker.domain.contracts.contract import META_TASK
from broker.domain.dispatch import (
    Code,
    InvalidArguments,
    Refuse,
    malformed,
    refused_by_broker,
    unavailable,
    unknown_tool,
)
from broker.domain.errors import Reason, Refusal
from broker.domain.ids import parse_task_name, parse_tool_name
from broker.domain.tokens.ancestors import named_actors
from broker.gate.admission import Admission, Admitted, Call
from broker.gate.broker_client import BrokerClient
from broker.gate.broker_http import BrokerUnreachableError
from broker.gate.catalogue import Catalogue
from broker.gate.fastmcp_auth import SubjectTokenVerifier, find_caller
from broker.gate.fastmcp_request import declared_in, routed_chain, second_reading
from broker.gate.fastmcp_token import token_hidden
from broker.gate.following import Following
from broker.gate.handoff import current, holding
from broker.gate.listing import Listing, keep_private
from broker.gate.recorder import CallFacts, Recorder
from broker.gate.served import ServedContracts, plain_listing
from broker.gate.settling import SETTLE_SECONDS, Settling
from broker.gate.subject import SubjectVerifier, VerifiedSubject
from broker.gate.transactions import Transactions

logger = logging.getLogger("broker.gate")

_inside: ContextVar[bool] = ContextVar("broker_gate_inside", default=False)


class VersionGate(Middleware):
    """Gates the tools of one fastmcp server. Use `version_gate` to make one from settings."""

    def __init__(
        self,
        broker: BrokerClient,
        subjects: SubjectVerifier,
        *,
        following: Following | None = None,
        ungated: Iterable[str] = (),
        application: str | None = None,
    ) -> None:
        """following: the broker's feed, which tells of changed versions before they are asked for; None: they are asked for.

        ungated: tools that run without a version, a credential or a record. application: the build, for the records.
        """
        self._broker = broker
        self._subjects = subjects
        self._ungated = frozenset(ungated)
        self._application = application
        self._following = following
        self._catalogue = Catalogue(broker) if following is None else Catalogue(broker, changed_at=following.changed_at)
        self._served = ServedContracts()
        self._admission = Admission(broker, self._catalogue)
        self._listing = Listing(self._catalogue, self._served, ungated=self._ungated)
        self._recorder = Recorder(broker)
        self._transactions = Transactions()
        self._settling = Settling(broker, self._recorder)

    def auth(self, *, base_url: str | None = None, required_scopes: list[str] | None = None) -> AuthProvider:
        """What to give to `FastMCP(auth=…)`. base_url: publish protected resource metadata (RFC 9728) under it."""
        verifier = SubjectTokenVerifier(self._subjects, required_scopes=required_scopes)
        if base_url is None:
            return verifier
        servers = [AnyHttpUrl(issuer) for issuer in self._subjects.issuers]
        return RemoteAuthProvider(token_verifier=verifier, authorization_servers=servers, base_url=base_url)

    async def aclose(self) -> None:
        """Wait shortly for what is on its way, then close the connections."""
        await self._settling.drain()
        await self._recorder.drain(deadline_seconds=SETTLE_SECONDS)
        if self._following is not None:
            await self._following.aclose()
        await self._broker.aclose()
        await self._subjects.aclose()

    @asynccontextmanager
    async def lifespan(self, server: FastMCP[Any]) -> AsyncIterator[dict[str, Any]]:
        """For `FastMCP(lifespan=gate.lifespan)`: closes the gate with the server."""
        try:
            if self._following is not None:
                self._following.start()
            yield {}
        finally:
            await self.aclose()

    async def on_list_tools(
        self,
        context: MiddlewareContext[mcp_types.ListToolsRequest],
        call_next: CallNext[mcp_types.ListToolsRequest, Sequence[Tool]],
    ) -> Sequence[Tool]:
        tools = await call_next(context)
        if plain_listing.get() or context.fastmcp_context is None:
            return tools
        server = context.fastmcp_context.fastmcp
        keep_private(server)
        try:
            caller = await find_caller(self._subjects)
            return await self._listing.shown(server, tools, None if isinstance(caller, Refusal) else caller)
        except BrokerUnreachableError as error:
            raise _wire_error(unavailable("tools/list", error.retry_after_seconds)) from None

    async def on_call_tool(
        self,
        context: MiddlewareContext[mcp_types.CallToolRequestParams],
        call_next: CallNext[mcp_types.CallToolRequestParams, ToolResult],
    ) -> ToolResult:
        nested = _inside.get()
        if context.message.name in self._ungated:
            with _marked_inside(), token_hidden():
                return await call_next(context)
        assert context.fastmcp_context is not None  # the framework dispatches no call without one
        server = context.fastmcp_context.fastmcp
        try:
            call = await self._read(context, context.fastmcp_context, nested=nested)
        except BrokerUnreachableError as error:
            raise _wire_error(unavailable(context.message.name, error.retry_after_seconds)) from None
        if isinstance(call, Refuse):
            self._record_unread(context, call)
            raise _wire_error(call)
        outcome = await self._admission.admit(call, partial(self._served.digest, server, call.tool))
        match outcome:
            case Refuse():
                self._record_refusal(call, reason=_reason_of(outcome))
                raise _wire_error(outcome)
            case InvalidArguments():
                self._record_refusal(call, reason=Reason.ARGUMENTS_INVALID.value)
                raise ToolError(outcome.message)
            case Admitted():
                return await self._run(context, server, call, outcome)

    async def _read(
        self,
        context: MiddlewareContext[mcp_types.CallToolRequestParams],
        fastmcp_context: Context,
        *,
        nested: bool,
    ) -> Call | Refuse:
        """Step 1."""
        message, request = context.message, fastmcp_context.request_context
        tool = parse_tool_name(message.name)
        caller = await find_caller(self._subjects)
        if isinstance(caller, Refusal):
            return refused_by_broker(message.name, None, caller.reason.value, caller.detail)
        if tool is None or await fastmcp_context.fastmcp.get_tool(tool) is None:
            return unknown_tool(message.name)
        problem = None if nested else second_reading(request)
        if problem is not None:
            return malformed(tool, problem)
        declaration = declared_in(tool, message=message, request=request, nested=nested)
        if isinstance(declaration, Refuse):
            return declaration
        meta = (request.meta if request is not None else None) or {}
        task = parse_task_name(meta.get(META_TASK))
        if META_TASK in meta and task is None:
            return refused_by_broker(tool, declaration.version, Reason.TASK_UNKNOWN.value, "no such task")
        outer, parent = current(), caller.subject.parent
        if outer is not None:
            txn = outer.txn
        elif parent is not None:
            txn = parent.credential.txn
        else:
            txn = self._transactions.of(principal=_principal(caller), tool=tool, state=message.request_state)
        return Call(
            tool=tool,
            arguments=message.arguments or {},
            declaration=declaration,
            task=task,
            caller=caller,
            txn=txn,
            protocol_version=request.protocol_version if request is not None else None,
            application=self._application,
        )

    async def _run(
        self,
        context: MiddlewareContext[mcp_types.CallToolRequestParams],
        server: FastMCP[Any],
        call: Call,
        admitted: Admitted,
    ) -> ToolResult:
        """Steps 3 and 4."""
        record, held = admitted.record, admitted.credential
        if admitted.undeclared:
            logger.info("call declares no version: tool=%s txn=%s", record.id, call.txn)
        facts = self._facts(call, version=record.version, contract=record.contract, task=held.task, jti=held.jti)
        began, status, on_record = time.perf_counter_ns(), "cancelled", True
        try:
            try:
                await self._recorder.start(facts.record("start"))
            except BrokerUnreachableError as error:
                on_record = False
                raise _wire_error(unavailable(call.tool, error.retry_after_seconds)) from None
            chain = routed_chain(server, self, name=call.tool, arguments=call.arguments, version=record.version)
            with _marked_inside(), token_hidden(), holding(held):
                result = await chain(context)
            status = "tool_error" if result.is_error else "ok"
            self._remember_round(call, result)
            return result
        except Exception:
            status = "tool_error"
            raise
        finally:
            microseconds = (time.perf_counter_ns() - began) // 1_000
            end = facts.record("end", status=status, duration_us=microseconds)
            await self._settling.settle(held.token, end if on_record else None)

    def _remember_round(self, call: Call, result: object) -> None:
        if isinstance(result, InputRequiredToolResult):
            state = result.input_required.request_state
            self._transactions.await_next(call.txn, principal=_principal(call.caller), tool=call.tool, state=state)

    def _record_unread(self, context: MiddlewareContext[mcp_types.CallToolRequestParams], refuse: Refuse) -> None:
        """A refusal of a call that was not read to its end; who made it may not be known."""
        tool = parse_tool_name(context.message.name)
        if tool is not None and refuse.code is not Code.INVALID_PARAMS:  # else it is no tool, or anybody's text
            facts = CallFacts(tool=tool, txn=self._transactions.new(), application=self._application)
            self._recorder.deny(facts.record("deny", reason=_reason_of(refuse)))

    def _record_refusal(self, call: Call, *, reason: str) -> None:
        declared = call.declaration.version
        facts = self._facts(call, version=declared, contract=None, task=call.task, jti=None)
        self._recorder.deny(facts.record("deny", reason=reason, declared=declared))

    def _facts(
        self, call: Call, *, version: str | None, contract: str | None, task: str | None, jti: str | None
    ) -> CallFacts:
        subject = call.caller.subject
        return CallFacts(
            tool=call.tool,
            version=version,
            contract=contract,
            task=task,
            txn=call.txn,
            protocol_version=call.protocol_version,
            application=call.application,
            agent=subject.agent,
            agent_issuer=subject.agent_issuer,
            account=subject.account,
            account_issuer=subject.issuer,
            jti=jti,
            act=named_actors(subject.act),
        )


@contextmanager
def _marked_inside() -> Iterator[None]:
    token = _inside.set(True)
    try:
        yield
    finally:
        _inside.reset(token)


def _principal(caller: VerifiedSubject) -> tuple[str, ...]:
    return (caller.subject.issuer, caller.subject.account, caller.subject.agent_issuer, caller.subject.agent)


def _wire_error(refuse: Refuse) -> MCPError:
    return MCPError(code=int(refuse.code), message=refuse.message, data=refuse.data)


def _reason_of(refuse: Refuse) -> str:
    reason = refuse.data.get("reason")
    return reason if isinstance(reason, str) else refuse.code.name.lower()
