"""The broker's own keys: the newest of the chosen algorithm signs, all that are not retired verify and are published.

1. What is missing is made at the start, one signing key for each algorithm, so that a change of algorithm needs none.
2. Keys that other processes make or retire in the folder (`folder.py`) are seen at the next question that hangs on them: what
   is published, a `kid` that is not known here; and at the latest when `refresh` is called.
3. A retired key is retired in this process at once, whatever the folder says: where it cannot be written there, this process
   keeps it in mind and tries again when it refreshes, and what revoked it will say so again after a restart.
4. Where the key that signs was retired and none can be made, nothing is signed.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Final

from broker.adapters.keystore.folder import KeyFolder, SigningKey, name_of
from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.errors import ConfigurationError, SigningUnavailableError
from broker.domain.tokens.keys import JwksError, VerificationKey
from broker.engines.jwk import parse_jwks
from broker.engines.jws import sign, sign_with_header
from broker.ports.keys import CreatedKey, KeyState, RetiredKey

SIGNING_ALGORITHMS: Final = ("ES256", "RS256", "EdDSA")
_log: Final = logging.getLogger("broker.keys")


@dataclass(frozen=True, slots=True)
class _Keys:
    """What is known at one time; replaced as a whole, so that no reader sees half of a change."""

    signing: tuple[SigningKey, ...]
    current: SigningKey | None
    jwks: JsonObject
    public: dict[str, VerificationKey]


class FileKeyStore:
    """`ports.keys.Signer` and `ports.keys.KeyRing` on a folder. Open it with `FileKeyStore.open`."""

    def __init__(self, folder: KeyFolder, *, algorithm: str) -> None:
        self._folder = folder
        self._algorithm = algorithm
        self._lock = RLock()
        self._retired: set[str] = set()
        self._unwritten: set[str] = set()
        self._notes: list[CreatedKey | RetiredKey] = []
        self._stamp = folder.stamp()
        self._keys = self._read()
        self.digest_key = folder.digest_key()

    @classmethod
    def open(cls, folder: Path, *, algorithm: str = "ES256") -> FileKeyStore:
        """Read the keys, and make what is missing. Raises `ConfigurationError`, which names the file and the mend."""
        if algorithm not in SIGNING_ALGORITHMS:
            raise ConfigurationError(f"the signing algorithm is one of {', '.join(SIGNING_ALGORITHMS)}")
        files = KeyFolder(folder)
        made = _make_missing(files)
        secret = files.make_digest_key()
        store = cls(files, algorithm=algorithm)
        store._notes += [CreatedKey(k.kid, k.algorithm, "sig") for k in store._keys.signing if name_of(k) in made]
        if secret is not None:
            store._notes.append(CreatedKey(f"hk{store.digest_key.version}", "HMAC-SHA-256", "audit"))
        return store

    @property
    def kid(self) -> str:
        """The key that signs now. Raises `SigningUnavailableError` (4)."""
        return self._current().kid

    @property
    def algorithm(self) -> str:
        """The algorithm of the key that signs."""
        return self._algorithm

    def sign(self, claims: JsonObject, *, kid: str | None = None) -> str:
        """A compact JWS (`typ: at+jwt`) over the claims, with the current key, or with the one that is named."""
        current = self._current()
        if kid is not None and kid != current.kid:  # another was made meanwhile
            current = self._named(kid)
        return sign_with_header(current.header, claims, current.private, algorithm=current.algorithm)

    def sign_as(self, kind: str, claims: JsonObject) -> str:
        """A compact JWS whose `typ` is `kind`, with the current key: a statement that can be taken for no credential."""
        current = self._current()
        header: JsonObject = {"typ": kind, "kid": current.kid}
        return sign(header, claims, current.private, algorithm=current.algorithm)

    def jwks(self) -> JsonObject:
        """The public keys as a JWK Set; not to be changed."""
        self.refresh()
        return self._keys.jwks

    def verification_key(self, kid: str) -> VerificationKey | None:
        """One of the broker's own public keys."""
        found = self._keys.public.get(kid)
        if found is None and kid not in self._retired:
            self.refresh()  # two questions to the file system, whoever sends a `kid` that nobody knows
            found = self._keys.public.get(kid)
        return found

    def retire(self, kid: str) -> None:
        """Give up a revoked key, for ever and over restarts (3)."""
        with self._lock:
            if kid in self._retired:
                return
            self._retired.add(kid)
            self._keys = self._without(kid)
            try:
                self._write_down(kid)
            except ConfigurationError as error:
                self._unwritten.add(kid)
                _log.error("signing key %s was revoked; it is not used any more, but not written down: %s", kid, error)
            self._provide()

    def rotate(self) -> str:
        """Make a new key that signs from now on; its `kid`. Raises `SigningUnavailableError`."""
        with self._lock:
            try:
                made = self._folder.make(self._algorithm, self._folder.newest(self._algorithm) + 1)
                self._load()
            except ConfigurationError as error:
                raise SigningUnavailableError(f"no key can be made: {error}") from None
            if made is not None:
                self._note(made)
            return self.kid

    def refresh(self) -> None:
        """See what other processes did in the folder. A folder that cannot be read leaves all as it is."""
        if self._unwritten:
            self._write_down_later()
        if self._folder.stamp() == self._stamp:
            return
        with self._lock:
            try:
                self._load()
                self._provide()
            except ConfigurationError as error:
                _log.error("the key folder cannot be read again: %s", error)

    def states(self) -> tuple[KeyState, ...]:
        """All keys, retired ones by name alone."""
        self.refresh()
        keys, current = self._keys.signing, self._keys.current
        known = [KeyState(k.kid, k.algorithm, k.number, "signs" if k is current else "verifies") for k in keys]
        return (*known, *(KeyState(kid, None, None, "retired") for kid in sorted(self._retired)))

    def take_notes(self) -> tuple[CreatedKey | RetiredKey, ...]:
        """What this process made and retired since this was last asked, for the audit log."""
        with self._lock:
            notes, self._notes = tuple(self._notes), []
        return notes

    def _write_down(self, kid: str) -> None:
        if self._folder.retire(kid):
            self._notes.append(RetiredKey(kid, "revoked"))
        self._unwritten.discard(kid)

    def _write_down_later(self) -> None:
        with self._lock:
            try:
                for kid in sorted(self._unwritten):
                    self._write_down(kid)
            except ConfigurationError:
                pass  # it was said when the key was retired

    def _current(self) -> SigningKey:
        current = self._keys.current
        if current is None:
            raise SigningUnavailableError("the signing key was revoked, and another cannot be made in the key folder")
        return current

    def _named(self, kid: str) -> SigningKey:
        for key in self._keys.signing:
            if key.kid == kid:
                return key
        raise SigningUnavailableError("the key that was to sign was revoked meanwhile")

    def _provide(self) -> None:
        """Make the keys that are missing since one was retired; where that is not possible, go without (4)."""
        for algorithm in SIGNING_ALGORITHMS:
            try:
                newest = self._folder.newest(algorithm)
                self._load()
                if any(key.algorithm == algorithm for key in self._keys.signing):
                    continue
                made = self._folder.make(algorithm, newest + 1)
                self._load()
            except ConfigurationError as error:
                _log.error("there is no %s key to sign with: %s", algorithm, error)
            else:
                if made is not None:
                    self._note(made)

    def _load(self) -> None:
        stamp = self._folder.stamp()
        self._keys = self._read()
        self._stamp = stamp

    def _read(self) -> _Keys:
        self._retired |= self._folder.retired()
        return self._known(tuple(key for key in self._folder.signing_keys() if key.kid not in self._retired))

    def _without(self, kid: str) -> _Keys:
        return self._known(tuple(key for key in self._keys.signing if key.kid != kid))

    def _known(self, signing: tuple[SigningKey, ...]) -> _Keys:
        ours = [key for key in signing if key.algorithm == self._algorithm]
        published: list[JsonValue] = [key.jwk for key in signing]
        jwks: JsonObject = {"keys": published}
        found = parse_jwks(jwks)
        if isinstance(found, JwksError) and signing:
            raise ConfigurationError(f"the signing keys cannot be published: {found.problem}")
        public = {} if isinstance(found, JwksError) else {key.kid: key for key in found.keys if key.kid is not None}
        return _Keys(signing, max(ours, key=lambda key: key.number, default=None), jwks, public)

    def _note(self, name: str) -> None:
        self._notes += [CreatedKey(k.kid, k.algorithm, "sig") for k in self._keys.signing if name_of(k) == name]


def _make_missing(files: KeyFolder) -> set[str | None]:
    newest = {algorithm: files.newest(algorithm) for algorithm in SIGNING_ALGORITHMS}
    there = {key.algorithm for key in files.signing_keys()}
    try:
        return {
            files.make(algorithm, newest[algorithm] + 1) for algorithm in SIGNING_ALGORITHMS if algorithm not in there
        }
    except ConfigurationError as error:
        if not files.retired():
            raise
        _log.error("keys were retired, and others cannot be made: %s", error)  # (4)
        return set()
