"""Who may use the admin API: authenticated, and with the power that the request takes."""

from __future__ import annotations

import json
from typing import Any

import orjson
from fastapi import Request, Response

from broker.domain.policy.document import AdminTrust
from broker.http.context import Refused, UseCases, credentials_of, settled
from broker.services.administrators import check_power


async def authenticate(request: Request) -> AdminTrust:
    """Who asks. Raises `Refused`; nothing else is said to a caller before that, not even what is wrong with a body."""
    use_cases = request.app.state.use_cases
    assert isinstance(use_cases, UseCases)
    admin = settled(await use_cases.administrators.authenticate(credentials_of(request)))
    request.state.by = admin.name
    return admin


async def admitted(request: Request, power: str) -> tuple[UseCases, str]:
    """The use cases and the administrator's name. Raises `Refused` where `trust.yaml` does not give the power."""
    admin = await authenticate(request)
    refused = check_power(admin, power)
    if refused is not None:
        raise Refused(refused)
    return request.app.state.use_cases, admin.name


def spell_json(value: Any) -> bytes:
    """Any JSON value that a record may hold."""
    try:
        return orjson.dumps(value)
    except TypeError:  # lone surrogates and huge integers, which a record may hold and orjson does not spell
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")


def answer_json(value: Any, *, status: int = 200) -> Response:
    """An answer that nobody keeps."""
    return Response(spell_json(value), status, headers={"cache-control": "no-store"}, media_type="application/json")
