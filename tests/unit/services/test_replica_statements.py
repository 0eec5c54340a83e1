"""With what replicas of one broker authenticate to each other, and what does not do."""

from __future__ import annotations

from pathlib import Path

import pytest
from broker.adapters.keystore.store import FileKeyStore
from broker.adapters.system.clock import SystemClock
from broker.adapters.system.entropy import SystemEntropy
from broker.app.tokens import JwsReader
from broker.domain.canonical import JsonObject
from broker.domain.errors import Reason, Refusal
from broker.domain.ids import ClientId
from broker.domain.tokens.client_auth import AssertionText, Secret
from broker.services.replicas import LEEWAY_SECONDS, LIFETIME_SECONDS, TYPE, Statements

ISSUER = "https://broker.example"


class At(SystemClock):
    """The system's clock, put forward."""

    def __init__(self, seconds: int) -> None:
        self._seconds = seconds

    def now(self) -> int:
        return super().now() + self._seconds


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("broker") / "keys"
    FileKeyStore.open(made)
    return made


def statements(folder: Path, *, issuer: str = ISSUER, later: int = 0) -> Statements:
    keys = FileKeyStore.open(folder)
    return Statements(issuer=issuer, signer=keys, reader=JwsReader(), clock=At(later), entropy=SystemEntropy())


def judged(by: Statements, token: str) -> Refusal | None:
    return by.check(AssertionText(unverified=token, client=None))


def test_a_replica_with_the_same_keys_is_believed(folder: Path) -> None:
    assert judged(statements(folder), statements(folder).make()) is None


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("at+jwt", {}),
        ("JWT", {}),
        (TYPE, {"aud": ISSUER}),
        (TYPE, {"iss": "https://elsewhere.example"}),
        (TYPE, {"sub": "operator"}),
        (TYPE, {"exp": 10**10}),
    ],
)
def test_what_else_the_broker_signs_is_no_statement(folder: Path, kind: str, changes: JsonObject) -> None:
    keys, now = FileKeyStore.open(folder), SystemClock().now()
    claims: JsonObject = {
        "iss": ISSUER,
        "sub": ISSUER,
        "aud": f"{ISSUER}/replicas",
        "iat": now,
        "exp": now + 60,
        "jti": "j",
    }
    assert judged(statements(folder), keys.sign_as(TYPE, claims)) is None
    refused = judged(statements(folder), keys.sign_as(kind, {**claims, **changes}))
    assert refused is not None
    assert refused.reason is Reason.CLIENT_ASSERTION_INVALID


def test_another_brokers_key_and_an_old_statement_do_not_do(folder: Path, tmp_path: Path) -> None:
    assert judged(statements(folder), statements(tmp_path / "keys").make()) is not None
    later = LIFETIME_SECONDS + LEEWAY_SECONDS
    assert judged(statements(folder, later=later - 2), statements(folder).make()) is None
    assert judged(statements(folder, later=later + 1), statements(folder).make()) is not None


def test_a_secret_and_nothing_at_all_do_not_do(folder: Path) -> None:
    one = statements(folder)
    assert one.check(Secret(ClientId("svc"), "s", "client_secret_basic")) is not None
    unsaid = Refusal(Reason.CLIENT_UNAUTHENTICATED, "x")
    assert one.check(unsaid) is unsaid
    for text in ("", "a.b.c", "x"):
        assert judged(one, text) is not None


def test_a_revoked_key_signs_no_statement_that_counts(tmp_path: Path) -> None:
    keys = FileKeyStore.open(tmp_path / "keys")
    stolen = statements(tmp_path / "keys").make()
    keys.retire(keys.kid)
    assert judged(statements(tmp_path / "keys"), stolen) is not None
