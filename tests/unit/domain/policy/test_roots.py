"""A place is brought to its one normal form before anybody asks where it lies."""

from __future__ import annotations

import pytest
from broker.domain.policy.roots import normalise, normalise_root, within


@pytest.mark.parametrize(
    ("kind", "value", "normal"),
    [
        ("path", "/srv/reports/a.csv", "/srv/reports/a.csv"),
        ("path", "/srv//reports/./a/", "/srv/reports/a"),
        ("path", "/", "/"),
        ("path", "/srv/.hidden/…x", None),
        ("path", "/srv/Ünïcode/報告.csv", "/srv/Ünïcode/報告.csv"),
        ("url", "HTTPS://API.example:443/a/./b/../c?q=1", "https://api.example/a/c?q=1"),
        ("url", "http://api.example:8080", "http://api.example:8080/"),
        ("url", "https://api.example/a%c3%a4", "https://api.example/a%C3%A4"),
        ("url", "https://[2001:DB8::0:1]/", "https://[2001:db8::1]/"),
        ("url", "https://api.example/../../x", "https://api.example/x"),
        ("url", "https://api.example:00443/a/.", "https://api.example/a/"),
        ("url", "https://api.example/.well-known/..a", "https://api.example/.well-known/..a"),
        ("url", "https://api.example/a%20b", "https://api.example/a%20b"),
        ("url", "https://XN--BCHER-KVA.example/", "https://xn--bcher-kva.example/"),
        ("url", "https://[0:0:0:0:0:0:0:1]:443/", "https://[::1]/"),
        ("path", "/srv/2026-01-01T10:00:00.csv", "/srv/2026-01-01T10:00:00.csv"),
        ("path", "/srv/..a/b..c/~x", "/srv/..a/b..c/~x"),
        ("host", "DB.Internal", "db.internal"),
        ("host", "db.internal:5432", "db.internal:5432"),
        ("host", "10.0.0.1", "10.0.0.1"),
        ("host", "[::FFFF:7f00:1]", "[::ffff:7f00:1]"),
        ("command", "ls", None),
    ],
)
def test_a_value_has_one_normal_form(kind, value, normal):
    assert normalise(kind, value) == normal


@pytest.mark.parametrize(
    "value",
    [
        "", "srv", "./srv", "~/x", "~root/x", "//srv/share", "/a/../b", "/a/..", "/..", "/a\\b", "\\\\srv\\x", "C:\\x",
        "/a%2e%2e/b",
        "/a%2fb", "/a/.. /b", "/a/... /b", "/a/.../b", "/a/b.", "/a/b ", "/a\x00b", "/a\nb", "/a\x7fb", "/a\u2024\u2024/b",
        "/a/\uff0e\uff0e/b", "/a\u2215b", "/a\uff0fb", "/a\u2044b", "/a\uff3cb", "/a\u2216b", "/a\u200bb", "/a\u202eb",
        "/a\u00a0b", "/e\u0301", "/a\ufeffb", "/a\uff05b", "/" + "a" * 5000, "file:///etc/passwd",
        "/a/..\ufe0f/b", "/a/.\u034f./b", "/a/.\u3164./b", "/a\U000e0100b", "/C:/Windows", "/srv/c:x", "/srv/a:$DATA",
        "/srv/a::$INDEX_ALLOCATION", "/a/\u2025/b", "/a/\u2026/b", "/a/\ufe52\ufe52/b", "/a\u2571b", "/a\ud800b",
        "/a\u2028b", "/a\u202fb",
        "/\u212a", "/a\u0085b", "/a/.\u00ad./b", "/a/.\u2060./b",
    ],
)  # fmt: skip
def test_a_path_with_two_readings_has_no_normal_form(value):
    assert normalise("path", value) is None


@pytest.mark.parametrize(
    "value",
    [
        "", "api.example", "//api.example/a", "ftp://api.example/", "file:///etc/passwd", "javascript:alert(1)",
        "https:api.example",
        "https:///a", "https://user@api.example/", "https://user:pw@api.example/", "https://api.example@evil.example/",
        "https://api.example/#f", "https://api.example/a#", "https://api.example\\@evil.example/", "https://api.example/a b",
        "https://api.example/%2e%2e/", "https://api.example/%2E", "https://api.example/a%2fb", "https://api.example/a%5cb",
        "https://api.example/%252e", "https://api.example/%61", "https://api.example/%00", "https://api.example/%0d%0a",
        "https://api.example/%", "https://api.example/%zz", "https://api.example//a", "https://api.example/a//../b",
        "https://api.example/..;/a", "https://api.example/a/.;x/b", "https://api.example:0/", "https://api.example:99999/",
        "https://api.example:/", "https://0x7f.1/", "https://2130706433/", "https://0177.0.0.1/", "https://127.1/",
        "https://api.example./", "https://[::1%25eth0]/", "https://[::1", "https://\u0430pi.example/", "https://api\u3002example/",
        "https://-a.example/", "https://a..b/", "https://api.example/\t", "https://api.example/a\n",
        "https://api.example/v1/..%3B/a", "https://api.example/v1/..%20/a", "https://api.example/v1/.../a",
        "https://api.example/v1/..%C2%A0/a",
        "https://api.example/v1/%C0%AE%C0%AE/a", "https://api.example/v1/%c0%af..", "https://api.example/v1/%EF%BC%8E%EF%BC%8E/a",
        "https://api.example/v1/%E2%81%84..", "https://api.example/%FF", "https://api.example/%E2%80%AE",
        "https://api.example/e%CC%81",
        "https://api.example/%ED%A0%80", "https://api.example/%EF%BC%85%EF%BC%92e", "https://api.example/%E2%80%8B",
        "http:///api.example", "https:/api.example",
        "https://127.0.0.1%2f@api.example/", "https://api.example%2eevil.example/", "https://017700000001/",
        "https://0x7f000001/", "https://127.0.0.0x1/",
        "https://api.example:443:443/", "https://[::ffff:0x7f.1]/", "https://[::1]evil/", "https://\uff41pi.example/",
        "https://api.example\u200b/", "https://api.example;evil/",
        "https://api.example/\u00e9", "https://a%61.example/", "https://\u24d0pi.example/",
        "https://stra\u00dfe.example/", " https://api.example/", "https://api.example/ ",
    ],
)  # fmt: skip
def test_a_url_with_two_readings_has_no_normal_form(value):
    assert normalise("url", value) is None


@pytest.mark.parametrize(
    "value",
    [
        "", "a b", "a/b", "a@b", "a:b", "a:0", "a:70000", "a.", ".a", "a..b", "-a", "1",
        "0x1", "1.2.3", "256.1.1.1", "01.1.1.1", "[::1", "::1", "ä.example", "*",
    ],
)  # fmt: skip
def test_a_host_with_two_readings_has_no_normal_form(value):
    assert normalise("host", value) is None


@pytest.mark.parametrize(
    ("kind", "value", "root", "inside"),
    [
        ("path", "/srv/reports", "/srv/reports", True),
        ("path", "/srv/reports/a", "/srv/reports", True),
        ("path", "/srv/reports-old/a", "/srv/reports", False),
        ("path", "/srv/reportsx", "/srv/reports", False),
        ("path", "/srv", "/srv/reports", False),
        ("path", "/SRV/reports/a", "/srv/reports", False),
        ("path", "/etc/passwd", "/", True),
        ("url", "https://api.example/v1/x?y=/../", "https://api.example/v1", True),
        ("url", "https://api.example/v1", "https://api.example/v1/", True),
        ("url", "https://api.example/v1x", "https://api.example/v1", False),
        ("url", "https://api.example/v1/../v2", "https://api.example/v1", False),
        ("url", "http://api.example/v1", "https://api.example/v1", False),
        ("url", "https://api.example:8443/v1", "https://api.example/v1", False),
        ("url", "https://api.example.evil.example/v1", "https://api.example", False),
        ("url", "https://evil.example/?https://api.example/", "https://api.example", False),
        ("url", "https://api.example/anything", "https://api.example", True),
        ("host", "db.internal", "db.internal", True),
        ("host", "x.db.internal", "db.internal", False),
        ("host", "x.db.internal", "*.db.internal", True),
        ("host", "db.internal", "*.db.internal", False),
        ("host", "xdb.internal", "*.db.internal", False),
        ("host", "db.internal:5432", "db.internal", False),
    ],
)
def test_a_value_lies_under_a_root_on_a_boundary_only(kind, value, root, inside):
    normal_root = normalise_root(kind, root)
    assert normal_root is not None
    assert (within(kind, value, [normal_root]) is not None) is inside


def test_no_roots_hold_nothing():
    assert within("path", "/srv", []) is None


@pytest.mark.parametrize(
    ("kind", "root"),
    [
        ("url", "https://a.example/?q"),
        ("host", "*.1.2.3.4"),
        ("host", "*."),
        ("host", "*.a:1"),
        ("path", "srv"),
        ("query", "/x"),
    ],
)
def test_a_root_that_cannot_be_one_has_no_normal_form(kind, root):
    assert normalise_root(kind, root) is None
