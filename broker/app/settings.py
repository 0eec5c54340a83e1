"""Settings: command line first, then environment (`BROKER_…`), then defaults. All are checked before anything starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker.domain.addresses import LOOPBACK, base_url_problem
from broker.domain.errors import ConfigurationError

EMBEDDED: Final = "embedded"


@dataclass(frozen=True, slots=True)
class Settings:
    """How a broker runs.

    issuer: URL under which callers reach it; `iss` of every credential. store: `embedded`, or a store's URL.
    data: folder for keys, audit log and embedded store. keys: folder for keys, which replicas share; None for one in `data`.
    signing_algorithm: ES256, RS256 or EdDSA.
    required_replicas: how many replicas of the store must acknowledge a write before anything is minted; None for 1 with
    sentinels or a cluster, else 0.
    deadline_seconds: after which a request is answered with 503. claim_unknown_store: reason to claim a store that the
    audit log does not know, see `StoreUnknownError`. peers: addresses of the other replicas. workers: how many processes serve;
    worker: which of them this is.
    """

    policies: Path
    data: Path
    keys: Path | None = None
    host: str = "127.0.0.1"
    port: int = 8420
    issuer: str = ""
    store: str = EMBEDDED
    required_replicas: int | None = None
    signing_algorithm: str = "ES256"
    deadline_seconds: float = 2.0
    drain_seconds: int = 10
    claim_unknown_store: str | None = None
    peers: tuple[str, ...] = ()
    workers: int = 1
    worker: int = 0

    @property
    def key_folder(self) -> Path:
        return self.data / "keys" if self.keys is None else self.keys

    @property
    def public_issuer(self) -> str:
        """The issuer, by default the address that is listened on."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.issuer or f"http://{host}:{self.port}"

    def check(self) -> None:
        """Raises `ConfigurationError`, naming the setting and how to mend it."""
        if self.host not in LOOPBACK and not self.issuer:
            raise ConfigurationError(
                f"--host {self.host}: say with --issuer under which https URL callers reach the broker"
            )
        if self.peers and self.store == EMBEDDED:
            raise ConfigurationError("--peer: replicas share a store; name it with --store")
        if self.required_replicas and self.store == EMBEDDED:
            raise ConfigurationError(
                "--required-replicas: the embedded store has no replicas; name another with --store"
            )
        for peer in self.peers:
            problem = base_url_problem(peer)
            if problem is not None:
                raise ConfigurationError(f"--peer {peer!r}: {problem}")
        problem = base_url_problem(self.public_issuer)
        if problem is not None:
            raise ConfigurationError(f"--issuer {self.public_issuer!r}: {problem}")
