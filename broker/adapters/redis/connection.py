"""One connection to the store, from its URL.

| URL                                    | is                                              |
|----------------------------------------|-------------------------------------------------|
| `unix:///run/broker/store.sock`        | a socket on this machine                        |
| `redis://[user:password@]host[:port]`  | Redis or Valkey, in the clear (`valkey://` too) |
| `rediss://…?ssl_ca_certs=/path/ca.pem` | the same over TLS (`valkeys://` too)            |

A database number other than 0 is a configuration error on every store: Cluster has only that one, and a tenant is kept
apart by its keys. Options that would weaken what the broker promises (retries, timeouts, decoding) are not accepted.

redis-py repeats a failed command ten times unless told otherwise; here it never does. Timeouts are the pipeline's,
which keeps one deadline for a whole batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from redis.asyncio.connection import AbstractConnection, Connection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.maint_notifications import MaintNotificationsConfig

from broker.domain.errors import ConfigurationError

Protocol: TypeAlias = Literal[2, 3]

_SCHEMES: Final[Mapping[str, str]] = {
    "redis": "redis",
    "rediss": "rediss",
    "unix": "unix",
    "valkey": "redis",
    "valkeys": "rediss",
}
_OPTIONS: Final = frozenset(
    {"db", "ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile", "ssl_check_hostname", "ssl_min_version"}
)


def connector(url: str, *, connect_seconds: float, protocol: Protocol) -> Callable[[], AbstractConnection]:
    """What makes a new, not yet connected connection. Raises `ConfigurationError`, which never repeats the URL."""
    settings = _settings(url)
    kind: Callable[..., AbstractConnection] = settings.pop("connection_class", Connection)
    settings.update(
        socket_timeout=None,
        socket_connect_timeout=connect_seconds,
        retry=Retry(NoBackoff(), 0),
        retry_on_error=[],
        health_check_interval=0,
        decode_responses=False,
        protocol=protocol,
        lib_name=None,
        lib_version=None,
        maint_notifications_config=MaintNotificationsConfig(enabled=False),
    )
    return lambda: kind(**settings)


def _settings(url: str) -> dict[str, Any]:
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ConfigurationError("store: the URL is not well formed") from None
    scheme = _SCHEMES.get(parts.scheme)
    if scheme is None:
        raise ConfigurationError("store: the URL must begin with redis://, rediss:// or unix://")
    unknown = {name for name, _ in parse_qsl(parts.query, keep_blank_values=True)} - _OPTIONS
    if unknown:
        raise ConfigurationError(
            f"store: the URL has an option that is not accepted here: {', '.join(sorted(unknown))}"
        )
    try:
        settings: dict[str, Any] = dict(parse_url(scheme + url[len(parts.scheme) :]))
    except ValueError:
        raise ConfigurationError("store: the URL is not well formed") from None
    in_path = parts.path.strip("/") if scheme != "unix" else ""
    if settings.pop("db", 0) != 0 or in_path not in ("", "0"):
        raise ConfigurationError("store: only database 0 is used; take the database number out of the URL")
    _check_files(settings)
    return settings


def _check_files(settings: Mapping[str, Any]) -> None:
    """The files of a TLS connection are there: a connection that fails for want of one would not say so."""
    for name in ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile"):
        if settings.get(name) is not None:
            try:
                with open(settings[name], "rb"):
                    pass
            except OSError as error:
                raise ConfigurationError(
                    f"store: {name} {settings[name]} cannot be read: {error.strerror}; name a file in PEM form"
                ) from None


def address(url: str) -> str:
    """Where a store's URL leads, without user and password, for an operator to read. Raises `ConfigurationError`."""
    settings = _settings(url)
    return str(settings.get("path") or f"{settings.get('host', 'localhost')}:{settings.get('port', 6379)}")
