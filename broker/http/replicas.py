"""What replicas of one broker ask each other."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from broker.http.admitted import answer_json
from broker.http.context import UseCases, credentials_of, settled

router = APIRouter(
    prefix="/replicas",
    tags=["replicas"],
    responses={
        401: {"description": "No statement of a replica was shown"},
        503: {"description": "The audit logs cannot be read"},
    },
)


@router.get("/knowledge", summary="What this replica's audit logs say of the store")
async def knowledge(request: Request) -> Response:
    use_cases: UseCases = request.app.state.use_cases
    return answer_json(settled(await use_cases.replicas.knowledge(credentials_of(request))))
