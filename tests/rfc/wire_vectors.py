"""`tests/vectors/oauth_wire.json`, and how an answer is compared with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2

VECTORS: dict[str, Any] = json.loads((Path(__file__).parent.parent / "vectors" / "oauth_wire.json").read_text())


def names(case: dict[str, Any]) -> str:
    return str(case["name"])


def as_refused(answer: httpx2.Response) -> dict[str, Any]:
    """A refusal as the vectors spell it; what holds for every refusal is asserted on the way."""
    body = answer.json()
    assert set(body) <= {"error", "error_description", "error_uri", "reason", "where", "request_id", "data"}, body
    assert body["error_uri"].endswith(f"/docs/errors#{body['reason']}")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"] == body["request_id"]
    assert body["error_description"].isascii()  # RFC 6749 §5.2
    assert not set(body["error_description"]) & {'"', "\\"}
    made = {"status": answer.status_code, "error": body["error"], "reason": body["reason"]}
    return made | ({"where": body["where"]} if "where" in body else {})
