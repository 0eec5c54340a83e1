"""The broker's own keys, in files.

| file                       | holds                                                                           |
|----------------------------|---------------------------------------------------------------------------------|
| `signing-<alg>-<n>.pem`    | a private signing key, PKCS #8; the greatest n of the chosen algorithm signs     |
| `audit-arguments-<n>.key`  | 32 random bytes under which the audit log digests arguments; the greatest n does |

1. What is missing is made at the start, one signing key for each algorithm, so that a change of algorithm needs none.
2. All public keys are published; older ones still verify.
3. A file that cannot be used stops the start. It is never replaced: that would kill what it signed without a word.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker.adapters.keystore.files import create_private_file, make_private_folder, read_private_file
from broker.domain.audit.arguments import DigestKey
from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.errors import ConfigurationError
from broker.domain.tokens.keys import JwksError, VerificationKey
from broker.engines.jwk import (
    PrivateKey,
    generate_private_key,
    load_private_pem,
    parse_jwks,
    private_pem,
    public_jwk,
    signing_algorithm,
)
from broker.engines.jws import encode_header, sign, sign_with_header

SIGNING_ALGORITHMS: Final = ("ES256", "RS256", "EdDSA")
TOKEN_TYPE: Final = "at+jwt"  # noqa: S105
_SECRET_BYTES: Final = 32
_SIGNING: Final = re.compile(r"signing-([A-Za-z0-9]+)-([1-9][0-9]{0,5})\.pem")
_DIGEST: Final = re.compile(r"audit-arguments-([1-9][0-9]{0,5})\.key")


@dataclass(frozen=True, slots=True)
class CreatedKey:
    """A key that was made at this start, for the audit log. use: `sig`, or `audit` for the argument digests."""

    kid: str
    algorithm: str
    use: str


@dataclass(frozen=True, slots=True)
class _SigningKey:
    number: int
    algorithm: str
    private: PrivateKey
    jwk: JsonObject
    header: bytes

    @property
    def kid(self) -> str:
        return str(self.jwk["kid"])


class FileKeyStore:
    """`ports.keys.Signer` on a folder. Open it with `FileKeyStore.open`."""

    def __init__(
        self,
        signing: tuple[_SigningKey, ...],
        *,
        algorithm: str,
        digest_key: DigestKey,
        created: tuple[CreatedKey, ...],
    ) -> None:
        current = max((key for key in signing if key.algorithm == algorithm), key=lambda key: key.number)
        published: list[JsonValue] = [key.jwk for key in signing]
        self._jwks: JsonObject = {"keys": published}
        found = parse_jwks(self._jwks)
        if isinstance(found, JwksError):
            raise ConfigurationError(f"the signing keys cannot be published: {found.problem}")
        self._public = {key.kid: key for key in found.keys if key.kid is not None}
        self._kid, self._header, self._private = current.kid, current.header, current.private
        self._algorithm = algorithm
        self.digest_key = digest_key
        self.created = created

    @classmethod
    def open(cls, folder: Path, *, algorithm: str = "ES256") -> FileKeyStore:
        """Read the keys, and make what is missing. Raises `ConfigurationError`, which names the file and the mend."""
        if algorithm not in SIGNING_ALGORITHMS:
            raise ConfigurationError(f"the signing algorithm is one of {', '.join(SIGNING_ALGORITHMS)}")
        make_private_folder(folder)
        made = _make_missing(folder)
        signing = tuple(_load_signing(path, match) for path, match in _files(folder, _SIGNING))
        digest_key = max(
            (_load_digest(path, match) for path, match in _files(folder, _DIGEST)), key=lambda k: k.version
        )
        created = [CreatedKey(key.kid, key.algorithm, "sig") for key in signing if _name(key) in made]
        if f"audit-arguments-{digest_key.version}.key" in made:
            created.append(CreatedKey(f"hk{digest_key.version}", "HMAC-SHA-256", "audit"))
        return cls(signing, algorithm=algorithm, digest_key=digest_key, created=tuple(created))

    @property
    def kid(self) -> str:
        """The key that signs now."""
        return self._kid

    @property
    def algorithm(self) -> str:
        """The algorithm of the key that signs now."""
        return self._algorithm

    def sign(self, claims: JsonObject) -> str:
        """A compact JWS (`typ: at+jwt`) over the claims, with the current key."""
        return sign_with_header(self._header, claims, self._private, algorithm=self._algorithm)

    def sign_as(self, kind: str, claims: JsonObject) -> str:
        """A compact JWS whose `typ` is `kind`, with the current key: a statement that can be taken for no credential."""
        header: JsonObject = {"typ": kind, "kid": self._kid}
        return sign(header, claims, self._private, algorithm=self._algorithm)

    def jwks(self) -> JsonObject:
        """The public keys as a JWK Set; not to be changed."""
        return self._jwks

    def verification_key(self, kid: str) -> VerificationKey | None:
        """One of the broker's own public keys."""
        return self._public.get(kid)


def _files(folder: Path, pattern: re.Pattern[str]) -> list[tuple[Path, re.Match[str]]]:
    found = [(path, pattern.fullmatch(path.name)) for path in sorted(folder.iterdir())]
    return [(path, match) for path, match in found if match is not None]


def _name(key: _SigningKey) -> str:
    return f"signing-{key.algorithm}-{key.number}.pem"


def _make_missing(folder: Path) -> frozenset[str]:
    there = {match[1] for _, match in _files(folder, _SIGNING)}
    made = [
        name
        for algorithm in SIGNING_ALGORITHMS
        if algorithm not in there
        and create_private_file(
            folder / (name := f"signing-{algorithm}-1.pem"), private_pem(generate_private_key(algorithm))
        )
    ]
    secret = folder / "audit-arguments-1.key"
    if not _files(folder, _DIGEST) and create_private_file(secret, secrets.token_bytes(_SECRET_BYTES)):
        made.append(secret.name)
    return frozenset(made)


def _load_signing(path: Path, match: re.Match[str]) -> _SigningKey:
    algorithm = match[1]
    private = load_private_pem(read_private_file(path))
    if private is None or signing_algorithm(private) != algorithm:
        raise ConfigurationError(
            f"the key file {path} holds no {algorithm} private key: restore it, or move it away to have a new one made"
        )
    jwk = public_jwk(private, algorithm=algorithm)
    header = encode_header({"typ": TOKEN_TYPE, "alg": algorithm, "kid": jwk["kid"]})
    return _SigningKey(number=int(match[2]), algorithm=algorithm, private=private, jwk=jwk, header=header)


def _load_digest(path: Path, match: re.Match[str]) -> DigestKey:
    secret = read_private_file(path)
    if len(secret) != _SECRET_BYTES:
        raise ConfigurationError(
            f"the key file {path} does not hold {_SECRET_BYTES} bytes: restore it, or move it away for a new one"
        )
    return DigestKey(version=int(match[1]), secret=secret)
