"""`make bench`: CPU per request for exchange, introspection and the downstream check, beside their own crypto, in one run.

Exits 1 where an exchange costs more than `LIMIT` times its own ES256 verify and sign.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import itertools
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.calibration import Calibration
from tests.bench.downstream import FEED_LIMIT_US, Local, check, check_locally
from tests.bench.load import run_load
from tests.bench.setup import (
    OTHER_CORE,
    SECRET,
    BenchBroker,
    assertion,
    exchange_form,
    post,
    start_broker,
    subject_tokens,
)

LIMIT = 5.0
FIRST = "exchange, subject token never seen before"
AGAIN = "exchange, subject token seen before"
SIGNED = "exchange, never seen, private_key_jwt"
ASKED = "introspection"
CONNECTIONS = 50
BASIC = base64.b64encode(f"reporting-mcp:{SECRET}".encode()).decode()
API_BASIC = base64.b64encode(f"db-api:{SECRET}".encode()).decode()


@dataclass(slots=True)
class Row:
    """What one load came to, a value for each round; CPU in seconds a request."""

    cpu: list[float] = field(default_factory=list)
    crypto: list[float] = field(default_factory=list)
    hot: list[float] = field(default_factory=list)
    rate: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)

    @property
    def times(self) -> float:
        """How many times its own crypto a request costs."""
        return statistics.median(cpu / crypto for cpu, crypto in zip(self.cpu, self.crypto, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    os.sched_setaffinity(0, {OTHER_CORE})
    with tempfile.TemporaryDirectory(prefix="broker-bench-") as folder:
        broker = start_broker(Path(folder))
        calibration = Calibration()
        try:
            rows, downstream, local = _rounds(broker, calibration, options.rounds, options.seconds)
        finally:
            calibration.stop()
            broker.stop()
    sys.exit(0 if _print(rows, downstream, local) else 1)


def _rounds(
    broker: BenchBroker, calibration: Calibration, rounds: int, seconds: float
) -> tuple[dict[str, Row], list[tuple[float, float]], list[Local]]:
    rows: dict[str, Row] = {}
    downstream, local = [], []
    again = _exchanges(broker, subject_tokens(broker.keys, 200))
    for number in range(rounds + 1):
        count = int(1100 * seconds)
        subjects = subject_tokens(broker.keys, count)
        tokens: list[str] = []
        loads: list[tuple[str, Callable[[], Iterator[bytes]]]] = [
            (FIRST, lambda subjects=subjects: iter(_exchanges(broker, subjects))),
            (AGAIN, lambda: itertools.cycle(again)),
            (SIGNED, lambda count=count: iter(_signed_exchanges(broker, subject_tokens(broker.keys, count)))),
            (ASKED, lambda tokens=tokens: itertools.cycle(_introspections(tokens))),
        ]
        for name, requests in loads:
            prepared = requests()
            hot = sum(calibration.take())
            row = Row() if number == 0 else rows.setdefault(name, Row())  # the first round warms up
            _measure(broker, name, prepared, seconds, tokens, row)
            row.hot.append((hot + sum(calibration.take())) / 2)
        verify, _ = calibration.take()
        spent = asyncio.run(check(broker.url, tokens[:1000], concurrency=CONNECTIONS))
        if number:
            downstream.append((spent, verify))
            local.append(asyncio.run(check_locally(broker.url, tokens[:500])))
    return rows, downstream, local


def _measure(
    broker: BenchBroker, name: str, requests: Iterator[bytes], seconds: float, tokens: list[str], row: Row
) -> None:
    def remember(body: bytes) -> None:
        if len(tokens) < 2000 and b"access_token" in body:
            tokens.append(json.loads(body)["access_token"])

    cpu, crypto = broker.cpu_seconds(), broker.crypto_seconds()
    outcome = asyncio.run(run_load(broker.port, requests, connections=CONNECTIONS, seconds=seconds, keep=remember))
    if set(outcome.statuses) != {200}:
        raise SystemExit(f"{name}: answers {outcome.statuses}, such as {outcome.first_bad[:300]!r}")
    row.cpu.append((broker.cpu_seconds() - cpu) / outcome.requests)
    row.crypto.append(max(broker.crypto_seconds() - crypto, 1e-9) / outcome.requests)
    row.rate.append(outcome.requests / outcome.seconds)
    row.latencies.extend(outcome.latencies)


def _exchanges(broker: BenchBroker, subjects: list[str]) -> list[bytes]:
    return [post("/token", exchange_form(token, number), basic=BASIC) for number, token in enumerate(subjects)]


def _signed_exchanges(broker: BenchBroker, subjects: list[str]) -> list[bytes]:
    made = []
    for number, token in enumerate(subjects):
        form = exchange_form(token, number)
        form["client_assertion_type"] = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
        form["client_assertion"] = assertion(broker.keys, broker.url)
        made.append(post("/token", form))
    return made


def _introspections(tokens: list[str]) -> list[bytes]:
    return [post("/introspect", {"token": token}, basic=API_BASIC) for token in tokens]


def _print(rows: dict[str, Row], downstream: list[tuple[float, float]], local: list[Local]) -> bool:
    print(
        "CPU microseconds of the broker process a request, 50 connections; crypto: its own ES256 verify and sign, in place;"
    )
    print("hot: the same crypto in a loop of nothing else, on the same core, beside each round")
    print(
        f"{'':42s} {'CPU':>6s} {'crypto':>7s} {'x':>6s} {'hot':>6s} {'x hot':>6s} {'req/s':>7s} {'p50 ms':>7s} {'p99 ms':>7s}"
    )
    for name, row in rows.items():
        waits = sorted(row.latencies)
        cpu, crypto, hot = (statistics.median(values) * 1e6 for values in (row.cpu, row.crypto, row.hot))
        own = (
            f"{crypto:7.0f} {row.times:6.2f} {hot:6.0f} {cpu / hot:6.2f}"
            if name in (FIRST, SIGNED)
            else f"{crypto:7.0f}" + " " * 21
        )
        print(
            f"{name:42s} {cpu:6.0f} {own} {statistics.median(row.rate):7.0f} "
            f"{waits[len(waits) // 2] * 1e3:7.1f} {waits[len(waits) * 99 // 100] * 1e3:7.1f}"
        )
    spent, verify = (statistics.median(column) * 1e6 for column in zip(*downstream, strict=True))
    print(
        f"{'downstream check, asking the broker':42s} {spent:6.0f} (CPU of the API's process; one hot ES256 verify: {verify:.0f})"
    )
    signature, first, again, feed = (
        statistics.median(getattr(each, name) for each in local) for name in ("signature", "first", "again", "feed")
    )
    print(
        f"{'downstream check by the feed, first seen':42s} {first:6.0f} (its signature {signature:.0f}, reading and claims "
        f"{first - signature - feed:.0f}, what the feed says {feed:.1f})"
    )
    print(f"{'downstream check by the feed, seen before':42s} {again:6.1f}")
    is_light = feed <= FEED_LIMIT_US and again <= signature + FEED_LIMIT_US
    print(
        f"no request, and beside the signature {feed:.1f} us: {'within' if is_light else 'OVER'} {FEED_LIMIT_US:g} us"
    )
    found = rows[FIRST].times
    verdict = "within" if found <= LIMIT else "OVER"
    print(
        f"an exchange, durable audit included, costs {found:.2f} x its own ES256 verify and sign: {verdict} {LIMIT:g} x"
    )
    return found <= LIMIT and is_light


if __name__ == "__main__":
    main()
