"""`make bench-rollback`: from an operator's rollback to the last verifier that refuses, beside a bare echo of server-sent events.

For 1, 50 and 200 verifiers, in blocks that alternate: a bare ASGI app that sends what is posted to it on to as many streams; and a
real broker with its store, rolled back, made a canary and promoted again and again. On both sides the same reader
(`broker.gate.feed_client`) in the same processes; at the broker each verifier has its own follower, lease and credential, and the
time that counts is when its judgement of that credential turns from yes to no.

Broker, store and echo on core 0; verifiers and operator on core 1. Exits 1 where p99 at 50 verifiers is over `LIMIT` times the
echo's.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import multiprocessing
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx2
from broker.domain.errors import Refusal
from broker.domain.revocation.feed import Change, Snapshot, spell_event
from broker.domain.revocation.view import Standing
from broker.engines.jwk import public_jwk
from broker.engines.jws import sign
from broker.gate.client_auth import ClientSecret
from broker.gate.credentials import CredentialReader, Presented
from broker.gate.feed_client import FeedClient
from broker.gate.feed_state import Seen
from broker.gate.follower import SILENCE_SECONDS, Follower
from broker.gate.keys import broker_keys
from tests.bench.setup import (
    OTHER_CORE,
    ROOT,
    SECRET,
    SERVER_CORE,
    BenchBroker,
    children_of,
    exchange_form,
    start_broker,
    subject_tokens,
    wait_for_port,
)

LIMIT = 3.0
COUNTS = (1, 50, 200)
JUDGED_AT = 50
PATIENCE_SECONDS = 30.0
REST_SECONDS = 0.2  # between rollbacks: the verifiers have acknowledged the one before, and only renew their leases
AUDIENCE = "https://db.internal"


@dataclass(slots=True)
class Row:
    """Seconds from the request sent to each reader's answer, of all rounds; and to the last of each round."""

    each: list[float] = field(default_factory=list)
    last: list[float] = field(default_factory=list)


# the readers, in processes of their own


def read_echo(pipe: Connection, url: str, count: int) -> None:
    os.sched_setaffinity(0, {OTHER_CORE})
    asyncio.run(_read_echo(pipe, url, count))


async def _read_echo(pipe: Connection, url: str, count: int) -> None:
    heard: asyncio.Queue[float] = asyncio.Queue()

    async def listen() -> None:
        client = FeedClient([url], ClientSecret("db-api", SECRET), silence_seconds=PATIENCE_SECONDS)
        async for _ in client.listen(None):
            heard.put_nowait(time.monotonic())

    tasks = [asyncio.create_task(listen()) for _ in range(count)]
    for _ in tasks:
        await heard.get()  # each one's first event
    pipe.send(None)
    while await _asked(pipe) is not None:
        pipe.send([await heard.get() for _ in range(count)])
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Watched(Follower):
    """Judges a credential the moment that anything has changed, as a request would that comes then."""

    presented: Presented | None = None
    refused: asyncio.Future[float]

    def _tell(self) -> None:
        super()._tell()
        if self.presented is not None and self.presented.standing(self) is Standing.REVOKED and not self.refused.done():
            self.refused.set_result(time.monotonic())

    def watch(self, presented: Presented) -> asyncio.Future[float]:
        """When it refuses what it still accepts."""
        assert presented.standing(self) is Standing.ALIVE
        self.presented, self.refused = presented, asyncio.get_running_loop().create_future()
        return self.refused


def verify(pipe: Connection, url: str, count: int) -> None:
    os.sched_setaffinity(0, {OTHER_CORE})
    asyncio.run(_verify(pipe, url, count))


async def _verify(pipe: Connection, url: str, count: int) -> None:
    auth = ClientSecret("db-api", SECRET)
    followers = [
        Watched(FeedClient([url], auth, silence_seconds=SILENCE_SECONDS), state=None, seen=Seen()) for _ in range(count)
    ]
    source, keys = broker_keys([url])
    for follower in followers:
        follower.start()
    reader = CredentialReader(keys, source, issuer=url, audience=AUDIENCE)
    while (token := await _asked(pipe)) is not None:
        presented = await reader.read(token)
        assert not isinstance(presented, Refusal), presented
        for follower in followers:
            await _accepts(follower, presented)
        for follower in followers:
            await _accepts(follower, presented)  # a lease may have run out while others were waited for
        watching = [follower.watch(presented) for follower in followers]
        pipe.send(None)  # every one says yes
        pipe.send(await asyncio.gather(*watching))
    await asyncio.gather(*(follower.aclose() for follower in followers))
    await keys.close()


async def _accepts(follower: Follower, presented: Presented) -> None:
    while presented.standing(follower) is not Standing.ALIVE:
        if not await follower.moved(within_seconds=PATIENCE_SECONDS):
            raise SystemExit("a verifier does not accept a good credential")


async def _asked(pipe: Connection) -> Any:
    return await asyncio.to_thread(pipe.recv)


class Readers:
    """`count` readers over two processes, one where there is one."""

    def __init__(self, target: Any, url: str, count: int) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._parts = []
        for share in [count] if count == 1 else [count // 2, count - count // 2]:
            ours, theirs = spawn.Pipe()
            process = spawn.Process(target=target, args=(theirs, url, share), daemon=True)
            process.start()
            self._parts.append((ours, process))

    def tell(self, what: Any) -> None:
        for pipe, _ in self._parts:
            pipe.send(what)

    def answers(self) -> list[Any]:
        found = []
        for pipe, process in self._parts:
            if not pipe.poll(PATIENCE_SECONDS):
                raise SystemExit(f"a reader does not answer; exit code {process.exitcode}")
            found.append(pipe.recv())
        return found

    def stop(self) -> None:
        self.tell(None)
        for _, process in self._parts:
            process.join(PATIENCE_SECONDS)


# the echo


def make_echo() -> Any:
    """POST / sends its body on to every GET."""
    listeners: set[asyncio.Queue[bytes]] = set()

    async def echo(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        if scope["method"] == "POST":
            body = (await receive())["body"]
            for listener in listeners:
                listener.put_nowait(body)
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        listeners.add(queue)
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": spell_event(Snapshot(1, 0)), "more_body": True})
        while True:
            await send({"type": "http.response.body", "body": await queue.get(), "more_body": True})

    return echo


@contextlib.contextmanager
def echo_server() -> Iterator[str]:
    """The bare app under the broker's own server, on its core."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "--factory", "tests.bench.rollback:make_echo", "--port", str(port)]
    options = ["--log-level", "critical", "--loop", "uvloop", "--http", "httptools", "--lifespan", "off"]
    with subprocess.Popen([*command, *options], cwd=ROOT) as process:
        try:
            wait_for_port(port, process)
            os.sched_setaffinity(process.pid, {SERVER_CORE})
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


def echo_block(row: Row, count: int, rounds: int) -> None:
    with echo_server() as url, httpx2.Client(base_url=url) as http:
        readers = Readers(read_echo, url, count)
        try:
            readers.answers()
            for number in range(-2, rounds):
                readers.tell("an event")
                time.sleep(REST_SECONDS)
                body = spell_event(Change(1, max(number, 0), {}, {}))
                sent = time.monotonic()
                http.post("/", content=body).raise_for_status()
                _note(row if number >= 0 else Row(), sent, readers.answers())
        finally:
            readers.stop()


# the broker


class Operator:
    """An operator with a connection that is open; assertions are signed before time counts."""

    def __init__(self, broker: BenchBroker) -> None:
        self._broker = broker
        self._http = httpx2.Client(base_url=broker.url, timeout=PATIENCE_SECONDS)
        self._subject = subject_tokens(broker.keys, 1)[0]
        self._number = 0

    def command(self, name: str, **body: Any) -> float:
        """When the request was sent."""
        now = int(time.time())
        claims = {"iss": "bench", "sub": "bench", "aud": self._broker.url, "iat": now, "exp": now + 60}
        kid = public_jwk(self._broker.keys.admin, algorithm="ES256")["kid"]  # type: ignore[arg-type]
        proof = sign(
            {"typ": "JWT", "kid": kid},
            {**claims, "jti": secrets.token_urlsafe(16)},
            self._broker.keys.admin,
            algorithm="ES256",
        )
        headers = {"authorization": f"Bearer {proof}"}
        sent = time.monotonic()
        answer = self._http.post(f"/admin/versions/db.query/3/{name}", json=body, headers=headers)
        if answer.status_code != 200:
            raise SystemExit(f"{name}: {answer.status_code} {answer.text}")
        return sent

    def mint(self) -> str:
        self._number += 1
        basic = base64.b64encode(f"reporting-mcp:{SECRET}".encode()).decode()
        form = exchange_form(self._subject, self._number)
        answer = self._http.post("/token", data=form, headers={"authorization": f"Basic {basic}"})
        if answer.status_code != 200:
            raise SystemExit(f"exchange: {answer.status_code} {answer.text}")
        return str(answer.json()["access_token"])

    def close(self) -> None:
        self._http.close()


def rollback_block(row: Row, broker: BenchBroker, operator: Operator, count: int, rounds: int) -> None:
    readers = Readers(verify, broker.url, count)
    try:
        for number in range(-2, rounds):
            readers.tell(operator.mint())
            readers.answers()
            time.sleep(REST_SECONDS)
            sent = operator.command("rollback", force=True)
            _note(row if number >= 0 else Row(), sent, readers.answers())
            operator.command("canary")
            operator.command("promote")
    finally:
        readers.stop()


def _note(row: Row, sent: float, answers: list[list[float]]) -> None:
    took = [at - sent for answer in answers for at in answer]
    row.each += took
    row.last.append(max(took))


def percentile(values: list[float], part: float) -> float:
    """In milliseconds."""
    found = sorted(values)
    return found[min(len(found) - 1, int(len(found) * part))] * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-rollback")
    parser.add_argument("--rounds", type=int, default=40, help="of each block")
    parser.add_argument("--blocks", type=int, default=3)
    options = parser.parse_args()
    os.sched_setaffinity(0, {OTHER_CORE})
    echo, rollback = ({count: Row() for count in COUNTS} for _ in range(2))
    with tempfile.TemporaryDirectory(prefix="broker-bench-") as folder:
        broker = start_broker(Path(folder))
        for child in children_of(broker.process.pid):
            for thread in Path(f"/proc/{child}/task").iterdir():
                os.sched_setaffinity(int(thread.name), {SERVER_CORE})
        operator = Operator(broker)
        try:
            for _ in range(options.blocks):
                for count in COUNTS:
                    echo_block(echo[count], count, options.rounds)
                    rollback_block(rollback[count], broker, operator, count, options.rounds)
        finally:
            operator.close()
            broker.stop()
    sys.exit(0 if _print(echo, rollback, options.rounds * options.blocks) else 1)


def _print(echo: dict[int, Row], rollback: dict[int, Row], rounds: int) -> bool:
    print(f"milliseconds from the operator's request to each verifier that refuses, {rounds} rollbacks;")
    print(
        "echo: a bare app that sends what is posted to it on to as many streams, read by the same code, in the same run"
    )
    print(f"{'verifiers':>9s}  {'':9s} {'p50':>7s} {'p99':>7s} {'max':>7s} {'all p50':>8s} {'all p99':>8s}")
    for count in COUNTS:
        for name, row in (("echo", echo[count]), ("rollback", rollback[count])):
            figures = [percentile(row.each, 0.5), percentile(row.each, 0.99), max(row.each) * 1e3]
            both = [percentile(row.last, 0.5), percentile(row.last, 0.99)]
            print(
                f"{count:9d}  {name:9s}"
                + "".join(f" {figure:7.1f}" for figure in figures)
                + "".join(f" {figure:8.1f}" for figure in both)
            )
    ratio = percentile(rollback[JUDGED_AT].each, 0.99) / percentile(echo[JUDGED_AT].each, 0.99)
    half = percentile(rollback[JUDGED_AT].each, 0.5) / percentile(echo[JUDGED_AT].each, 0.5)
    verdict = "within" if ratio <= LIMIT else "OVER"
    print(f"at {JUDGED_AT} verifiers p99 is {ratio:.2f} x that of the echo (p50 {half:.2f} x): {verdict} {LIMIT:g} x")
    return ratio <= LIMIT


if __name__ == "__main__":
    main()
