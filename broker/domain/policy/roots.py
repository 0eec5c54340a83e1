"""Arguments that name a place: one normal form, and whether it lies under a root. Normalise first, then check.

Refused before any comparison, since two readers could read it differently:

| kind | refused                                                                                                   |
|------|-----------------------------------------------------------------------------------------------------------|
| all  | empty, over 4096 characters, unprintable or invisible characters (controls, NUL, bidi, zero width), not NFC |
| path | relative, `//` first, `\\`, `%`, a `..` segment (a link would make a lexical reading wrong), a segment |
|      | that ends in a dot or space, a drive (`C:`), a stream (`a:$DATA`), characters that another reader folds to a |
|      | dot, slash or backslash                                                                                |
| url  | anything but http(s), user information, fragment, `\\`, space, non-ASCII, an empty segment, a segment like |
|      | `..;x` or `..%20`, escapes of unreserved characters, slashes, percent signs or controls, escapes in the path |
|      | that are not UTF-8 (`%C0%AE`) or stand for what a path may not hold (`%EF%BC%8E`)                          |
| host | non-ASCII, trailing dot, a number that is no dotted quad (`0x7f.1`, `2130706433`), zone identifiers           |

Normal forms: a path without `.` and empty segments; a URL with lower-case scheme and host, no default port, dot
segments resolved (RFC 3986 §6.2.2); a host in lower case, an address in its one spelling.

Under a root: a path or URL is the root or continues it after a `/`; a URL's scheme, host and port are the root's, and a
query stays with the value. A host equals the root; the root `*.example.com` means the names below, not the name itself.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final
from urllib.parse import unquote_to_bytes

MAX_CHARACTERS: Final = 4096
_FOLDS: Final = frozenset("./\\%~:")
# No compatibility decomposition, but folded by best-fit tables or by the eye.
_LOOKALIKES: Final = frozenset(
    "\u2044\u2215\u29f8\u2571\u2216\u29f5\u29f9\u20e5\u3002\uff61\u0338\u0337\u1735\u2cc6\u3033"
)
# Printable as far as Unicode's categories go, but not seen, and dropped by some readers: `..` with one inside is `..` there.
_INVISIBLE: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_FOREIGN: Final = re.compile(r"[A-Za-z]:|.*:\$")
_DOTS: Final = re.compile(r"\.+[;%].*|\.{3,}")
_URL: Final = re.compile(r"(https?)://([^/?#]+)([^?#]*)(\?[^#]*)?", re.IGNORECASE)
_URL_TEXT: Final = re.compile(r"[!$&-;=?-Z_a-z~%\[\]]+")
_ESCAPE: Final = re.compile(r"%([0-9A-Fa-f]{2})?")
_UNRESERVED: Final = re.compile(r"[A-Za-z0-9._~-]")
_LABEL: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMERIC: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_AUTHORITY: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]@]+)(?::([0-9]{1,5}))?")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def normalise(kind: str, value: str) -> str | None:
    """The normal form of a path, URL or host; None where it has none or could be read in two ways."""
    if not 0 < len(value) <= MAX_CHARACTERS or not _is_plain(value):
        return None
    match kind:
        case "path":
            return _path(value)
        case "url":
            return _url(value)
        case "host":
            return _host_and_port(value, None)
        case _:
            return None


def within(kind: str, value: str, roots: Iterable[str]) -> str | None:
    """The normal form of a value that lies under one of the roots; None where it does not. Roots are in normal form."""
    normal = normalise(kind, value)
    if normal is None:
        return None
    return normal if any(_under(kind, normal, root) for root in roots) else None


def root_within(kind: str, root: str, roots: Iterable[str]) -> bool:
    """Whether all that lies under a root lies under one of these. Roots are in normal form."""
    if kind == "host" and root.startswith("*."):
        return any(wider.startswith("*.") and root.endswith(wider[1:]) for wider in roots)
    return within(kind, root, roots) is not None


def normalise_root(kind: str, root: str) -> str | None:
    """The normal form of a root; None where it cannot be one."""
    if kind == "host" and root.startswith("*."):
        below = normalise(kind, root[2:])
        return None if below is None or ":" in below or _NUMERIC.fullmatch(below.rpartition(".")[2]) else f"*.{below}"
    if kind == "url" and "?" in root:
        return None
    normal = normalise(kind, root)
    # The boundary check adds the slash, so a root is kept without one.
    return normal.rstrip("/") if normal is not None and kind == "url" else normal


def _under(kind: str, normal: str, root: str) -> bool:
    if kind == "host":
        return normal.endswith(root[1:]) if root.startswith("*.") else normal == root
    place = normal.partition("?")[0] if kind == "url" else normal
    return place == root or place.startswith(root.rstrip("/") + "/")


def _path(value: str) -> str | None:
    if not value.startswith("/") or value.startswith("//") or "\\" in value or "%" in value:
        return None
    if not value.isascii() and not all(map(_distinct, value)):
        return None
    segments = []
    for segment in value.split("/"):
        if segment in ("", "."):
            continue
        if segment[-1] in ". " or _FOREIGN.match(segment):  # covers `..`, and what Windows drops
            return None
        segments.append(segment)
    return "/" + "/".join(segments)


def _is_plain(value: str) -> bool:
    """Whether the text has one spelling, all of which can be seen."""
    if value.isascii():
        return value.isprintable()
    return value.isprintable() and unicodedata.is_normalized("NFC", value) and not _INVISIBLE.search(value)


def _distinct(character: str) -> bool:
    """Whether no reader takes the character for one that separates."""
    if character.isascii():
        return True
    return character not in _LOOKALIKES and not _FOLDS & set(unicodedata.normalize("NFKC", character))


def _url(value: str) -> str | None:
    parts = _URL.fullmatch(value)
    if parts is None or not _URL_TEXT.fullmatch(value):
        return None
    scheme = parts[1].lower()
    host = _host_and_port(parts[2], _DEFAULT_PORTS[scheme])
    path, query = _escapes(parts[3] or "/"), _escapes(parts[4] or "")
    if host is None or path is None or query is None or not _is_readable(path):
        return None
    segments: list[str] = []
    steps = path.split("/")[1:]
    for index, step in enumerate(steps):
        last = index == len(steps) - 1
        if not step and not last:
            return None
        if _DOTS.fullmatch(step):  # dots, and what some servers drop before they resolve
            return None
        if step in (".", ".."):
            if step == ".." and segments:
                segments.pop()
            if last:
                segments.append("")
        else:
            segments.append(step)
    return f"{scheme}://{host}/{'/'.join(segments)}{query}"


def _is_readable(path: str) -> bool:
    """Whether the escapes are UTF-8 for characters that nobody takes for others."""
    if "%" not in path:
        return True
    try:
        text = unquote_to_bytes(path).decode("utf-8", "strict")
    except UnicodeDecodeError:
        return False
    return _is_plain(text) and all(map(_distinct, text))


def _escapes(text: str) -> str | None:
    """The text with its escapes in upper case; None where one is malformed or stands for something it may not hide."""
    for escape in _ESCAPE.finditer(text):
        if escape[1] is None:
            return None
        octet = int(escape[1], 16)
        if octet < 0x20 or octet == 0x7F or chr(octet) in "/\\%" or _UNRESERVED.match(chr(octet)):
            return None
    return _ESCAPE.sub(lambda escape: escape[0].upper(), text)


def _host_and_port(value: str, default_port: int | None) -> str | None:
    parts = _AUTHORITY.fullmatch(value)
    if parts is None:
        return None
    host = _host(parts[1].lower())
    if host is None or parts[2] is None:
        return host
    port = int(parts[2])
    if not 0 < port < 65536:
        return None
    return host if port == default_port else f"{host}:{port}"


def _host(host: str) -> str | None:
    try:
        if host.startswith("["):
            return f"[{IPv6Address(host[1:-1]).compressed}]"
        labels = host.split(".")
        if _NUMERIC.fullmatch(labels[-1]):
            return str(IPv4Address(host))
    except AddressValueError:
        return None
    return host if len(host) <= 253 and all(map(_LABEL.fullmatch, labels)) else None
