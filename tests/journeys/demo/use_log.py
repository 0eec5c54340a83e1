"""What a protected API saw, one JSON object a line: which credential was shown, when, and what became of it.

`arrived` and `answered` are Unix seconds; every process of the demo runs on one machine, so that they compare.
"""

from __future__ import annotations

import base64
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from broker.gate.bearer import App, Message, Receive, Scope, Send


@dataclass(frozen=True, slots=True)
class Use:
    """One request. unverified_…: as the request's token says, believed or not."""

    arrived: float
    answered: float
    path: str
    status: int
    reason: str | None
    unverified_jti: str | None
    unverified_version: str | None


class UseLog:
    """Outermost ASGI layer of a protected API: writes a `Use` for each request."""

    def __init__(self, app: App, file: Path) -> None:
        self._app = app
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        arrived = time.time()
        seen: dict[str, Any] = {"status": 0, "body": b"", "answered": arrived}

        async def watch(message: Message) -> None:
            if message["type"] == "http.response.start":
                seen.update(status=message["status"], answered=time.time())
            elif seen["status"] >= 400:
                seen["body"] += message.get("body", b"")
            await send(message)

        try:
            await self._app(scope, receive, watch)
        finally:
            claims = _unverified_claims(scope)
            details = claims.get("authorization_details") or [{}]
            use = Use(
                arrived=arrived,
                answered=seen["answered"],
                path=scope["path"],
                status=seen["status"],
                reason=_reason(seen["body"]),
                unverified_jti=claims.get("jti"),
                unverified_version=details[0].get("version"),
            )
            with self._file.open("a") as out:
                out.write(json.dumps(asdict(use)) + "\n")


def read_uses(file: Path) -> list[Use]:
    """All uses so far; a line that is being written is left for the next time."""
    text = file.read_text() if file.exists() else ""
    return [Use(**json.loads(line)) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def _reason(body: bytes) -> str | None:
    try:
        found = json.loads(body)
    except ValueError:
        return None
    return found.get("reason") if isinstance(found, dict) else None


def _unverified_claims(scope: Scope) -> dict[str, Any]:
    header = dict(scope["headers"]).get(b"authorization", b"")
    parts = header.partition(b" ")[2].split(b".")
    if len(parts) != 3:
        return {}
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + b"=" * (-len(parts[1]) % 4)))
    except ValueError:
        return {}
    return claims if isinstance(claims, dict) else {}
