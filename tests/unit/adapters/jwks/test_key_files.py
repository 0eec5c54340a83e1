"""Key sets in files: read again when the file changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from broker.adapters.jwks.fetch import MAX_BYTES
from broker.adapters.jwks.keysets import HttpKeySets
from broker.domain.errors import Refusal
from broker.domain.policy.document import KeySource
from broker.domain.tokens.keyset import Schedule
from key_server import jwks

DAY = 86_400


class Parts:
    def __init__(self, folder: Path) -> None:
        self.now = 0.0
        self.path = folder / "keys.json"
        self.sets = HttpKeySets(schedule=Schedule(max_stale_seconds=DAY), seconds=lambda: self.now)

    def write(self, content: bytes) -> None:
        beside = self.path.with_suffix(".new")
        beside.write_bytes(content)
        os.replace(beside, self.path)

    async def ask(self, kid: str, *, after_seconds: float = 1.0) -> str:
        self.now += after_seconds
        found = await self.sets.find(KeySource(file=str(self.path)), kid=kid, algorithm="ES256")
        return found.reason.value if isinstance(found, Refusal) else "accept"


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    return Parts(tmp_path)


async def test_a_new_file_counts_from_the_next_question_on(parts: Parts) -> None:
    parts.write(jwks("k1"))
    assert await parts.ask("k1") == "accept"
    assert await parts.ask("k2") == "token_key_unknown"
    parts.write(jwks("k2"))
    assert await parts.ask("k2") == "accept"
    assert await parts.ask("k1") == "token_key_unknown"


async def test_a_file_is_looked_at_once_a_second_but_at_once_for_a_key_that_is_not_there(parts: Parts) -> None:
    parts.write(jwks("k1"))
    assert await parts.ask("k1") == "accept"
    parts.write(jwks("k2"))
    assert await parts.ask("k1", after_seconds=0.9) == "accept"
    assert await parts.ask("k1", after_seconds=0.1) == "token_key_unknown"
    parts.write(jwks("k1", "k2"))
    assert await parts.ask("k1", after_seconds=0) == "accept"


async def test_a_file_that_stays_the_same_never_grows_stale(parts: Parts) -> None:
    parts.write(jwks("k1"))
    for day in range(5):
        parts.now = day * DAY * 0.9
        assert await parts.ask("k1") == "accept"


@pytest.mark.parametrize("content", [b"", b"<html>", b'{"keys":[]}', b" " * (MAX_BYTES + 1)])
async def test_a_broken_file_keeps_the_old_keys_for_a_day_with_one_alarm(
    parts: Parts, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    parts.write(jwks("k1"))
    assert await parts.ask("k1") == "accept"
    parts.write(content)
    for _ in range(3):
        assert await parts.ask("k1") == "accept"
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    parts.now += DAY
    assert await parts.ask("k1") == "token_keys_unavailable"


async def test_a_file_that_is_gone_keeps_the_old_keys_for_a_day(parts: Parts) -> None:
    parts.write(jwks("k1"))
    assert await parts.ask("k1") == "accept"
    parts.path.unlink()
    assert await parts.ask("k1") == "accept"
    parts.now += DAY
    assert await parts.ask("k1") == "token_keys_unavailable"
    parts.write(jwks("k1"))
    assert await parts.ask("k1") == "accept"


async def test_a_file_that_was_never_there_has_no_keys_until_it_is(parts: Parts) -> None:
    assert await parts.ask("k1") == "token_keys_unavailable"
    parts.write(jwks("k1"))
    assert await parts.ask("k1") == "accept"


async def test_a_folder_or_a_pipe_is_no_key_file(parts: Parts) -> None:
    os.mkfifo(parts.path)
    assert await parts.ask("k1") == "token_keys_unavailable"
