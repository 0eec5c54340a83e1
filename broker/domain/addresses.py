"""Base URLs: where a broker is reached, and its issuer identifier (RFC 8414 §2).

1. `http` or `https`, a host, perhaps a port, perhaps a path; no user information, query, fragment or white space.
2. Two of them are compared character by character, so a trailing slash is a mistake.
3. Plain http reaches loopback only.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_PLAIN: Final = re.compile(r"[\x21\x24-\x3e\x40-\x5b\x5d-\x7e]{1,2048}")  # no white space, `"`, `#`, `?`, backslash
_HOST: Final = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")


def base_url_problem(url: str) -> str | None:
    """What is wrong with a base URL, to be shown behind it; None where it is one."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  # asked for its error
        host = parts.hostname or ""
    except ValueError:
        return "a URL such as https://broker.example was expected"
    if not _PLAIN.fullmatch(url) or parts.scheme not in ("http", "https") or not _HOST.fullmatch(host):
        return "an https URL without query, fragment or white space was expected, such as https://broker.example"
    if "@" in parts.netloc:
        return "leave user and password out of the URL"
    if url.endswith("/"):
        return "leave the trailing slash out; issuers match exactly"
    if parts.scheme == "http" and host not in LOOPBACK:
        return "https was expected; plain http is for loopback only (RFC 8414 §2)"
    return None


def is_loopback(url: str) -> bool:
    """Whether a base URL stays on this machine."""
    return urlsplit(url).hostname in LOOPBACK
