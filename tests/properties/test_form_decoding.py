"""Form bodies are decoded as the standard library's slower decoder does, or refused."""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from broker.domain.errors import Refusal
from broker.http.form import parse_form
from hypothesis import example, given
from hypothesis import strategies as st

PIECES = st.sampled_from(
    [
        b"%0A",
        b"%0D",
        b"%3D",
        b"%3d",
        b"%25",
        b"%00",
        b"=",
        b"\n",
        b"\r",
        b" ",
        b"\t",
        b"+",
        b"_",
        b".",
        b"a",
        b"%C3%A9",
        b"%",
    ]
)


@given(st.lists(PIECES, max_size=24))
@example([b"%0A", b"=", b"\n"])
@example([b"=", b"\r", b"\n", b" "])
@example([b"%", b"a", b"a"])
def test_a_value_is_decoded_as_by_urllib_or_refused(pieces):
    raw = b"".join(pieces)
    found = parse_form(b"name=" + raw)
    if re.search(rb"%(?![0-9A-Fa-f]{2})", raw):
        assert isinstance(found, Refusal)
        return
    try:
        expected = unquote_to_bytes(raw.replace(b"+", b" ")).decode()
    except UnicodeDecodeError:
        assert isinstance(found, Refusal)
        return
    assert found == ({"name": expected} if expected else {})
