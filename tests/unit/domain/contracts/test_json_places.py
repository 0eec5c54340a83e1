"""Where a pointer leads in a JSON text: line and column of the member's name."""

from __future__ import annotations

import json

import pytest
from broker.domain.contracts.json_places import line_and_column

TEXT = """{
  "name": "t",
  "a/b": {"~": [1, {"deep": true}]},
  "quoted\\"name": {"x": "}"},
    "last": null
}
"""

PLACES = [
    ("", (1, 1)),
    ("/name", (2, 3)),
    ("/a~1b", (3, 3)),
    ("/a~1b/~0", (3, 11)),
    ("/a~1b/~0/0", (3, 17)),
    ("/a~1b/~0/1/deep", (3, 21)),
    ('/quoted"name/x', (4, 20)),
    ("/last", (5, 5)),
    ("/name/further", (2, 3)),
    ("/absent", (1, 1)),
    ("/a~1b/absent", (3, 3)),
]


@pytest.mark.parametrize(("pointer", "place"), PLACES)
def test_a_pointer_leads_to_the_name_of_a_member_or_to_the_last_thing_that_is_there(pointer, place):
    assert line_and_column(TEXT, pointer) == place


@pytest.mark.parametrize(
    "text", ["", "{", '{"a', '{"a": ', '{"a": [1,', "[[[", "nonsense", '{"a" 1}', '{"a": 1 "b": 2}']
)
def test_a_text_that_is_no_json_has_places_as_far_as_it_can_be_read(text):
    line, column = line_and_column(text, "/a/0/b")
    assert line == 1
    assert 1 <= column <= len(text) + 1


def test_every_member_of_a_text_is_found_on_its_own_line():
    value = {f"k{n}": {"x": n} for n in range(200)}
    text = json.dumps(value, indent=1)
    lines = text.splitlines()
    for n in range(200):
        line, column = line_and_column(text, f"/k{n}/x")
        assert lines[line - 1][column - 1 :].startswith(f'"x": {n}')
