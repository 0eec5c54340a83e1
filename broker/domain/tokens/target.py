"""Targets: what `resource` (RFC 8707 §2) and `audience` (RFC 8693 §2.1) may say, and when two are the same.

1. An absolute http(s) URI without fragment, userinfo, percent-encoding, dot segments or white space.
2. Scheme and host are compared in lower case, the default port is none, an empty path is `/`. Nothing else is changed: a
   trailing slash after a path makes another resource.
3. Both parameters given: both must name the same target.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from broker.domain.errors import Reason, Refusal

_PLAIN: Final = re.compile(r"[\x21\x23\x24\x26-\x5b\x5d\x5f\x61-\x7a\x7e]{1,2048}")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


@lru_cache(maxsize=1024)
def canonical_target(text: str) -> str | None:
    """The one spelling of a target (rules 1 and 2), or None where the text is none."""
    if not _PLAIN.fullmatch(text) or "#" in text or "\\" in text:
        return None
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return None
    scheme, host = parts.scheme.lower(), (parts.hostname or "").lower()
    if scheme not in _DEFAULT_PORTS or not host or "@" in parts.netloc:
        return None
    if any(segment in (".", "..") for segment in parts.path.split("/")):
        return None
    shown = f"[{host}]" if ":" in host else host
    if port is not None and port != _DEFAULT_PORTS[scheme]:
        shown = f"{shown}:{port}"
    path = "" if parts.path == "/" else parts.path
    query = f"?{parts.query}" if parts.query else ""
    return f"{scheme}://{shown}{path}{query}"


def check_target(*, resource: str | None, audience: str | None, registered: str) -> Refusal | None:
    """Whether what was asked for is the registered target; None where it is, or where nothing was asked for."""
    for name, asked in (("resource", resource), ("audience", audience)):
        if asked is None:
            continue
        found = canonical_target(asked)
        if found is None:
            return Refusal(
                Reason.TARGET_UNKNOWN,
                "an absolute http or https URI without fragment, userinfo, percent-encoding or dot segments was expected",
                where=name,
            )
        if found != canonical_target(registered):
            return Refusal(
                Reason.TARGET_MISMATCH,
                f"the credential for this tool is good for {registered} only; name that, or leave {name} out",
                where=name,
            )
    return None
