"""The broker's own keys in files."""

from __future__ import annotations

import errno
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jwt
import pytest
from broker.adapters.keystore.store import SIGNING_ALGORITHMS, FileKeyStore
from broker.domain.errors import ConfigurationError, SigningUnavailableError
from broker.domain.tokens.keys import VerificationKey
from broker.engines.jwk import generate_private_key, private_pem
from broker.engines.jws import UnverifiedToken, read_unverified, verify
from broker.ports.keys import CreatedKey, RetiredKey
from cryptography.hazmat.primitives.asymmetric import ec


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "keys"


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


def created(store: FileKeyStore) -> list[CreatedKey]:
    return [note for note in store.take_notes() if isinstance(note, CreatedKey)]


def published(store: FileKeyStore) -> set[str]:
    keys = store.jwks()["keys"]
    assert isinstance(keys, list)
    return {str(key["kid"]) for key in keys if isinstance(key, dict)}


def forbid_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a mount that is read-only; permissions would stop nobody who runs tests as root."""
    real = os.open

    def opened(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return real(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", opened)


def test_the_first_start_makes_a_key_for_each_algorithm_and_says_so(folder: Path) -> None:
    store = FileKeyStore.open(folder)
    assert [(key.algorithm, key.use) for key in created(store)] == [
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
    assert second.take_notes() == ()
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
    assert sum(len(store.take_notes()) for store in stores) == 4
    assert sorted(os.listdir(folder)) == sorted(modes(folder))
    assert not [name for name in os.listdir(folder) if name.startswith(".")]


def test_a_secret_is_not_shown(folder: Path) -> None:
    store = FileKeyStore.open(folder)
    assert repr(store.digest_key) == "DigestKey(version=1)"
    assert "PRIVATE" not in repr(store)


def test_a_retired_key_is_gone_at_once_and_another_signs(folder: Path) -> None:
    store = FileKeyStore.open(folder)
    store.take_notes()
    gone = store.kid
    store.retire(gone)
    assert store.kid != gone
    assert gone not in published(store)
    assert store.verification_key(gone) is None
    assert jwt.get_unverified_header(store.sign({}))["kid"] == store.kid
    assert store.take_notes() == (RetiredKey(gone, "revoked"), CreatedKey(store.kid, "ES256", "sig"))
    assert (folder / "signing-ES256-2.pem").exists()
    store.retire(gone)
    assert store.take_notes() == ()


def test_a_retired_key_stays_so_over_restarts_and_whatever_becomes_of_its_file(folder: Path) -> None:
    store = FileKeyStore.open(folder)
    gone, text = store.kid, (folder / "signing-ES256-1.pem").read_bytes()
    store.retire(gone)
    (folder / "signing-ES256-9.pem").write_bytes(text)
    (folder / "signing-ES256-9.pem").chmod(0o600)
    again = FileKeyStore.open(folder)
    assert again.kid == store.kid
    assert gone not in published(again)
    assert again.verification_key(gone) is None
    assert (folder / "retired-keys").read_text() == f"{gone}\n"
    assert modes(folder)["retired-keys"] == 0o600


def test_a_line_that_a_crash_cut_off_swallows_no_other(folder: Path) -> None:
    store = FileKeyStore.open(folder)
    store.retire("one")
    with (folder / "retired-keys").open("a") as file:
        file.write("tw")
    store.retire("three")
    assert (folder / "retired-keys").read_text().splitlines() == ["one", "tw", "three"]


def test_a_key_that_does_not_sign_is_retired_without_a_change_of_the_one_that_does(folder: Path) -> None:
    store = FileKeyStore.open(folder)
    old = store.kid
    new = store.rotate()
    assert (store.kid, published(store) >= {old, new}) == (new, True)
    store.retire(old)
    assert store.kid == new
    assert old not in published(store)


def test_replicas_on_one_folder_see_what_one_of_them_did(folder: Path) -> None:
    one, other = FileKeyStore.open(folder), FileKeyStore.open(folder)
    new = one.rotate()
    assert other.verification_key(new) is not None
    assert new in published(other)
    assert other.kid == new
    one.retire(new)
    other.refresh()
    assert other.kid == one.kid != new
    assert other.verification_key(new) is None


def test_replicas_that_retire_one_key_at_once_agree_on_the_next(folder: Path) -> None:
    stores = [FileKeyStore.open(folder) for _ in range(8)]
    for store in stores:
        store.take_notes()
    gone = stores[0].kid
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda store: store.retire(gone), stores))
    for store in stores:
        store.refresh()
    assert len({store.kid for store in stores}) == 1
    notes = [note for store in stores for note in store.take_notes()]
    assert [note for note in notes if isinstance(note, RetiredKey)] == [RetiredKey(gone, "revoked")]
    assert [note.kid for note in notes if isinstance(note, CreatedKey)] == [stores[0].kid]


def test_on_a_folder_that_cannot_be_written_a_revoked_key_signs_no_more_and_nothing_else_does(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writable = FileKeyStore.open(folder)
    with monkeypatch.context() as patched:
        store = FileKeyStore.open(folder)
        gone = store.kid
        forbid_writing(patched)
        store.retire(gone)
        with pytest.raises(SigningUnavailableError):
            _ = store.kid
        with pytest.raises(SigningUnavailableError):
            store.sign({})
        with pytest.raises(SigningUnavailableError):
            store.rotate()
        assert gone not in published(store)
        assert store.verification_key(gone) is None
        store.refresh()
        assert store.verification_key(gone) is None
    writable.retire(gone)
    store.refresh()
    assert store.kid == writable.kid
    with monkeypatch.context() as patched:
        forbid_writing(patched)
        assert FileKeyStore.open(folder).kid == writable.kid


def test_what_could_not_be_written_down_is_once_the_folder_can_be_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileKeyStore.open(folder)
    gone = store.kid
    with monkeypatch.context() as patched:
        forbid_writing(patched)
        store.retire(gone)
        store.refresh()
        assert not (folder / "retired-keys").exists()
    store.refresh()
    assert (folder / "retired-keys").read_text() == f"{gone}\n"
    assert [note.kid for note in store.take_notes() if isinstance(note, RetiredKey)] == [gone]
    assert gone not in published(FileKeyStore.open(folder))


def test_a_key_is_retired_however_many_were_before_it(folder: Path) -> None:
    store = FileKeyStore.open(folder)
    gone = store.kid
    (folder / "retired-keys").write_text("".join(f"{number:043}\n" for number in range(2_000)) + f"{gone}\n")
    (folder / "retired-keys").chmod(0o600)
    assert gone not in published(FileKeyStore.open(folder))


def test_where_the_last_key_was_retired_and_none_can_be_made_the_start_goes_on_without(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kid = FileKeyStore.open(folder).kid
    (folder / "retired-keys").write_text(f"{kid}\n")
    (folder / "retired-keys").chmod(0o600)
    forbid_writing(monkeypatch)
    store = FileKeyStore.open(folder)
    with pytest.raises(SigningUnavailableError):
        store.sign({})
    assert [state.state for state in store.states()].count("signs") == 0


def test_the_states_say_which_key_signs_and_which_are_retired(folder: Path) -> None:
    store = FileKeyStore.open(folder)
    first = store.kid
    second = store.rotate()
    store.retire("elsewhere")
    states = {state.kid: state.state for state in store.states()}
    assert (states[first], states[second], states["elsewhere"]) == ("verifies", "signs", "retired")


def test_a_key_that_is_named_signs_though_another_was_made_and_not_once_it_was_retired(folder: Path) -> None:
    store = FileKeyStore.open(folder)
    first = store.kid
    second = store.rotate()
    assert jwt.get_unverified_header(store.sign({}, kid=first))["kid"] == first
    assert jwt.get_unverified_header(store.sign({}))["kid"] == second
    store.retire(first)
    with pytest.raises(SigningUnavailableError):
        store.sign({}, kid=first)
