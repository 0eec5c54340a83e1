"""A scope template has one reading, and what is filled in cannot change its structure."""

from __future__ import annotations

import pytest
from broker.domain.policy.templates import could_spell, fill, parse_template


@pytest.mark.parametrize(
    ("template", "placeholders"),
    [
        ("db:read", ()),
        ("files:read:{/path}", ("/path",)),
        ("repo:{/owner}:{/filter/name}:read", ("/owner", "/filter/name")),
        ("a:{/x}:b:{/y}:c", ("/x", "/y")),
        ("a:{/x}-{/y}", None),
        ("a-{/x}", None),
        ("a:{/x}-admin", None),
        ("{/path}", None),
        ("a:{/x}{/y}", None),
        ("a:{path}", None),
        ("a:{/x", None),
        ("a:{/x}}", None),
        ("a:*", None),
        ("a b", None),
        ('a"b', None),
        ("a\\b", None),
        ("", None),
    ],
)
def test_a_template_names_its_placeholders_or_is_none(template, placeholders):
    assert parse_template(template) == placeholders


def test_a_placeholder_is_filled_once_and_not_read_again():
    assert fill("a:{/x}:{/y}", {"/x": "1", "/y": "2"}) == "a:1:2"


def test_a_scope_that_grows_too_long_is_none():
    assert fill("a:{/x}", {"/x": "b" * 255}) is None


@pytest.mark.parametrize(
    ("template", "scope", "can"),
    [
        ("db:{/table}", "db:write", True),
        ("db:{/table}:read", "db:users:read", True),
        ("db:{/table}:read", "db:users:write", False),
        ("db:{/table}", "db:users:read", False),
        ("db.x:{/table}", "dbax:users", False),
        ("db:write", "db:write", False),
    ],
)
def test_a_template_that_an_argument_could_make_a_plain_scope_is_known(template, scope, can):
    assert could_spell(template, scope) is can
