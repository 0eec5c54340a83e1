"""What replicas of one broker ask each other."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from broker.domain.canonical import MAX_INTEGER
from broker.domain.revocation.feed import Point
from broker.http.admitted import answer_json
from broker.http.context import UseCases, credentials_of, settled

Counter = Annotated[int, Query(ge=0, le=MAX_INTEGER)]

router = APIRouter(
    prefix="/replicas",
    tags=["replicas"],
    responses={
        400: {"description": "The request is malformed"},
        401: {"description": "No statement of a replica was shown"},
        503: {"description": "The audit logs cannot be read"},
    },
)


@router.get("/recorded", summary="Whether this replica has on record what was done up to a point of the clock")
async def recorded(request: Request, gen: Counter, seq: Counter) -> Response:
    use_cases: UseCases = request.app.state.use_cases
    told = settled(await use_cases.replicas.has_recorded(credentials_of(request), Point(gen, seq)))
    return answer_json({"recorded": told, "replica": use_cases.replicas.name})


@router.get("/knowledge", summary="What this replica's audit logs say of the store")
async def knowledge(request: Request) -> Response:
    use_cases: UseCases = request.app.state.use_cases
    return answer_json(settled(await use_cases.replicas.knowledge(credentials_of(request))))
