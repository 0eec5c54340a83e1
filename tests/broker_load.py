"""Callers that exchange without pause in threads of their own, and keep what came back."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import httpx2

from broker_parts import BrokerProcess, Wire, basic, exchange_form, wait_until

SLOWEST_SECONDS = 6.0
"""The broker's own deadline is 2 s; the rest is for a busy machine."""


@dataclass
class Load:
    """tokens: handed out, in order. failures: answers that are none of success. broken: connections that ended unanswered."""

    broker: BrokerProcess
    callers: int = 6
    changes: dict[str, Any] = field(default_factory=dict)
    tokens: list[str] = field(default_factory=list)
    failures: list[httpx2.Response] = field(default_factory=list)
    broken: int = 0
    slowest: float = 0.0

    def __enter__(self) -> Load:
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._call, daemon=True) for _ in range(self.callers)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(20)
            assert not thread.is_alive(), "a request hangs"

    def wait_for_tokens(self, count: int) -> None:
        wanted = len(self.tokens) + count
        wait_until(
            lambda: len(self.tokens) >= wanted, seconds=40, what=f"{count} more credentials; {self.last_failure()}"
        )

    def last_failure(self) -> str:
        return self.failures[-1].text if self.failures else "none failed"

    def _call(self) -> None:
        form, headers = exchange_form(**self.changes), {"authorization": basic("svc")}
        with httpx2.Client(base_url=self.broker.url, timeout=15.0) as http:
            while not self._over.is_set():
                began = time.monotonic()
                try:
                    answer = http.post("/token", data=form, headers=headers)
                except httpx2.TransportError:
                    self.broken += 1
                    self._over.wait(0.02)
                    continue
                self.slowest = max(self.slowest, time.monotonic() - began)
                if answer.status_code == 200:
                    self.tokens.append(answer.json()["access_token"])
                else:
                    self.failures.append(answer)
                    self._over.wait(0.02)

    def check_failures(self) -> None:
        """Every answer that was none of success is a clear 503 in time."""
        for answer in self.failures:
            assert_unavailable(answer)
        assert self.slowest < SLOWEST_SECONDS


def assert_unavailable(answer: httpx2.Response) -> None:
    assert answer.status_code == 503, answer.text
    assert answer.json()["error"] == "temporarily_unavailable"
    assert int(answer.headers["retry-after"]) >= 1


def active(wire: Wire, tokens: list[str]) -> list[str]:
    return [token for token in tokens if wire.is_active(token)]
