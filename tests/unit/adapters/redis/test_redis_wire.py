"""What is written in the store: keys, records and the library. All of it only grows, so its bytes are pinned here."""

from __future__ import annotations

import re
import struct
from importlib.resources import files

import pytest
import redis as redis_py
from broker.adapters.redis.keys import raw_jti, tenant_keys
from broker.adapters.redis.library import NAME, library_text, text_digest
from broker.adapters.redis.store import RedisStore
from broker.ports.store import Issued
from redis.cluster import key_slot

from store_parts import an_issue

LIBRARY_DIGEST = "sha256:f3d3a75e0589ada61df6a855c72e39ce447d6fbc28ac9993e75687716fa17f2a"


def test_the_library_text_changes_only_with_its_number() -> None:
    assert (NAME, text_digest(library_text())) == ("mayfly_1", LIBRARY_DIGEST), (
        "once a library has been released, a changed text needs a new number in NAME and in every function name; "
        "until then pin the new digest here"
    )


def test_every_function_carries_the_number_of_the_library() -> None:
    number = NAME.rpartition("_")[2]
    names = re.findall(rb"function_name = '([a-z_0-9]+)'", library_text())
    assert len(names) == 16
    assert all(name.decode().endswith(f"_{number}") for name in names)


def test_every_lua_file_says_its_units_in_its_first_line_and_documents_its_functions() -> None:
    for file in (files("broker.adapters.redis") / "functions").iterdir():
        text = file.read_text("utf-8")
        assert re.search(r"milliseconds|Unix seconds|counter|counts", text.splitlines()[0]), file.name
        assert text.count("-- KEYS") == text.count("register_function"), file.name
        assert text.count("-- Returns") == text.count("register_function"), file.name


def test_the_keys_of_a_tenant_share_one_slot_whatever_is_appended_to_them() -> None:
    keys = tenant_keys("acme")
    names = [
        *(keys.control, keys.states, keys.versions, keys.marks, keys.outbox),
        *(keys.credential + b"}{\x00\r\n" * 4, keys.assertion + b"client}:{x", keys.idempotency + b"}"),
    ]
    assert {key_slot(name) for name in names} == {key_slot(b"brk:acme")}


def test_keys_are_spelled_as_they_always_were() -> None:
    keys = tenant_keys("acme")
    assert (keys.control, keys.states, keys.versions, keys.marks, keys.outbox) == (
        *(b"{brk:acme}:ctl", b"{brk:acme}:st", b"{brk:acme}:ver", b"{brk:acme}:rev", b"{brk:acme}:out"),
    )
    assert (keys.credential, keys.assertion, keys.idempotency) == (b"{brk:acme}c", b"{brk:acme}:a:", b"{brk:acme}:i:")


@pytest.mark.parametrize("tenant", ["", "a}b", "{a", "A", "a b", "x" * 33, "1a"])
def test_a_tenant_that_could_leave_its_tag_is_none(tenant: str) -> None:
    with pytest.raises(ValueError):
        tenant_keys(tenant)


def test_a_jti_has_one_spelling() -> None:
    assert raw_jti("A" * 22) == bytes(16)
    assert raw_jti("A" * 21 + "B") is None  # the same 16 bytes, spelled with a stray bit
    assert raw_jti("A" * 21 + "=") is None


async def test_the_bytes_of_a_credential_are_format_1(any_server: str, any_store: RedisStore) -> None:
    issue = an_issue("4", uses=7)
    answer = await any_store.issue(issue)
    assert isinstance(answer, Issued)
    jti = raw_jti(issue.jti)
    assert jti is not None
    kept = _raw(any_server, any_store, jti)
    assert kept == b"".join(
        (
            *(
                b"\x01",
                jti,
                answer.gen.to_bytes(6, "big"),
                answer.rseq.to_bytes(6, "big"),
                answer.gseq.to_bytes(6, "big"),
            ),
            struct.pack(">II", 7, issue.expires_at),
        )
    )
    assert len(kept) == 43


def _raw(url: str, store: RedisStore, jti: bytes) -> bytes:
    with redis_py.Redis.from_url(url) as admin:
        found = [admin.get(key) for key in admin.scan_iter(b"*}c*") if key.endswith(jti)]
    assert len(found) == 1
    return bytes(found[0])
