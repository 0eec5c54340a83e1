"""The store over TLS, with Debian's Redis (the embedded server has none): certificates on both sides, checked on both."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
from broker.adapters.redis.store import RedisStore
from broker.domain.errors import StoreUnavailableError, StoreUnsuitableError
from broker.ports.store import Issued
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from store_groups import wait_for
from store_parts import StoreProcess, an_issue, claimed_store, free_ports, new_tenant, redis_program

NAME = "brokers"


class Authority:
    """A certificate authority of the tests, which writes PEM files into a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        made = self._builder(self.subject, self.key).add_extension(constraints, critical=True)
        self.file = self._write(f"{name}.crt", made.sign(self.key, hashes.SHA256()).public_bytes(_PEM))

    def issue(self, name: str, *hosts: str) -> tuple[Path, Path]:
        """Certificate and key for some hosts."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key)
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False
            )
        certificate = builder.sign(self.key, hashes.SHA256()).public_bytes(_PEM)
        plain = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return self._write(f"{self.name}-{name}.crt", certificate), self._write(f"{self.name}-{name}.key", plain)

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
        )

    def _write(self, name: str, content: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content)
        return path


_PEM = serialization.Encoding.PEM


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


@dataclass
class Site:
    """One authority, a certificate for servers on loopback and one for brokers; another authority that nobody trusts."""

    authority: Authority
    server: tuple[Path, Path]
    broker: tuple[Path, Path]
    stranger: Authority

    def settings(self, port: int, server: tuple[Path, Path] | None = None) -> dict[str, str]:
        certificate, key = server or self.server
        return {
            "bind": "127.0.0.1",
            "port": "0",
            "tls-port": str(port),
            "tls-cert-file": str(certificate),
            "tls-key-file": str(key),
            "tls-ca-cert-file": str(self.authority.file),
            "tls-auth-clients": "yes",
            "tls-replication": "yes",
        }

    def options(self, **changed: object) -> str:
        certificate, key = self.broker
        options = {"ssl_ca_certs": self.authority.file, "ssl_certfile": certificate, "ssl_keyfile": key, **changed}
        return "&".join(f"{name}={value}" for name, value in options.items() if value is not None)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority(folder, "authority")
    hosts = ("127.0.0.1", "localhost")
    return Site(authority, authority.issue("server", *hosts), authority.issue("broker"), Authority(folder, "stranger"))


@contextlib.contextmanager
def serving(settings: dict[str, str], *, sentinel: str | None = None) -> Iterator[StoreProcess]:
    program = redis_program()
    if program is None:
        pytest.skip("redis-server is not installed; apt-get install redis-server")
    lines = "\n".join(f"{name} {value}" for name, value in settings.items())
    server = StoreProcess(
        program,
        *(word for name, value in settings.items() for word in (f"--{name}", value)),
        sentinel=None if sentinel is None else f"{lines}\n{sentinel}",
    ).start()
    try:
        yield server
    finally:
        server.remove()


@contextlib.asynccontextmanager
async def closing(store: RedisStore) -> AsyncIterator[RedisStore]:
    try:
        yield store
    finally:
        await store.close()


async def failure(url: str) -> str:
    async with closing(RedisStore(url, new_tenant())) as store:
        with pytest.raises((StoreUnsuitableError, StoreUnavailableError)) as raised:
            await store.inspect()
        return f"{type(raised.value).__name__}: {raised.value}"


async def test_over_tls_a_store_is_used_as_ever_and_who_is_not_expected_is_refused_on_either_side(site: Site) -> None:
    (port,) = free_ports(1)
    with serving(site.settings(port)):
        async with closing(await claimed_store(f"rediss://127.0.0.1:{port}?{site.options()}", new_tenant())) as store:
            assert isinstance(await store.issue(an_issue()), Issued)
        wrong = await failure(f"rediss://127.0.0.1:{port}?{site.options(ssl_ca_certs=site.stranger.file)}")
        assert wrong.startswith("StoreUnsuitableError: the store's certificate is not accepted (")
        # the server's alert may be lost with the connection: then all that is known is that nobody serves us
        nobody = f"rediss://127.0.0.1:{port}?{site.options(ssl_certfile=None, ssl_keyfile=None)}"
        assert (await failure(nobody)).startswith("StoreUnavailableError: the store")
        certificate, key = site.stranger.issue("broker")
        other = f"rediss://127.0.0.1:{port}?{site.options(ssl_certfile=certificate, ssl_keyfile=key)}"
        assert (await failure(other)).startswith("StoreUnavailableError: the store")
        assert "StoreUnavailableError" in await failure(f"redis://127.0.0.1:{port}")


async def test_a_certificate_of_another_host_is_refused(site: Site) -> None:
    (port,) = free_ports(1)
    with serving(site.settings(port, site.authority.issue("elsewhere", "store.example"))):
        said = await failure(f"rediss://127.0.0.1:{port}?{site.options()}")
        assert "certificate is not accepted" in said
        assert "127.0.0.1" in said
        url = f"rediss://127.0.0.1:{port}?{site.options(ssl_check_hostname='no')}"
        async with closing(RedisStore(url, new_tenant())) as store:
            await store.inspect()


async def test_sentinels_and_the_primary_they_name_are_reached_over_tls(site: Site) -> None:
    port, sentinel_port = free_ports(2)
    watch = f"sentinel monitor {NAME} 127.0.0.1 {port} 1\nsentinel down-after-milliseconds {NAME} 5000"
    with serving(site.settings(port)), serving(site.settings(sentinel_port), sentinel=watch) as sentinel:
        with sentinel.admin() as admin:
            wait_for(lambda: is_watched(admin), "the sentinel does not reach the primary")
        url = f"sentinels://127.0.0.1:{sentinel_port}/{NAME}?{site.options()}"
        async with closing(await claimed_store(url, new_tenant(), required_replicas=0)) as store:
            assert isinstance(await store.issue(an_issue()), Issued)
        assert "asking the sentinels: the store's certificate" in await failure(
            f"sentinels://127.0.0.1:{sentinel_port}/{NAME}?{site.options(ssl_ca_certs=site.stranger.file)}"
        )


def is_watched(admin: redis_py.Redis) -> bool:
    seen: Any = admin.execute_command("SENTINEL", "MASTER", NAME)
    return bool(seen[b"flags"] == b"master")


async def test_a_cluster_is_reached_over_tls(site: Site) -> None:
    (port,) = free_ports(1)
    with serving({**site.settings(port), "cluster-enabled": "yes", "tls-cluster": "yes"}) as node:
        with node.admin() as admin:
            admin.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            wait_for(lambda: admin.cluster("info")["cluster_state"] == "ok", "no cluster")
        url = f"clusters://localhost:{port}?{site.options()}"
        async with closing(await claimed_store(url, new_tenant(), required_replicas=0)) as store:
            assert isinstance(await store.issue(an_issue()), Issued)
