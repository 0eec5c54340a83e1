"""The company's identity provider, as small as one can be: it believes everyone, and signs RFC 9068 access tokens.

It shares no code with the broker. `POST /token` with `username` and `resource` stands for a whole login.
"""

from __future__ import annotations

import json
import secrets
import sys
import time
from typing import Final

import jwt
import uvicorn
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from .stage import Stage, port_of, read_stage

ASSISTANT: Final = "desk-assistant"
"""The agent that everybody in the story works with."""

GROUPS: Final = {"ana": ["analysts"], "bob": ["analysts"], "dora": ["dba"], "eve": ["guests"]}
LIFETIME_SECONDS: Final = 600


def make_app(stage: Stage) -> Starlette:
    key = ec.generate_private_key(ec.SECP256R1())
    public = {
        **json.loads(ECAlgorithm.to_jwk(key.public_key())),
        "kid": secrets.token_hex(8),
        "use": "sig",
        "alg": "ES256",
    }

    async def jwks(request: Request) -> JSONResponse:
        return JSONResponse({"keys": [public]})

    async def token(request: Request) -> JSONResponse:
        form = await request.form()
        name = str(form.get("username"))
        if name not in GROUPS:
            return JSONResponse({"error": "invalid_grant"}, 400)
        now = int(time.time())
        claims = {
            "iss": stage.idp,
            "sub": name,
            "aud": str(form.get("resource")),
            "client_id": ASSISTANT,
            "azp": ASSISTANT,
            "groups": GROUPS[name],
            "iat": now,
            "exp": now + LIFETIME_SECONDS,
            "jti": secrets.token_urlsafe(12),
        }
        signed = jwt.encode(claims, key, algorithm="ES256", headers={"typ": "at+jwt", "kid": public["kid"]})
        return JSONResponse({"access_token": signed, "token_type": "Bearer", "expires_in": LIFETIME_SECONDS})

    return Starlette(routes=[Route("/jwks.json", jwks), Route("/token", token, methods=["POST"])])


if __name__ == "__main__":
    _stage = read_stage(sys.argv)
    uvicorn.run(make_app(_stage), host="127.0.0.1", port=port_of(_stage.idp), log_level="warning")
