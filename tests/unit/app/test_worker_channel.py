"""What a broker tells its workers, and what it is told."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from broker.app.channel import READY, WorkerChannel, spell_order
from broker.app.doorway import Doorway
from broker.app.settings import Settings
from broker.domain.errors import StoreUnclaimedError


def test_every_setting_arrives_as_it_was() -> None:
    ours, theirs = socket.socketpair()
    listener = socket.socket()
    sent = Settings(
        Path("p"), Path("d"), keys=Path("k"), peers=("https://a", "https://b"), workers=4, worker=3, store="s"
    )
    ours.sendall(spell_order(sent, listener=listener.detach()))
    channel = WorkerChannel(theirs.detach())
    assert channel.settings == sent
    assert [type(getattr(channel.settings, field.name)) for field in fields(sent)] == [
        type(getattr(sent, field.name)) for field in fields(sent)
    ]
    channel.tell(READY)
    assert ours.recv(64) == b"ready\n"
    channel.listener.close()
    channel.close()
    ours.close()


async def test_a_worker_hears_of_the_end_of_its_broker() -> None:
    ours, theirs = socket.socketpair()
    listener = socket.socket()
    ours.sendall(spell_order(Settings(Path("p"), Path("d")), listener=listener.detach()))
    channel = WorkerChannel(theirs.detach())
    ended = asyncio.Event()
    channel.watch(ended.set)
    ours.close()
    await asyncio.wait_for(ended.wait(), 5)
    channel.tell(READY)  # to nobody, which is no failure
    channel.listener.close()
    channel.close()


class _Api:
    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked.append(scope["path"])


@pytest.mark.parametrize(
    ("path", "status"),
    [("/token", 503), ("/readyz", 503), ("/admin/versions", 503), ("/healthz", 0), ("/replicas/knowledge", 0)],
)
async def test_before_the_broker_has_started_only_other_replicas_are_served(path: str, status: int) -> None:
    api, sent = _Api(), []
    why = StoreUnclaimedError("a majority is missing")
    doorway = Doorway(api, issuer="https://broker.example", why=lambda: why, request_id=lambda: "r")

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await doorway({"type": "http", "path": path}, None, send)
    assert api.asked == ([path] if not status else [])
    assert [message["status"] for message in sent if "status" in message] == ([status] if status else [])
    if path == "/readyz":
        assert b"a majority is missing" in sent[1]["body"]
    doorway.open()
    await doorway({"type": "http", "path": path}, None, send)
    assert api.asked[-1] == path
