"""An API that accepts credentials, in its own process: `accepting_api.py PORT BROKER CLIENT SECRET AUDIENCE STATE`."""

from __future__ import annotations

import sys
from typing import Any

import uvicorn
from broker.gate.downstream import CredentialVerifier


async def hello(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


if __name__ == "__main__":
    port, broker, client, secret, audience, state = sys.argv[1:]
    app = CredentialVerifier(
        hello,
        issuer=broker,
        audience=audience,
        client_id=client,
        client_secret=secret,
        scope_for=lambda scope: "root.read",
        state_file=state,
    )
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="warning")
