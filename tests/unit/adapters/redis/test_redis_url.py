"""Store URLs: what is accepted, and that a refusal never repeats a password."""

from __future__ import annotations

import pytest
from broker.adapters.redis.connection import address
from broker.adapters.redis.store import RedisStore
from broker.adapters.redis.suitability import check, parse_info, warnings
from broker.domain.errors import ConfigurationError, StoreUnsuitableError


@pytest.mark.parametrize(
    "url",
    [
        "unix:///run/store.sock",
        "redis://localhost",
        "redis://localhost:6379/",
        "redis://localhost:6379/0",
        "redis://user:secret@localhost/0",
        f"rediss://localhost:6380?ssl_ca_certs={__file__}",
        "valkey://localhost",
        "valkeys://localhost",
        "unix:///run/store.sock?db=0",
        "sentinel://s1/brokers",
        "sentinel://user:secret@s1:26379,[::1]:26380,s3/brokers?sentinel_username=u&sentinel_password=p",
        f"sentinels://s1,s2/brokers?ssl_ca_certs={__file__}",
        "cluster://c1",
        "cluster://user:secret@c1:7001,c2:7002/0",
        f"clusters://c1:7001?ssl_ca_certs={__file__}&ssl_check_hostname=no",
    ],
)
def test_a_usable_url_is_accepted_without_connecting(url: str) -> None:
    assert RedisStore(url, "default").calls == 0


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("redis://u:secret@localhost/1", "database 0"),
        ("redis://u:secret@localhost?db=2", "database 0"),
        ("unix://u:secret@/run/s?db=1", "database 0"),
        ("redis://u:secret@localhost/x", "database 0"),
        ("http://u:secret@localhost", "must begin with"),
        ("u:secret@localhost", "must begin with"),
        ("", "must begin with"),
        ("redis://u:secret@localhost:port", "not well formed"),
        ("redis://u:secret@[::1", "not well formed"),
        ("rediss://u:secret@localhost?ssl_ca_certs=/nowhere/ca.pem", "ssl_ca_certs /nowhere/ca.pem cannot be read"),
        ("redis://u:secret@localhost?db=x", "not well formed"),
        ("redis://u:secret@localhost?retry_on_timeout=yes", "retry_on_timeout"),
        ("redis://u:secret@localhost?socket_timeout=99", "socket_timeout"),
        ("rediss://u:secret@localhost?ssl_cert_reqs=none", "ssl_cert_reqs"),
        ("redis://u:secret@s1,s2", "not well formed"),
        ("redis://u:secret@localhost?sentinel_password=x", "sentinel_password"),
        ("sentinel://u:secret@s1,s2", "ends in the name"),
        ("sentinel://u:secret@s1,s2/a/b", "ends in the name"),
        ("sentinel://u:secret@s1,,s2/brokers", "not well formed"),
        ("sentinel://u:secret@/brokers", "not well formed"),
        ("sentinel://u:secret@s1:x/brokers", "not well formed"),
        ("sentinel://u:secret@s1/brokers?db=1", "database 0"),
        ("sentinel://u:secret@s1/brokers?retries=1", "retries"),
        ("cluster://u:secret@c1,c2/1", "database 0"),
        ("cluster://u:secret@c1:0x1", "not well formed"),
        ("cluster://", "not well formed"),
    ],
)
def test_an_unusable_url_is_a_configuration_error_that_does_not_repeat_it(url: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says) as raised:
        RedisStore(url, "default")
    assert "secret" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_a_tenant_that_is_none_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match="tenant"):
        RedisStore("redis://localhost", "A}B")


@pytest.mark.parametrize(
    ("info", "says"),
    [
        ({"redis_version": "6.2.14"}, "Redis 6.2.14"),
        ({"redis_version": "7.2.4", "valkey_version": "7.2.5"}, "Valkey 7.2.5"),
        ({"redis_version": ""}, "no known version"),
        ({"redis_version": "nonsense"}, "nonsense"),
        ({"maxmemory_policy": "allkeys-lru"}, "allkeys-lru"),
        ({"maxmemory_policy": None}, "unknown"),
        ({"role": "slave"}, "replica"),
    ],
)
def test_an_unsuitable_server_is_named_with_what_is_wrong(info: dict[str, str | None], says: str) -> None:
    good: dict[str, str | None] = {"redis_version": "7.0.15", "maxmemory_policy": "noeviction", "role": "master"}
    with pytest.raises(StoreUnsuitableError, match=says):
        check({name: value for name, value in {**good, **info}.items() if value is not None})


@pytest.mark.parametrize("version", [{"redis_version": "7.0.0"}, {"redis_version": "7.2.4", "valkey_version": "8.0.1"}])
def test_a_suitable_server_passes(version: dict[str, str]) -> None:
    check({"maxmemory_policy": "noeviction", "role": "master", **version})


def test_clocks_apart_are_a_warning() -> None:
    info = {"aof_enabled": "1"}
    assert warnings(info, appendfsync="always", clock_apart_seconds=1.0) == ()
    assert "-60 s apart" in warnings(info, appendfsync=None, clock_apart_seconds=-60.0)[0]


def test_info_is_read_field_by_field() -> None:
    assert parse_info(b"# Server\r\nredis_version:7.0.15\r\n\r\n# X\r\nconfig_file:/a:b\r\n") == {
        "redis_version": "7.0.15",
        "config_file": "/a:b",
    }


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://u:secret@store.example:6380", "store.example:6380"),
        ("redis://:secret@store.example", "store.example:6379"),
        ("rediss://u:secret@[::1]:6380", "[::1]:6380"),
        ("unix://u:secret@/run/store.sock", "/run/store.sock"),
        ("redis://", "localhost:6379"),
        ("sentinel://u:secret@s1,s2:26380/brokers", "brokers by the sentinels s1:26379, s2:26380"),
        ("sentinels://s1/brokers?sentinel_password=secret", "brokers by the sentinels s1:26379"),
        ("clusters://u:secret@c1:7001,[::1]:7002", "the cluster at c1:7001, [::1]:7002"),
    ],
)
def test_an_address_is_shown_without_user_and_password(url: str, shown: str) -> None:
    assert address(url) == shown
