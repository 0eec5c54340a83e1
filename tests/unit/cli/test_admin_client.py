"""The client of the admin API: what it says about an address, a key or a server that is not what it must be."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker.cli.admin_client import AdminClient, AwayError
from broker.domain.errors import ConfigurationError
from broker.engines.jwk import generate_private_key, private_pem
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec


@pytest.fixture
def key(tmp_path: Path) -> Path:
    file = tmp_path / "operator.pem"
    file.write_bytes(private_pem(generate_private_key("ES256")))
    return file


ANSWERS = {"/missing": (404, b"<h1>not here</h1>"), "/page": (200, b"<h1>hello</h1>"), "/json": (200, b'{"a":1}')}


class OtherServer(http.server.BaseHTTPRequestHandler):
    """Something that speaks HTTP and is no broker."""

    def do_GET(self) -> None:
        status, body = ANSWERS.get(self.path.removesuffix("/admin/versions"), (502, b""))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def other() -> Iterator[str]:
    server = http.server.HTTPServer(("127.0.0.1", 0), OtherServer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "broker.example",
        "http://",
        "http://[::1",
        "http://127.0.0.1:99999",
        "http://127.0.0.1:8420\n",
        "http://127.0.0.1:8420/docs?x=",
        "http://127.0.0.1:8420#a",
        "http://me@127.0.0.1:8420",
        "https://a..b",
        f"https://{'x' * 80}.example",
        "file:///etc/passwd",
        "http://broker.example",
    ],
)
def test_an_address_that_is_none_is_said_so_before_the_key_is_read(url: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="--url"):
        AdminClient(url, "operator", tmp_path / "nothing.pem").call("GET", "/admin/versions")


def test_a_proxy_of_the_surroundings_is_not_asked_for_this_machine(
    other: str, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert AdminClient(f"{other}/json", "operator", key).call("GET", "/admin/versions") == {"a": 1}


def test_a_proxy_or_certificate_file_that_cannot_be_used_is_one_message(
    key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "gopher://proxy.example")
    with pytest.raises(ConfigurationError, match=r"--url https://broker\.example: cannot be asked"):
        AdminClient("https://broker.example", "operator", key).call("GET", "/admin/versions")


@pytest.mark.parametrize("path", ["missing", "page", "nowhere"])
def test_a_server_that_is_no_broker_is_said_so(other: str, key: Path, path: str) -> None:
    with pytest.raises(AwayError, match=r"no broker, or not in its place \(HTTP (404|200|502)\)"):
        AdminClient(f"{other}/{path}", "operator", key).call("GET", "/admin/versions")


def test_an_answer_that_no_broker_gives_is_said_so_where_it_is_used(other: str, key: Path) -> None:
    answer = AdminClient(f"{other}/json", "operator", key).call("GET", "/admin/versions")
    with pytest.raises(AwayError, match="its answer has no versions"):
        answer["versions"]


def test_a_key_that_no_administrator_has_says_what_was_expected(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    file.write_bytes(
        ec.generate_private_key(ec.SECP256R1()).private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
        )
    )
    with pytest.raises(
        ConfigurationError, match=r"a private key in PEM form was expected, unencrypted.*broker keygen operator"
    ):
        AdminClient("http://127.0.0.1:1", "operator", file).call("GET", "/admin/versions")
