"""Where a store is, and how a connection to it is made, from its URL.

| URL                                         | is                                                                  |
|---------------------------------------------|---------------------------------------------------------------------|
| `unix:///run/broker/store.sock`             | a socket on this machine                                            |
| `redis://[user:password@]host[:port]`       | Redis or Valkey, in the clear (`valkey://` too)                     |
| `sentinel://[user:password@]h1:p,h2:p/NAME` | the primary that the sentinels know as NAME, whichever it is        |
| `cluster://[user:password@]h1:p,h2:p`       | the node that holds the tenant's slot; the hosts are to ask first   |
| `rediss://…?ssl_ca_certs=/path/ca.pem`      | the same over TLS (`valkeys://`, `sentinels://`, `clusters://` too) |

User and password are the store's. Sentinels have users of their own: `?sentinel_username=…&sentinel_password=…`.

A database number other than 0 is a configuration error on every store: Cluster has only that one, and a tenant is kept
apart by its keys. Options that would weaken what the broker promises (retries, timeouts, decoding) are not accepted.

redis-py repeats a failed command ten times unless told otherwise; here it never does. Timeouts are the pipeline's,
which keeps one deadline for a whole batch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from redis.asyncio.connection import AbstractConnection, Connection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.maint_notifications import MaintNotificationsConfig

from broker.domain.errors import ConfigurationError

Protocol: TypeAlias = Literal[2, 3]
Kind: TypeAlias = Literal["address", "sentinel", "cluster"]
Address: TypeAlias = tuple[str, int]

_SCHEMES: Final[Mapping[str, tuple[Kind, str, int]]] = {  # what it is, redis-py's scheme, the usual port
    "redis": ("address", "redis", 6379),
    "rediss": ("address", "rediss", 6379),
    "unix": ("address", "unix", 0),
    "valkey": ("address", "redis", 6379),
    "valkeys": ("address", "rediss", 6379),
    "sentinel": ("sentinel", "redis", 26379),
    "sentinels": ("sentinel", "rediss", 26379),
    "cluster": ("cluster", "redis", 6379),
    "clusters": ("cluster", "rediss", 6379),
}
_OPTIONS: Final = frozenset(
    {"db", "ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile", "ssl_check_hostname", "ssl_min_version"}
)
_OF_SENTINELS: Final = {"sentinel_username": "username", "sentinel_password": "password"}
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")


@dataclass(frozen=True, slots=True)
class StorePlace:
    """Where a store is.

    hosts: sentinels, or nodes of a cluster, that know where; the store itself for an `address`, empty for a socket.
    name: what the sentinels call it. settings: of a connection to the store; asking: of one to those that know.
    """

    kind: Kind
    hosts: tuple[Address, ...]
    name: str
    settings: Mapping[str, Any]
    asking: Mapping[str, Any]


def parse_place(url: str) -> StorePlace:
    """Read a store's URL. Raises `ConfigurationError`, which never repeats the URL: it may hold a password."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise _malformed() from None
    if parts.scheme not in _SCHEMES:
        raise ConfigurationError(
            "store: the URL must begin with redis://, rediss://, unix://, sentinel(s):// or cluster(s)://"
        )
    kind, scheme, usual_port = _SCHEMES[parts.scheme]
    options = parse_qsl(parts.query, keep_blank_values=True)
    unknown = {name for name, _ in options} - _OPTIONS - (_OF_SENTINELS.keys() if kind == "sentinel" else set())
    if unknown:
        raise ConfigurationError(
            f"store: the URL has an option that is not accepted here: {', '.join(sorted(unknown))}"
        )
    user, at, listed = parts.netloc.rpartition("@")
    one = listed if kind == "address" else "placeholder"
    path = parts.path if kind != "sentinel" else ""
    try:
        settings: dict[str, Any] = dict(parse_url(f"{scheme}://{user}{at}{one}{path}?{parts.query}"))
        hosts = () if scheme == "unix" else tuple(_host(spelled, usual_port) for spelled in listed.split(","))
    except ValueError:
        raise _malformed() from None
    own = {_OF_SENTINELS[name]: settings.pop(name) for name in _OF_SENTINELS if name in settings}
    in_path = path.strip("/") if scheme != "unix" else ""
    if settings.pop("db", 0) != 0 or in_path not in ("", "0"):
        raise ConfigurationError("store: only database 0 is used; take the database number out of the URL")
    if (kind == "address" and len(hosts) > 1) or (kind != "address" and not all(listed.split(","))):
        raise _malformed()
    name = parts.path.strip("/")
    if kind == "sentinel" and not _NAME.fullmatch(name):
        raise ConfigurationError(
            "store: a sentinel:// URL ends in the name that the sentinels know the primary by: sentinel://host:26379/NAME"
        )
    _check_files(settings)
    if kind != "address":
        del settings["host"]
    asking = settings if kind != "sentinel" else {**_without_user(settings), **own}
    return StorePlace(kind, hosts, name if kind == "sentinel" else "", settings, asking)


def dialer(
    settings: Mapping[str, Any], *, connect_seconds: float, protocol: Protocol
) -> Callable[[Address | None], AbstractConnection]:
    """What makes a new, not yet connected connection to an address, None for the one in the settings."""
    kept = dict(settings)
    kind: Callable[..., AbstractConnection] = kept.pop("connection_class", Connection)
    kept.update(
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
    return lambda at: kind(**kept) if at is None else kind(**{**kept, "host": at[0], "port": at[1]})


def address(url: str) -> str:
    """Where a store's URL leads, without user and password, for an operator to read. Raises `ConfigurationError`."""
    place = parse_place(url)
    hosts = ", ".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in place.hosts)
    named = {"address": "", "sentinel": f"{place.name} by the sentinels ", "cluster": "the cluster at "}[place.kind]
    return named + hosts if hosts else str(place.settings.get("path"))


def _host(spelled: str, usual_port: int) -> Address:
    """`host`, `host:port` or `[address]:port`; this machine where none is named. Raises `ValueError`."""
    parts = urlsplit(f"//{spelled}")
    return parts.hostname or "localhost", parts.port or usual_port


def _without_user(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in ("username", "password")}


def _malformed() -> ConfigurationError:
    return ConfigurationError("store: the URL is not well formed")


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
