"""A credential is verified once and remembered; what can change since is looked at each time."""

from __future__ import annotations

from typing import Any

import pytest
from broker.domain.errors import Reason, Refusal
from broker.domain.policy.document import KeySource
from broker.domain.tokens.keys import VerificationKey
from broker.engines import jws
from broker.gate import credentials
from broker.gate.broker_http import BrokerUnreachableError
from broker.gate.credentials import LEEWAY_SECONDS, CredentialReader, Presented

from broker_parts import private_key, sign

ISSUER, AUDIENCE, NOW = "https://b.example", "https://db.internal", 1_800_000_000


class Keys:
    """The broker's keys, as a test has them."""

    def __init__(self) -> None:
        self.found: VerificationKey | Refusal = VerificationKey("k1", "ES256", private_key("k1", "ES256").public_key())

    async def find(self, source: KeySource, *, kid: str | None, algorithm: str) -> VerificationKey | Refusal:
        return self.found


class Clock:
    at = NOW

    def __call__(self) -> float:
        return self.at


def token(key: str = "k1", **claims: Any) -> str:
    detail = {
        "type": "mcp_tool_call",
        "tool": "db.query",
        "version": "3",
        "contract": "sha256:" + "0" * 64,
        "task": "report",
    }
    made = {
        "iss": ISSUER,
        "sub": "alice",
        "sub_id": {"format": "iss_sub", "iss": "https://idp.example", "sub": "alice"},
        "aud": AUDIENCE,
        "client_id": "svc",
        "act": {"iss": "https://idp.example", "sub": "agent-7"},
        "scope": "db:read",
        "authorization_details": [detail],
        "iat": NOW,
        "exp": NOW + 60,
        "jti": "j-1",
        "txn": "t-1",
        "chain": "j-1",
        "policy": "sha256:" + "1" * 64,
        "gen": 5,
        "rseq": 3,
    }
    return sign({**made, **claims}, key, typ="at+jwt")


class Verifications:
    """How often a signature was checked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        whole = jws.verify

        def counted(*arguments: Any) -> Any:
            self.count += 1
            return whole(*arguments)

        monkeypatch.setattr(jws, "verify", counted)


@pytest.fixture
def keys() -> Keys:
    return Keys()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def reader(keys: Keys, clock: Clock) -> CredentialReader:
    return CredentialReader(keys, KeySource(url="http://b/jwks"), issuer=ISSUER, audience=AUDIENCE, clock=clock)


async def test_a_signature_is_checked_once(reader: CredentialReader, monkeypatch: pytest.MonkeyPatch) -> None:
    verifications = Verifications(monkeypatch)
    made = token()
    first = await reader.read(made)
    assert isinstance(first, Presented)
    assert await reader.read(made) is first
    assert verifications.count == 1
    assert first.credential.jti == "j-1"


async def test_a_key_that_is_gone_takes_what_was_remembered_with_it(reader: CredentialReader, keys: Keys) -> None:
    made = token()
    await reader.read(made)
    keys.found = Refusal(Reason.TOKEN_KEY_UNKNOWN, "gone", where="kid")
    assert await reader.read(made) == keys.found


async def test_another_key_under_the_same_name_is_another_key(reader: CredentialReader, keys: Keys) -> None:
    made = token()
    await reader.read(made)
    keys.found = VerificationKey("k1", "ES256", private_key("k2", "ES256").public_key())
    refusal = await reader.read(made)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.TOKEN_SIGNATURE_INVALID


async def test_the_same_key_fetched_again_is_the_same_key(
    reader: CredentialReader, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    verifications = Verifications(monkeypatch)
    made = token()
    await reader.read(made)
    keys.found = VerificationKey("k1", "ES256", private_key("k1", "ES256").public_key())
    assert isinstance(await reader.read(made), Presented)
    assert verifications.count == 1


async def test_keys_that_cannot_be_had_are_no_fault_of_the_token(reader: CredentialReader, keys: Keys) -> None:
    made = token()
    await reader.read(made)
    keys.found = Refusal(Reason.TOKEN_KEYS_UNAVAILABLE, "away")
    for one in (made, token(jti="j-2")):
        with pytest.raises(BrokerUnreachableError):
            await reader.read(one)


async def test_what_was_remembered_expires_like_anything_else(reader: CredentialReader, clock: Clock) -> None:
    made = token()
    for at, expired in ((NOW + 60 + LEEWAY_SECONDS - 1, False), (NOW + 60 + LEEWAY_SECONDS, True)):
        clock.at = NOW
        await reader.read(made)
        clock.at = at
        remembered, anew = await reader.read(made), await reader.read(token(jti=f"j-{at}"))
        for found in (remembered, anew):
            assert isinstance(found, Refusal) is expired
            assert not expired or found.reason is Reason.TOKEN_EXPIRED  # type: ignore[union-attr]


async def test_a_refusal_is_not_remembered(reader: CredentialReader, clock: Clock) -> None:
    made = token()
    clock.at = NOW - 1_000
    assert isinstance(await reader.read(made), Refusal)
    clock.at = NOW
    assert isinstance(await reader.read(made), Presented)


async def test_only_so_many_are_remembered(reader: CredentialReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "MAX_REMEMBERED", 3)
    verifications = Verifications(monkeypatch)
    made = [token(jti=f"j-{number}") for number in range(4)]
    for one in (*made[:3], made[0], made[3], made[0], made[1]):
        await reader.read(one)
    assert verifications.count == 5, "the one that was not seen for longest went, and had to be verified again"


async def test_a_key_without_a_name_could_not_be_revoked(reader: CredentialReader, keys: Keys) -> None:
    keys.found = VerificationKey(None, "ES256", private_key("k1", "ES256").public_key())
    refusal = await reader.read(token())
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.TOKEN_KEY_UNKNOWN
