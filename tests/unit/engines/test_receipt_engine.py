"""A receipt is checked with the broker's public keys alone; nothing else that those keys signed is taken for one."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import jwt
import pytest
from broker.adapters.keystore.store import SIGNING_ALGORITHMS, FileKeyStore
from broker.domain.errors import Reason, Refusal
from broker.domain.revocation.feed import Point
from broker.domain.revocation.lease import Holder, receipt
from broker.domain.revocation.scopes import RevocationScope
from broker.domain.revocation.statement import TYPE, Revocation, Statement, state, statement_claims
from broker.domain.tokens.keys import KeySet
from broker.engines.jwk import parse_jwks
from broker.engines.receipt import VerifiedReceipt, verify_receipt

POINT = Point(1_764_000_000_000, 7)


@pytest.fixture
def keys(tmp_path: Path) -> FileKeyStore:
    return FileKeyStore.open(tmp_path / "keys")


def published(keys: FileKeyStore) -> KeySet:
    found = parse_jwks(keys.jwks())
    assert isinstance(found, KeySet)
    return found


def a_statement(verifiers: int = 2) -> Statement:
    holders = [Holder(f"verifier-{number:04}", "db-api", POINT) for number in range(verifiers)]
    return state(
        receipt(POINT, holders, elapsed=0.1, lease_seconds=2.0),
        Revocation(POINT, (RevocationScope("version:db.query@4"),), "c", "t", "operator"),
        issuer="https://broker.example",
        id="r",
        issued_at=1,
        recorded=True,
        lease_ms=2_000,
        elapsed_ms=100,
    )


def reason(outcome: VerifiedReceipt | Refusal) -> Reason:
    assert isinstance(outcome, Refusal), outcome
    return outcome.reason


@pytest.mark.parametrize("algorithm", SIGNING_ALGORITHMS)
def test_what_the_broker_signed_is_verified_and_read(tmp_path: Path, algorithm: str) -> None:
    keys = FileKeyStore.open(tmp_path / "keys", algorithm=algorithm)
    text = keys.sign_as(TYPE, statement_claims(a_statement()))
    assert verify_receipt(text, published(keys)) == VerifiedReceipt(a_statement(), keys.kid)
    key = next(key for key in jwt.PyJWKSet.from_dict(keys.jwks()).keys if key.key_id == keys.kid)
    assert jwt.decode(text, key.key, algorithms=[algorithm], options={"verify_iat": False})["seq"] == 7


def test_a_receipt_of_many_verifiers_is_longer_than_a_token_may_be_and_is_read(keys: FileKeyStore) -> None:
    text = keys.sign_as(TYPE, statement_claims(a_statement(2_000)))
    assert 16_384 < len(text) < 65_000
    found = verify_receipt(text, published(keys))
    assert isinstance(found, VerifiedReceipt)
    assert found.statement.acknowledged_count == 2_000


@pytest.mark.parametrize("part", [0, 1, 2])
def test_a_receipt_in_which_anything_was_changed_is_refused(keys: FileKeyStore, part: int) -> None:
    text = keys.sign_as(TYPE, statement_claims(a_statement()))
    segments = text.split(".")
    raw = bytearray(base64.urlsafe_b64decode(segments[part] + "=="))
    for at in range(0, len(raw), 7):
        changed = bytes([*raw[:at], raw[at] ^ 1, *raw[at + 1 :]])
        edited = segments.copy()
        edited[part] = base64.urlsafe_b64encode(changed).rstrip(b"=").decode()
        assert isinstance(verify_receipt(".".join(edited), published(keys)), Refusal), at


def test_a_receipt_with_another_sequence_under_the_old_signature_is_refused(keys: FileKeyStore) -> None:
    head, body, tail = keys.sign_as(TYPE, statement_claims(a_statement())).split(".")
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=="))
    edited = base64.urlsafe_b64encode(json.dumps({**claims, "seq": 8}).encode()).rstrip(b"=").decode()
    assert reason(verify_receipt(f"{head}.{edited}.{tail}", published(keys))) is Reason.TOKEN_SIGNATURE_INVALID


def test_a_receipt_that_another_broker_signed_is_refused(keys: FileKeyStore, tmp_path: Path) -> None:
    other = FileKeyStore.open(tmp_path / "other")
    text = other.sign_as(TYPE, statement_claims(a_statement()))
    assert reason(verify_receipt(text, published(keys))) is Reason.TOKEN_KEY_UNKNOWN


def test_a_credential_is_no_receipt_whatever_it_claims(keys: FileKeyStore) -> None:
    text = keys.sign(statement_claims(a_statement()))
    assert reason(verify_receipt(text, published(keys))) is Reason.TOKEN_TYPE_INVALID


def test_a_receipt_that_names_no_key_or_no_algorithm_is_refused(keys: FileKeyStore) -> None:
    claims = base64.urlsafe_b64encode(json.dumps(statement_claims(a_statement())).encode()).rstrip(b"=").decode()

    def forged(**header: Any) -> VerifiedReceipt | Refusal:
        head = base64.urlsafe_b64encode(json.dumps({"typ": TYPE, **header}).encode()).rstrip(b"=").decode()
        return verify_receipt(f"{head}.{claims}.AAAA", published(keys))

    assert reason(forged(alg="none")) is Reason.TOKEN_ALGORITHM_REFUSED
    assert reason(forged(alg="HS256", kid=keys.kid)) is Reason.TOKEN_ALGORITHM_REFUSED
    assert reason(forged(alg="ES256")) is Reason.TOKEN_KEY_UNKNOWN
    assert reason(forged(alg="EdDSA", kid=keys.kid)) is Reason.TOKEN_KEY_UNKNOWN


def test_signed_claims_that_are_no_receipt_are_refused(keys: FileKeyStore) -> None:
    claims = statement_claims(a_statement())
    assert reason(verify_receipt(keys.sign_as(TYPE, {**claims, "v": 2}), published(keys))) is Reason.TOKEN_CLAIM_INVALID


@pytest.mark.parametrize("text", ["", "a.b", "a.b.c", "x" * 70_000, "ü.ü.ü"])
def test_what_is_no_signed_text_is_refused(keys: FileKeyStore, text: str) -> None:
    assert reason(verify_receipt(text, published(keys))) is Reason.TOKEN_MALFORMED
