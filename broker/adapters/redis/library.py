"""The function library: the `.lua` files, put together into the one text that is loaded.

1. The number in `NAME` and in every function name is the format. Whatever changes the text of a released library takes
   a new number, so that two releases run side by side; a test pins the digest.
2. Comments and blank lines are left out of the text, so that an explanation can be mended without a new number.
3. A library of this name and another text is never replaced: the other one may be what a running broker relies on.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import Final

NAME: Final = "mayfly_1"

_PARTS: Final = (
    "fence",
    "record",
    "assertion",
    "feed",
    "step",
    "credential_issue",
    "credential_inquire",
    "credential_release",
    "version_change",
    "scope_revoke",
    "store_claim",
    "store_inspect",
    "store_read",
    "store_snapshot",
    "store_beat",
    "lease_renew",
    "lease_forget",
    "marks_compact",
    "outbox_acknowledge",
)


@cache
def library_text() -> bytes:
    """The text as it is loaded into the store."""
    folder = files(__package__) / "functions"
    lines = [f"#!lua name={NAME}"]
    for part in _PARTS:
        written = (folder / f"{part}.lua").read_text("utf-8").splitlines()
        lines.extend(line.rstrip() for line in written if line.strip() and not line.lstrip().startswith("--"))
    return ("\n".join(lines) + "\n").encode("utf-8")


def text_digest(text: bytes) -> str:
    """How a library text is named where two of them differ."""
    return f"sha256:{hashlib.sha256(text).hexdigest()}"
