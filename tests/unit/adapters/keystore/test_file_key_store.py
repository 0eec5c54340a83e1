"""The broker's own keys in files."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jwt
import pytest
from broker.adapters.keystore.store import SIGNING_ALGORITHMS, FileKeyStore
from broker.domain.errors import ConfigurationError
from broker.domain.tokens.keys import VerificationKey
from broker.engines.jwk import generate_private_key, private_pem
from broker.engines.jws import UnverifiedToken, read_unverified, verify
from cryptography.hazmat.primitives.asymmetric import ec


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "keys"


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


def test_the_first_start_makes_a_key_for_each_algorithm_and_says_so(folder: Path) -> None:
    store = FileKeyStore.open(folder)
    assert [(key.algorithm, key.use) for key in store.created] == [
        ("ES256", "sig"),
        ("EdDSA", "sig"),
        ("RS256", "sig"),
        ("HMAC-SHA-256", "audit"),
    ]
    assert modes(folder) == {
        "signing-ES256-1.pem": 0o600,
        "signing-EdDSA-1.pem": 0o600,
        "signing-RS256-1.pem": 0o600,
        "audit-arguments-1.key": 0o600,
    }
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_the_next_start_finds_them(folder: Path) -> None:
    first, second = FileKeyStore.open(folder), FileKeyStore.open(folder)
    assert second.created == ()
    assert second.jwks() == first.jwks()
    assert second.kid == first.kid
    assert second.digest_key == first.digest_key
    assert len(second.digest_key.secret) == 32


def test_a_folder_that_has_the_keys_is_only_read_so_that_replicas_may_mount_it_read_only(folder: Path) -> None:
    FileKeyStore.open(folder)
    before = {path.name: path.stat().st_mtime_ns for path in (folder, *folder.iterdir())}
    FileKeyStore.open(folder)
    assert {path.name: path.stat().st_mtime_ns for path in (folder, *folder.iterdir())} == before


@pytest.mark.parametrize("algorithm", SIGNING_ALGORITHMS)
def test_a_signature_verifies_with_the_published_key(folder: Path, algorithm: str) -> None:
    store = FileKeyStore.open(folder, algorithm=algorithm)
    token = store.sign({"iss": "broker", "sub": "alice"})
    header = jwt.get_unverified_header(token)
    assert header == {"typ": "at+jwt", "alg": algorithm, "kid": store.kid}
    published = {key.key_id: key for key in jwt.PyJWKSet.from_dict(store.jwks()).keys}
    assert jwt.decode(token, published[store.kid].key, algorithms=[algorithm]) == {"iss": "broker", "sub": "alice"}
    unverified, own = read_unverified(token), store.verification_key(store.kid)
    assert isinstance(unverified, UnverifiedToken)
    assert isinstance(own, VerificationKey)
    assert verify(unverified, own) == {"iss": "broker", "sub": "alice"}
    assert store.verification_key("unknown") is None


@pytest.mark.parametrize("algorithm", SIGNING_ALGORITHMS)
def test_a_statement_of_another_kind_says_so_in_its_header(folder: Path, algorithm: str) -> None:
    store = FileKeyStore.open(folder, algorithm=algorithm)
    statement = store.sign_as("revocation-receipt+jwt", {"iss": "broker"})
    header = jwt.get_unverified_header(statement)
    assert header == {"typ": "revocation-receipt+jwt", "alg": algorithm, "kid": store.kid}
    published = {key.key_id: key for key in jwt.PyJWKSet.from_dict(store.jwks()).keys}
    assert jwt.decode(statement, published[store.kid].key, algorithms=[algorithm]) == {"iss": "broker"}


def test_published_keys_are_public_and_complete(folder: Path) -> None:
    keys = FileKeyStore.open(folder).jwks()["keys"]
    assert isinstance(keys, list)
    assert sorted(str(key["alg"]) for key in keys if isinstance(key, dict)) == ["ES256", "EdDSA", "RS256"]
    for key in keys:
        assert isinstance(key, dict)
        assert key["use"] == "sig"
        assert not {"d", "p", "q", "dp", "dq", "qi", "k"} & key.keys()


def test_a_newer_key_signs_and_the_older_one_still_verifies(folder: Path) -> None:
    before = FileKeyStore.open(folder)
    newer = folder / "signing-ES256-2.pem"
    newer.write_bytes(private_pem(generate_private_key("ES256")))
    newer.chmod(0o600)
    after = FileKeyStore.open(folder)
    assert after.kid != before.kid
    assert after.verification_key(before.kid) is not None


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660])
def test_a_file_that_others_may_read_is_refused_with_the_mend(folder: Path, mode: int) -> None:
    FileKeyStore.open(folder)
    path = folder / "signing-ES256-1.pem"
    path.chmod(mode)
    with pytest.raises(ConfigurationError, match=f"chmod 600 {path}"):
        FileKeyStore.open(folder)


def test_a_folder_that_others_may_write_to_is_refused_with_the_mend(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o770)
    with pytest.raises(ConfigurationError, match=f"chmod 700 {folder}"):
        FileKeyStore.open(folder)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("signing-ES256-1.pem", b""),
        ("signing-ES256-1.pem", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
        ("signing-ES256-1.pem", private_pem(ec.generate_private_key(ec.SECP384R1()))),
        ("signing-ES256-1.pem", private_pem(generate_private_key("EdDSA"))),
        ("audit-arguments-1.key", b"short"),
    ],
)
def test_a_spoilt_file_stops_the_start_and_is_left_as_it_is(folder: Path, name: str, content: bytes) -> None:
    FileKeyStore.open(folder)
    (folder / name).write_bytes(content)
    with pytest.raises(ConfigurationError, match=name):
        FileKeyStore.open(folder)
    assert (folder / name).read_bytes() == content


def test_an_unknown_algorithm_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigurationError, match="ES256, RS256, EdDSA"):
        FileKeyStore.open(folder, algorithm="HS256")


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot be used"):
        FileKeyStore.open(tmp_path / "file" / "keys")


def test_two_first_starts_at_once_agree_on_the_keys(folder: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        stores = list(pool.map(lambda _: FileKeyStore.open(folder), range(8)))
    assert len({store.kid for store in stores}) == 1
    assert sum(len(store.created) for store in stores) == 4
    assert sorted(os.listdir(folder)) == sorted(modes(folder))
    assert not [name for name in os.listdir(folder) if name.startswith(".")]


def test_a_secret_is_not_shown(folder: Path) -> None:
    store = FileKeyStore.open(folder)
    assert repr(store.digest_key) == "DigestKey(version=1)"
    assert "PRIVATE" not in repr(store)
