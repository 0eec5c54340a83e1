"""What is not compiled: what would keep a validator for hours, or leads outside."""

from __future__ import annotations

import time

import pytest
from broker.domain.contracts.contract import ContractError
from broker.domain.schema.cost import MAX_COST, evaluation_cost
from broker.engines.schemas import compile_schema


def doubling(depth: int, combine: str = "allOf", **beside) -> dict:
    names = {f"d{n}": {combine: [{"$ref": f"#/$defs/d{n + 1}"}] * 2, **beside} for n in range(depth)}
    return {"$defs": {**names, f"d{depth}": {"type": "object"}}, "$ref": "#/$defs/d0"}


@pytest.mark.parametrize("combine", ["allOf", "anyOf", "oneOf"])
def test_definitions_that_double_at_each_step_are_refused_before_a_validator_sees_them(combine):
    started = time.monotonic()
    with pytest.raises(ContractError, match="unfolds into more than"):
        compile_schema(doubling(60, combine), "/inputSchema")
    assert time.monotonic() - started < 1


def test_a_few_doublings_are_compiled():
    assert compile_schema(doubling(6), "").is_valid({})


def test_a_recursive_definition_is_paid_for_by_the_value():
    tree = {"$defs": {"t": {"properties": {"kids": {"items": {"$ref": "#/$defs/t"}}}}}, "$ref": "#/$defs/t"}
    assert evaluation_cost(tree) == 5
    assert compile_schema(tree, "").is_valid({"kids": [{"kids": []}]})


def test_looking_at_what_was_evaluated_counts_twice():
    assert evaluation_cost({"properties": {"a": {}}}) == 2
    assert evaluation_cost({"properties": {"a": {}}, "unevaluatedProperties": False}) == 6
    assert evaluation_cost(doubling(20, unevaluatedProperties=False)) == MAX_COST + 1


def test_a_schema_over_the_bytes_is_refused():
    with pytest.raises(ContractError, match=r"/inputSchema: \d+ bytes; at most 262144 are compiled"):
        compile_schema({"type": "object", "description": "x" * 300_000}, "/inputSchema")


def test_nesting_without_end_is_refused():
    deep: dict = {}
    for _ in range(5_000):
        deep = {"not": deep}
    with pytest.raises(ContractError):
        compile_schema(deep, "/inputSchema")


def test_an_integer_that_has_no_canonical_spelling_still_bounds():
    check = compile_schema({"type": "integer", "maximum": 9_007_199_254_740_993}, "")
    assert check.is_valid(9_007_199_254_740_993)
    assert not check.is_valid(9_007_199_254_740_994)
