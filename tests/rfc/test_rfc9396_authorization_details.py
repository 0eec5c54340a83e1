"""Rich authorization requests (RFC 9396): one `mcp_tool_call`, read strictly, and given back as it was granted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from wire_vectors import VECTORS, as_refused, names

from broker_parts import Wire, detail


def spell(value: Any) -> str:
    if isinstance(value, str) and value.startswith("TEXT:"):
        return value.removeprefix("TEXT:")
    if isinstance(value, str) and value.startswith("DEEP:"):
        depth = int(value.removeprefix("DEEP:"))
        arguments = '{"a":' * depth + "1" + "}" * depth
        return f'[{{"type":"mcp_tool_call","tool":"ticket.edit","arguments":{arguments}}}]'
    return json.dumps(value)


@pytest.mark.parametrize("case", VECTORS["authorization_details"], ids=names)
def test_a_detail_is_read_as_the_vector_says(wire: Wire, case: dict[str, Any]) -> None:
    answer = wire.exchange(authorization_details=spell(case["value"]))
    if case["expect"] == "accept":
        assert answer.status_code == 200, answer.text
    else:
        assert as_refused(answer) == case["expect"]


def test_what_was_granted_is_named_in_full(wire: Wire) -> None:
    short = [{"type": "mcp_tool_call", "tool": "ticket.edit"}]
    granted = wire.mint(authorization_details=short)["authorization_details"]
    assert [set(one) for one in granted] == [{"type", "tool", "version", "contract", "task"}]
    assert (granted[0]["version"], granted[0]["task"]) == ("1", "edit")
    again = wire.mint(authorization_details=detail(contract=granted[0]["contract"]))
    assert again["authorization_details"][0]["contract"] == granted[0]["contract"]


def test_the_arguments_decide_the_scopes_and_are_not_shown(wire: Wire) -> None:
    plain = wire.mint(authorization_details=detail(arguments={"note": "a word"}))
    assert plain["scope"] == "ticket.read"
    assert "a word" not in json.dumps(plain)
    assert set(plain["authorization_details"][0]) >= {"arguments_digest"}
    assert wire.mint(authorization_details=detail(arguments={"create": True}))["scope"] == "ticket.create ticket.read"
    assert wire.mint(authorization_details=detail(arguments=None))["scope"] == "ticket.create ticket.read"


def test_a_path_is_granted_in_its_plain_form(wire: Wire) -> None:
    asked = detail("files.read", task="report", arguments={"path": "/srv/reports/./2026//q3.csv"})
    assert wire.mint(authorization_details=asked)["scope"] == "files:read:/srv/reports/2026/q3.csv"


@pytest.mark.parametrize("size", [60_000, 70_000])
def test_a_detail_is_read_up_to_its_limit(wire: Wire, size: int) -> None:
    answer = wire.exchange(authorization_details=detail(arguments={"note": "x" * size}))
    if size < 65_536:
        assert answer.status_code == 200, answer.text
    else:
        assert as_refused(answer)["reason"] == "detail_malformed"
