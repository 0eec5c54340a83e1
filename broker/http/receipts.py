"""Commands that wait for their receipt, and receipts of what was revoked before.

The command acts first: a refusal is its own answer, as without waiting. Then, by what the caller accepts:

| `Accept`               | answered                                                                                       |
|------------------------|------------------------------------------------------------------------------------------------|
| `application/x-ndjson` | one JSON object a line: `acted` at once, `progress` whenever it changes, then `answer` or `failure` |
| anything else          | the answer, once the receipt is there                                                          |

What took effect and cannot be receipted is answered with 503, or with a `failure` line, that says so and where to ask later.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from broker.domain.canonical import MAX_INTEGER, JsonObject
from broker.domain.errors import BrokerError, ReceiptUnavailableError, Refusal, UnrecordedError
from broker.domain.lifecycle.states import record_json
from broker.domain.revocation.feed import Point
from broker.domain.revocation.lease import Receipt
from broker.domain.revocation.scopes import RevocationScope
from broker.domain.revocation.statement import Revocation, holder_json, statement_claims
from broker.http.admitted import admitted, answer_json, spell_json
from broker.http.context import UseCases, request_id_of, settled
from broker.http.errors import receipt_path, render_bug, render_failure
from broker.services.receipt_statements import Given
from broker.services.versions import Moved

log: Final = logging.getLogger("broker.http")
LINES: Final = "application/x-ndjson"
NAMED: Final = 20
"""Of those that are waited for; the receipt itself names all."""
Wait = Annotated[bool, Query(description="Wait until no verifier can accept any more what was revoked")]
Counter = Annotated[int, Path(ge=0, le=MAX_INTEGER)]

router = APIRouter(
    prefix="/admin",
    tags=["admin"],
    responses={
        400: {"description": "The request is malformed"},
        401: {"description": "The administrator did not authenticate"},
        403: {"description": "The administrator may not do this"},
        404: {"description": "Nothing was revoked at this point, as far as this broker knows"},
        503: {"description": "Store or audit log away; `Retry-After`"},
    },
)


def show_moved(moved: Moved) -> JsonObject:
    """The answer to a command. replicas: of the store, that have it; left out where none is waited for."""
    return {
        "changed": moved.changed,
        "gen": moved.gen,
        "seq": moved.seq,
        "revoked": list(moved.revoked),
        "versions": [record_json(record) for record in moved.records],
        **({"replicas": moved.replicas} if moved.replicas >= 0 else {}),
    }


async def answer_revoking(
    request: Request, acting: Awaitable[Moved | Refusal], revokes: tuple[RevocationScope, ...], *, wait: bool, by: str
) -> Response:
    """Carry out a command that revokes these scopes; its answer, with the receipt where that is waited for."""
    use_cases: UseCases = request.app.state.use_cases
    unrecorded = None
    try:
        moved = settled(await acting)
    except UnrecordedError as error:
        if not wait or error.point is None:
            raise
        unrecorded, moved = error, Moved(*error.point, changed=True, records=(), revoked=revokes)
    point = Point(moved.gen, moved.seq)
    answer: JsonObject = {**show_moved(moved), "receipt_at": receipt_path(*_pair(point))}
    recorded_by = await use_cases.replicas.recorded_by(point) if moved.changed else None
    if recorded_by is not None:
        answer["recorded_by"] = recorded_by
    if not wait:
        return answer_json(answer)
    request_id = request_id_of(request)
    revocation = use_cases.statements.revoked_now(point, revokes, change=request_id, by=by)
    waiting = _Waiting(use_cases, revocation, answer, request_id=request_id, by=by, unrecorded=unrecorded, command=True)
    return await _answer(request, waiting)


@router.get(
    "/receipts/{gen}/{seq}",
    summary="The receipt of an earlier revocation",
    responses={202: {"description": "Some verifiers may still accept what was revoked; `waiting` names them"}},
)
async def show_receipt(request: Request, gen: Counter, seq: Counter, *, wait: Wait = False) -> Response:
    use_cases, by = await admitted(request, "read")
    point = Point(gen, seq)
    revocation = settled(await use_cases.statements.find(point))
    answer: JsonObject = {
        "gen": gen,
        "seq": seq,
        "revoked": [str(scope) for scope in revocation.revoked],
        "receipt_at": receipt_path(gen, seq),
    }
    waiting = _Waiting(use_cases, revocation, answer, request_id=request_id_of(request), by=by)
    return await _answer(request, waiting, look_once=not wait)


class _Waiting:
    """One wait for a receipt. unrecorded: why the command's own record is not written, if it is not."""

    def __init__(
        self,
        use_cases: UseCases,
        revocation: Revocation,
        answer: JsonObject,
        *,
        request_id: str,
        by: str,
        unrecorded: UnrecordedError | None = None,
        command: bool = False,
    ) -> None:
        self.answer = answer
        self._use_cases = use_cases
        self._revocation = revocation
        self._request_id = request_id
        self._by = by
        self._unrecorded = unrecorded
        self._command = command

    async def steps(self) -> AsyncGenerator[Receipt | JsonObject]:
        """How it stands, again and again, then the whole answer. Raises `ReceiptUnavailableError`, `UnrecordedError`."""
        try:
            follow, is_recorded = self._use_cases.statements.follow, self._unrecorded is None
            async with aclosing(follow(self._revocation, by=self._by, is_recorded=is_recorded)) as following:
                async for step in following:
                    yield step if isinstance(step, Receipt) else {**self.answer, "receipt": _receipt_json(step)}
        except BrokerError as error:
            log.warning("request %s: no receipt: %s: %s", self._request_id, type(error).__name__, error)
            self._use_cases.trouble(error)
            raise self._failed(error) from error

    def _failed(self, error: BrokerError) -> BrokerError:
        if self._unrecorded is not None:
            return self._unrecorded
        failed = ReceiptUnavailableError(str(error))
        failed.point = _pair(self._revocation.point)
        return failed

    async def lines(self) -> AsyncGenerator[bytes]:
        """The same as lines; what stands in the way is the last one."""
        yield _line("acted", self.answer)
        issuer, request_id = self._use_cases.issuer, self._request_id
        try:
            async with aclosing(self.steps()) as steps:
                async for step in steps:
                    if isinstance(step, Receipt):
                        yield _line("progress", _standing_json(step))
                    else:
                        yield _line("answer", step)
        except BrokerError as error:
            status, _, body = render_failure(error, issuer=issuer, request_id=request_id, command=self._command)
            yield _failure_line(status, body)
        except Exception:
            log.exception("request %s failed", request_id)
            status, _, body = render_bug(issuer=issuer, request_id=request_id)
            yield _failure_line(status, body)


async def _answer(request: Request, waiting: _Waiting, *, look_once: bool = False) -> Response:
    if not look_once and LINES in request.headers.get("accept", ""):
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(waiting.lines(), media_type=LINES, headers=headers)
    async with aclosing(waiting.steps()) as steps:
        async for step in steps:
            if not isinstance(step, Receipt):
                return answer_json(step)
            if look_once:
                return answer_json({**waiting.answer, **_standing_json(step)}, status=202)
    raise AssertionError("a wait ends with an answer or an error")


def _pair(point: Point) -> tuple[int, int]:
    return point.gen, point.seq


def _receipt_json(given: Given) -> JsonObject:
    return {**statement_claims(given.statement), "statement": given.text}


def _standing_json(standing: Receipt) -> JsonObject:
    """How a revocation stands while it is not complete."""
    return {
        "verifiers": len(standing.acknowledged) + len(standing.expired) + len(standing.waiting),
        "acknowledged": len(standing.acknowledged),
        "expired": len(standing.expired),
        "waiting": [holder_json(holder) for holder in standing.waiting[:NAMED]],
        "seconds_left": round(standing.seconds_left, 3),
    }


def _line(event: str, told: dict[str, Any]) -> bytes:
    return spell_json({"event": event, **told}) + b"\n"


def _failure_line(status: int, body: bytes) -> bytes:
    return b'{"event":"failure","status":%d,' % status + body[1:] + b"\n"
