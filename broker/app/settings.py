"""Settings: command line first, then environment (`BROKER_…`), then defaults. All are checked before anything starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from broker.domain.errors import ConfigurationError

EMBEDDED: Final = "embedded"
LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True, slots=True)
class Settings:
    """How a broker runs.

    issuer: URL under which callers reach it; `iss` of every credential. store: `embedded`, or a Redis URL.
    data: folder for keys, audit log and embedded store. signing_algorithm: ES256, RS256 or EdDSA.
    deadline_seconds: after which a request is answered with 503. claim_unknown_store: reason to claim a store that the
    audit log does not know, see `StoreUnknownError`.
    """

    policies: Path
    data: Path
    host: str = "127.0.0.1"
    port: int = 8420
    issuer: str = ""
    store: str = EMBEDDED
    signing_algorithm: str = "ES256"
    deadline_seconds: float = 2.0
    drain_seconds: int = 10
    claim_unknown_store: str | None = None

    @property
    def public_issuer(self) -> str:
        """The issuer, by default the address that is listened on."""
        return self.issuer or f"http://{self.host}:{self.port}"

    def check(self) -> None:
        """Raises `ConfigurationError`, naming the setting and how to mend it."""
        parts = urlsplit(self.public_issuer)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ConfigurationError(
                f"--issuer {self.public_issuer}: an https URL without query or fragment was expected"
            )
        if self.public_issuer.endswith("/"):
            raise ConfigurationError(
                f"--issuer {self.public_issuer}: leave the trailing slash out; issuers match exactly"
            )
        if parts.scheme == "http" and parts.hostname not in LOOPBACK:
            raise ConfigurationError(
                f"--issuer {self.public_issuer}: https was expected; plain http is for loopback only (RFC 8414 §2)"
            )
        if self.host not in LOOPBACK and not self.issuer:
            raise ConfigurationError(
                f"--host {self.host}: say with --issuer under which https URL callers reach the broker"
            )
