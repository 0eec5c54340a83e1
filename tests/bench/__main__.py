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
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.calibration import Calibration
from tests.bench.load import Outcome, run_load
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
CONNECTIONS = 50
BASIC = base64.b64encode(f"reporting-mcp:{SECRET}".encode()).decode()
API_BASIC = base64.b64encode(f"db-api:{SECRET}".encode()).decode()


def _measure(broker: BenchBroker, requests: Iterator[bytes], seconds: float, keep: list[str]) -> tuple[float, Outcome]:
    def remember(body: bytes) -> None:
        if len(keep) < 2000 and b"access_token" in body:
            keep.append(json.loads(body)["access_token"])

    before = broker.cpu_seconds()
    outcome = asyncio.run(run_load(broker.port, requests, connections=CONNECTIONS, seconds=seconds, keep=remember))
    return (broker.cpu_seconds() - before) / max(outcome.requests, 1), outcome


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
            passed = _rounds(broker, calibration, options.rounds, options.seconds)
        finally:
            calibration.stop()
            broker.stop()
    sys.exit(0 if passed else 1)


def _rounds(broker: BenchBroker, calibration: Calibration, rounds: int, seconds: float) -> bool:
    subjects = subject_tokens(broker.keys, 2000)
    exchanges = [post("/token", exchange_form(token, n), basic=BASIC) for n, token in enumerate(subjects)]
    costs: dict[str, list[float]] = {}
    ratios: dict[str, list[float]] = {}
    crypto: list[tuple[float, float]] = []
    latencies: dict[str, list[float]] = {}
    rates: dict[str, list[float]] = {}
    for number in range(rounds + 1):
        tokens: list[str] = []
        signed = _signed_exchanges(broker, subjects, int(900 * seconds))
        loads: list[tuple[str, Iterator[bytes] | None]] = [
            ("exchange, client_secret_basic", itertools.cycle(exchanges)),
            ("exchange, private_key_jwt", iter(signed)),
            ("introspection", None),
        ]
        for name, requests in loads:
            if requests is None:
                asked = [post("/introspect", {"token": token}, basic=API_BASIC) for token in tokens]
                requests = itertools.cycle(asked)
            verify, sign = calibration.take()
            cpu, outcome = _measure(broker, requests, seconds, tokens)
            if set(outcome.statuses) != {200}:
                raise SystemExit(f"{name}: answers {outcome.statuses}, such as {outcome.first_bad[:300]!r}")
            verify, sign = (statistics.mean(pair) for pair in zip((verify, sign), calibration.take(), strict=True))
            if number == 0:
                continue  # the first round warms up
            crypto.append((verify, sign))
            costs.setdefault(name, []).append(cpu)
            ratios.setdefault(name, []).append(cpu / (verify + sign))
            latencies.setdefault(name, []).extend(outcome.latencies)
            rates.setdefault(name, []).append(outcome.requests / outcome.seconds)
    return _print(costs, ratios, latencies, rates, crypto)


def _signed_exchanges(broker: BenchBroker, subjects: list[str], count: int) -> list[bytes]:
    made = []
    for number in range(count):
        form = exchange_form(subjects[number % len(subjects)], number)
        form["client_assertion_type"] = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
        form["client_assertion"] = assertion(broker.keys, broker.url)
        made.append(post("/token", form))
    return made


def _print(
    costs: dict[str, list[float]],
    ratios: dict[str, list[float]],
    latencies: dict[str, list[float]],
    rates: dict[str, list[float]],
    crypto: list[tuple[float, float]],
) -> bool:
    verify, sign = (statistics.median(column) * 1e6 for column in zip(*crypto, strict=True))
    print(f"own crypto on the same core, same run: ES256 verify {verify:.0f} us + sign {sign:.0f} us = {verify + sign:.0f} us")
    print(f"{'load, 50 connections':34s} {'CPU us/request':>14s} {'x crypto':>9s} {'req/s':>8s} {'p50 ms':>8s} {'p99 ms':>8s}")
    for name, values in costs.items():
        waits = sorted(latencies[name])
        print(
            f"{name:34s} {statistics.median(values) * 1e6:14.0f} {statistics.median(ratios[name]):9.2f} "
            f"{statistics.median(rates[name]):8.0f} {waits[len(waits) // 2] * 1e3:8.1f} {waits[len(waits) * 99 // 100] * 1e3:8.1f}"
        )
    found = statistics.median(ratios["exchange, client_secret_basic"])
    verdict = "within" if found <= LIMIT else "OVER"
    print(f"an exchange, durable audit included, costs {found:.2f} x its own ES256 verify and sign: {verdict} {LIMIT:g} x")
    return found <= LIMIT


if __name__ == "__main__":
    main()
