"""A scope that names a value names one below the root, whoever reads the value."""

from __future__ import annotations

import posixpath
import unicodedata
from urllib.parse import unquote, urlsplit

import httpx2
from broker.domain.contracts.contract import parse_contract
from broker.domain.errors import Refusal
from broker.domain.policy.argument_scopes import scopes_with_arguments
from broker.domain.policy.document import ArgumentFacts, ArgumentRule, ScopeRule, TaskRule, VersionPolicy
from broker.domain.policy.roots import normalise, within
from hypothesis import example, given, settings
from hypothesis import strategies as st

ROOT = "/srv/reports"
SCOPE = "files:read:{/path}"
TASK = TaskRule("report", (), {"groups": ("analysts",)}, (SCOPE,), 60)
VERSION = VersionPolicy(
    tool="files.read",
    version="1",
    audience="https://files.internal",
    contract=parse_contract({"name": "files.read", "inputSchema": {"type": "object"}}),
    arguments={"/path": ArgumentRule("/path", "path", within=(ROOT,))},
    scopes={SCOPE: ScopeRule(SCOPE, ("/path",), True)},
    tasks={"report": TASK},
    digest="sha256:" + "0" * 64,
)
FACTS = ArgumentFacts(valid=True, problem=None, needed=frozenset({SCOPE}))

_INVISIBLE = "\u200b\u200d\u034f\ufe0f\u2060\u00ad\u3164"
_PLAIN = [
    "/",
    "//",
    "/./",
    "/../",
    "..",
    ".",
    "...",
    "~",
    ":",
    "$DATA",
    "C:",
    "srv",
    "reports",
    "a",
    "A",
    "é",
    "\\",
    "\t",
    "\x00",
]
_ESCAPED = ["%2e", "%2E%2e", "%252e", "%2f", "%c0%ae", "%EF%BC%8E", "%E2%88%95", "%3B", "%20", ";", "?", "#", "@", " "]
_FOLDED = ["\u2024", "\u2025", "\u2026", "\uff0e", "\uff0f", "\uff3c", "\u2215", "\u2044", "\u29f8", "\ufe68", "\u3002"]
_MARKS = [*_INVISIBLE, "\u0301", "\u0338", "e\u0301", "\u202e", "evil.example", "api.example"]
_PIECES = st.sampled_from([*_PLAIN, *_ESCAPED, *_FOLDED, *_MARKS])
_TAME = st.lists(st.sampled_from(["/", "/", "/./", "//", "a", "b", ".x", "é", "-", "..a"]), max_size=5).map("".join)
# Mostly plain, with one piece that is not: most of these are granted, so that what is granted is looked at.
_ALMOST = st.tuples(_TAME, st.one_of(st.just("/"), _PIECES), _TAME).map("".join)
_PATHS = st.one_of(
    _ALMOST.map(lambda text: f"{ROOT}/{text}"),
    st.lists(_PIECES, max_size=6).map(lambda pieces: ROOT + "".join(pieces)),
    st.lists(_PIECES, max_size=6).map("".join),
    st.text(max_size=12).map(lambda text: f"{ROOT}/{text}"),
)
# What servers, file systems and libraries do to a name before they use it.
_READERS = [
    lambda value: value,
    unquote,
    lambda value: unquote(unquote(value)),
    lambda value: unicodedata.normalize("NFKC", value),
    lambda value: unicodedata.normalize("NFD", value),
    lambda value: value.replace("\\", "/"),
    lambda value: value.translate({ord(character): None for character in _INVISIBLE}),
    lambda value: value.partition("\x00")[0],
    lambda value: "/".join(segment.rstrip(". ") if segment.strip(".") else segment for segment in value.split("/")),
    lambda value: "/".join(segment.partition(";")[0] if segment.startswith(".") else segment for segment in value.split("/")),
    lambda value: unicodedata.normalize("NFKC", unquote(value)),
]  # fmt: skip


def _granted(path: object) -> str | None:
    made = scopes_with_arguments(VERSION, TASK, {"path": path}, FACTS, "files.read@1/tasks/report")
    if isinstance(made, Refusal):
        return None
    assert len(made) == 1
    return next(iter(made)).removeprefix("files:read:")


@settings(max_examples=600, deadline=None)
@given(_PATHS)
@example("/srv/reports/..")
@example("/srv/reports/%2e%2e/x")
@example("/srv/reports/..\ufe0f/x")
def test_a_granted_scope_names_a_path_below_the_root_for_every_reader(value):
    named = _granted(value)
    if named is None:
        return
    for reader in _READERS:
        for text in (named, value):  # the scope names the one, the tool opens the other
            place = posixpath.normpath(reader(text))
            assert place == ROOT or place.startswith(ROOT + "/"), (value, text, place)
    assert posixpath.normpath(value) == named
    assert ":" not in named
    assert _granted(named) == named


@given(
    st.one_of(st.none(), st.booleans(), st.integers(), st.lists(_PATHS, max_size=3), st.dictionaries(st.text(), _PATHS))
)
def test_only_one_path_in_plain_form_is_ever_granted(value):
    named = _granted(value)
    if named is not None:
        assert isinstance(value, list)
        assert len(value) == 1
        assert within("path", value[0], [ROOT]) == named


_URLS = st.one_of(
    _ALMOST.map(lambda text: f"https://api.example/v1/x{text}"),
    st.lists(_PIECES, max_size=6).map(lambda pieces: "https://api.example/v1" + "".join(pieces)),
    st.tuples(st.sampled_from(["https://", "HTTPS://", "http://", "//", "https:"]), st.lists(_PIECES, max_size=6)).map(
        lambda pair: pair[0] + "".join(pair[1])
    ),
)


@settings(max_examples=600, deadline=None)
@given(_URLS)
@example("https://api.example/v1/%EF%BC%8E%EF%BC%8E/admin")
@example("https://api.example/v1/..%3B/admin")
def test_a_url_below_a_root_leads_there_for_every_reader(value):
    normal = within("url", value, ["https://api.example/v1"])
    if normal is None:
        return
    for text in (normal, value):
        assert urlsplit(text).hostname == "api.example"
        assert urlsplit(text).username is None
        assert httpx2.URL(text).host == "api.example"
        assert httpx2.URL(text).port in (None, 443)
        for reader in _READERS:
            place = posixpath.normpath(reader(urlsplit(text).path))
            assert place == "/v1" or place.startswith("/v1/"), (value, text, place)


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(["path", "url", "host"]),
    st.one_of(_PATHS, _URLS, st.lists(_PIECES, max_size=4).map("".join), st.text(max_size=20)),
)
def test_normalising_twice_is_normalising_once(kind, value):
    normal = normalise(kind, value)
    assert normal is None or normalise(kind, normal) == normal
