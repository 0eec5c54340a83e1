"""A listener of the broker's feed that keeps all it hears, over a real connection."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass
from typing import Any

import httpx2

from broker_parts import Wire, wait_until


@dataclass(frozen=True)
class Heard:
    """One event. at: by the monotonic clock."""

    kind: str
    identity: str | None
    data: dict[str, Any]
    at: float


class Listener:
    """Listens in a thread from `with` on, until the stream ends or the block is left."""

    def __init__(self, wire: Wire, *, client: str = "svc", after: str | None = None) -> None:
        self._wire = wire
        self._client = client
        self._after = after
        self._http = httpx2.Client(timeout=httpx2.Timeout(10.0, read=30.0))
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self.status: int | None = None
        self.events: list[Heard] = []
        self.is_over = False

    def __enter__(self) -> Listener:
        self._thread.start()
        wait_until(lambda: self.status is not None or self.is_over, what="the stream is answered")
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()
        self._thread.join(5)

    def of(self, kind: str) -> list[Heard]:
        return [event for event in self.events if event.kind == kind]

    def wait_for(self, kind: str, count: int = 1, *, seconds: float = 20.0) -> Heard:
        """The event of this kind with this number, once it is there."""
        wait_until(lambda: len(self.of(kind)) >= count, seconds=seconds, what=f"{count} {kind}")
        return self.of(kind)[count - 1]

    def _listen(self) -> None:
        headers, _ = self._wire.proof(self._client)
        if self._after is not None:
            headers["last-event-id"] = self._after
        fields: dict[str, str] = {}
        try:
            with self._http.stream("GET", f"{self._wire.url}/revocations/stream", headers=headers) as answer:
                self.status = answer.status_code
                for line in answer.iter_lines():
                    if line:
                        name, _, value = line.partition(": ")
                        fields[name] = value
                    elif "event" in fields:
                        data = json.loads(fields["data"])
                        self.events.append(Heard(fields["event"], fields.get("id"), data, time.monotonic()))
                        fields = {}
        except (httpx2.HTTPError, httpx2.StreamError, RuntimeError):
            pass  # the other end is gone, or this one was closed
        finally:
            self.is_over = True


def revoke(wire: Wire, account: str) -> int:
    """Revoke an account; the sequence of that."""
    body = {"kind": "account", "names": {"issuer": "https://idp.test", "account": account}, "reason": "a test"}
    answer = wire.admin("POST", "/revocations", body=body)
    assert answer.status_code == 200, answer.text
    return int(answer.json()["seq"])


def renew(wire: Wire, *, client: str = "svc", **body: Any) -> httpx2.Response:
    """Ask for a lease."""
    asked = {"v": 1, "verifier": "a-verifier-of-the-tests", "gen": 0, "applied": 0, **body}
    return wire.http.post("/revocations/lease", json=asked, headers=wire.proof(client)[0])


def poll(wire: Wire, **query: Any) -> httpx2.Response:
    return wire.http.get("/revocations", params=query, headers=wire.proof("svc")[0])
