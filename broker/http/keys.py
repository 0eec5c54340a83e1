"""The admin API, continued: the broker's signing keys. A key is revoked with `POST /admin/revocations`, kind `key`."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from broker.http.admitted import admitted, answer_json

router = APIRouter(
    prefix="/admin/keys",
    tags=["admin"],
    responses={
        401: {"description": "The administrator did not authenticate"},
        403: {"description": "The administrator may not do this"},
        503: {"description": "Store, audit log or key folder cannot be used"},
    },
)


@router.get("", summary="All signing keys")
async def list_keys(request: Request) -> Response:
    use_cases, _ = await admitted(request, "read")
    return answer_json({"keys": await use_cases.keys.states()})


@router.post("/rotate", summary="Make a new signing key; older ones still verify")
async def rotate_key(request: Request) -> Response:
    use_cases, admin = await admitted(request, "revoke")
    return answer_json({"kid": await use_cases.keys.rotate(by=admin)})
