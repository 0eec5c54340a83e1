"""Properties of the rules that policy stands on."""

from __future__ import annotations

import json

import jsonschema_rs
from broker.domain.policy.roots import normalise, normalise_root, within
from broker.domain.policy.templates import fill, parse_template, safe_value
from broker.domain.schema.closure import close
from hypothesis import given, settings
from hypothesis import strategies as st

STEPS = st.sampled_from(
    [
        "/",
        "//",
        ".",
        "..",
        "/..",
        "/../",
        "%2e",
        "%2F",
        "\\",
        "~",
        "\u2024",
        "\uff0f",
        "\u2215",
        " ",
        "\x00",
        "srv",
        "reports",
        "a",
        ";",
        "?",
        "#",
        ":",
    ]
)
PATHS = st.one_of(
    st.text(), st.lists(STEPS).map(lambda steps: "/srv/reports" + "".join(steps)), st.lists(STEPS).map("".join)
)
URLS = st.one_of(
    st.text(),
    st.lists(STEPS).map(lambda steps: "https://api.example/v1" + "".join(steps)),
    st.tuples(st.sampled_from(["https://", "HTTP://"]), st.text(max_size=12), st.lists(STEPS).map("".join)).map(
        "".join
    ),
)


@given(PATHS)
def test_an_accepted_path_continues_a_root_on_a_boundary_and_never_goes_up(value):
    normal = within("path", value, ["/srv/reports"])
    if normal is not None:
        assert (normal + "/").startswith("/srv/reports/")
        assert not {"..", ".", ""} & set(normal.split("/")[1:])
        assert not set("\\%\x00") & set(normal)
        assert within("path", normal, ["/srv/reports"]) == normal


@given(URLS)
def test_an_accepted_url_continues_a_root_on_a_boundary_and_never_goes_up(value):
    normal = within("url", value, ["https://api.example/v1"])
    if normal is not None:
        place = normal.partition("?")[0]
        assert (place + "/").startswith("https://api.example/v1/")
        assert ".." not in place.split("/")
        assert "@" not in place.split("/")[2]


@given(st.sampled_from(["path", "url", "host"]), st.one_of(PATHS, URLS, st.text()))
def test_a_normal_form_is_its_own_normal_form(kind, value):
    normal = normalise(kind, value)
    assert normal is None or normalise(kind, normal) == normal


@given(st.sampled_from(["path", "url", "host"]), st.one_of(PATHS, URLS))
def test_a_root_lies_under_itself(kind, value):
    root = normalise_root(kind, value)
    if root is not None and not root.startswith("*."):
        assert within(kind, root, [root]) is not None


@given(st.text(), st.sampled_from([None, "path", "identifier"]))
def test_a_filled_template_keeps_its_segments(value, kind):
    assert parse_template("repo:{/x}:read") == ("/x",)
    if safe_value(kind, value):
        scope = fill("repo:{/x}:read", {"/x": value})
        assert scope is None or scope.split(":") == ["repo", value, "read"]


NAMES = st.sampled_from(["a", "b", "c"])
LEAVES = st.sampled_from([{"type": "string"}, {"type": "integer"}, {"enum": [1, "x"]}, {}, {"type": "null"}])


def objects(children):
    properties = st.dictionaries(NAMES, children, max_size=3)
    return st.one_of(
        st.fixed_dictionaries({"properties": properties}, optional={"additionalProperties": st.booleans()}),
        st.fixed_dictionaries({"additionalProperties": children}),
        st.fixed_dictionaries({"items": children}),
        st.fixed_dictionaries({"properties": properties, "allOf": st.lists(children, min_size=1, max_size=2)}),
        st.fixed_dictionaries({"anyOf": st.lists(children, min_size=1, max_size=2)}),
    )


SCHEMAS = st.recursive(LEAVES, objects, max_leaves=8)
VALUES = st.recursive(
    st.one_of(st.none(), st.integers(0, 1), st.sampled_from(["x", "y"])),
    lambda children: st.one_of(st.dictionaries(NAMES, children, max_size=3), st.lists(children, max_size=2)),
    max_leaves=6,
)


@settings(max_examples=300)
@given(SCHEMAS, VALUES)
def test_a_closed_view_never_accepts_what_the_schema_refuses(schema, value):
    if jsonschema_rs.Draft202012Validator(close(schema)).is_valid(value):
        assert jsonschema_rs.Draft202012Validator(schema).is_valid(value), json.dumps(schema)


@settings(max_examples=300)
@given(SCHEMAS, VALUES)
def test_an_older_dialect_is_closed_like_the_new_one(schema, value):
    old = {"$schema": "http://json-schema.org/draft-07/schema#", **schema}
    new = jsonschema_rs.Draft202012Validator(close(schema)).is_valid(value)
    assert jsonschema_rs.Draft202012Validator(close(old)).is_valid(value) is new
