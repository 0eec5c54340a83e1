"""What the routes of the FastAPI app stand on: the use cases, and how a request becomes an answer."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from fastapi import Request, Response

from broker.domain.errors import BrokerError, Refusal
from broker.domain.ids import parse_tool_name, parse_version
from broker.domain.lifecycle.states import Command
from broker.domain.tokens.client_auth import ClientCredentials, parse_header_credentials
from broker.http.errors import Headers, render_bug, render_failure, render_refusal
from broker.ports.audit import AuditLog, AuditLogs
from broker.ports.keys import Signer
from broker.ports.policy import PolicySource
from broker.ports.system import Entropy
from broker.services.administrators import Administrators
from broker.services.calls import Calls
from broker.services.exchange import Exchange
from broker.services.following import Following
from broker.services.introspection import Introspection
from broker.services.policies import Policies
from broker.services.readiness import Readiness
from broker.services.receipt_statements import ReceiptStatements
from broker.services.receipts import Receipts
from broker.services.refusals import Attempt, Refusals
from broker.services.release import Release
from broker.services.replicas import Replicas
from broker.services.signing_keys import SigningKeys
from broker.services.verifiers import Verifiers
from broker.services.versions import Versions

log: Final = logging.getLogger("broker.http")
Outcome = TypeVar("Outcome")
_RECORDED: Final = ("/admin/", "/replicas/", "/tools/", "/calls")


@dataclass(frozen=True, slots=True)
class UseCases:
    """Everything that the edge may call."""

    issuer: str
    exchange: Exchange
    following: Following
    verifiers: Verifiers
    receipts: Receipts
    introspection: Introspection
    release: Release
    versions: Versions
    calls: Calls
    administrators: Administrators
    policies: Policies
    keys: SigningKeys
    replicas: Replicas
    readiness: Readiness
    statements: ReceiptStatements
    refusals: Refusals
    policy: PolicySource
    signer: Signer
    audit: AuditLog
    logs: AuditLogs
    entropy: Entropy
    trouble: Callable[[BrokerError], None]
    deadline_seconds: float


class Refused(Exception):
    """Carries a refusal out of a route to the one place that renders it."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.reason.value)
        self.refusal = refusal


def request_id_of(request: Request) -> str:
    """The id of this request; made once."""
    found = getattr(request.state, "request_id", None)
    if found is None:
        found = request.state.request_id = request.app.state.use_cases.entropy.token()
    return str(found)


def credentials_of(request: Request) -> ClientCredentials | Refusal:
    """What the request's Authorization header says."""
    return parse_header_credentials(request.headers.getlist("authorization"))


def settled(outcome: Outcome | Refusal) -> Outcome:
    """The outcome, or `Refused` with the refusal."""
    if isinstance(outcome, Refusal):
        raise Refused(outcome)
    return outcome


def _response(status: int, headers: Headers, body: bytes) -> Response:
    return Response(body, status, headers={key.decode(): value.decode() for key, value in headers})


async def on_refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    use_cases: UseCases = request.app.state.use_cases
    request_id = request_id_of(request)
    if request.url.path.startswith(_RECORDED):
        try:
            await use_cases.refusals.record(error.refusal, _attempt(request), request_id=request_id)
        except BrokerError as failure:
            return await on_failure(request, failure)
    return _response(*render_refusal(error.refusal, issuer=use_cases.issuer, request_id=request_id))


def _attempt(request: Request) -> Attempt:
    route, names = request.scope.get("route"), request.path_params
    command = names.get("command")
    return Attempt(
        endpoint=f"{request.method[:16]} {getattr(route, 'path', '(no such path)')}",
        by=getattr(request.state, "by", None),
        tool=parse_tool_name(names.get("tool")),
        version=parse_version(names.get("version")),
        command=command if command in tuple(Command) else None,
    )


async def on_failure(request: Request, error: Exception) -> Response:
    assert isinstance(error, BrokerError)
    use_cases: UseCases = request.app.state.use_cases
    use_cases.trouble(error)
    command = request.method == "POST" and request.url.path.startswith("/admin/")
    return _response(
        *render_failure(error, issuer=use_cases.issuer, request_id=request_id_of(request), command=command)
    )


async def on_bug(request: Request, error: Exception) -> Response:
    request_id = request_id_of(request)
    log.error("request %s failed", request_id, exc_info=error)
    return _response(*render_bug(issuer=request.app.state.use_cases.issuer, request_id=request_id))
