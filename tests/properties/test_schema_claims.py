"""No claim about schemas is wrong, on schemas by chance; `make soundness` is the long run of the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pytest
from broker.adapters.schemas.arithmetic import open_arithmetic
from broker.domain.schema.answers import Answer, No, Related, Yes
from broker.ports.schemas import SchemaArithmetic

from schema_attack import Tally, attack_common, attack_pair, attack_relation
from schema_making import SchemaMaker
from schema_sampling import Sampler

SEEDS = range(24)
SAMPLES = 60


@pytest.fixture(scope="module")
def arithmetic() -> Iterator[SchemaArithmetic]:
    made = open_arithmetic(None)
    yield made
    made.close()


class Lying:
    """The arithmetic, except that it takes every yes for a no."""

    def __init__(self, inner: SchemaArithmetic) -> None:
        self._inner = inner

    def relate(self, old: dict[str, Any], new: dict[str, Any]) -> Related:
        related = self._inner.relate(old, new)
        return Related(
            *(No("a lie") if isinstance(answer, Yes) else answer for answer in (related.lost, related.gained))
        )

    def common(self, schemas: Sequence[dict[str, Any]]) -> Answer:
        answer = self._inner.common(schemas)
        return No("a lie") if isinstance(answer, Yes) else answer

    def accepts(self, schema: dict[str, Any], value: Any) -> bool:
        return self._inner.accepts(schema, value)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_claim_about_schemas_by_chance_is_contradicted_by_a_value(arithmetic, seed):
    chance, tally = Random(seed), Tally(seed)
    maker = SchemaMaker(chance)
    for _ in range(3):
        old = maker.document()
        attack_pair(arithmetic, tally, chance, "by chance", old, maker.successor(old), SAMPLES)
    assert tally.wrong == []
    assert sum(tally.claims.values()) >= 3


def test_an_arithmetic_that_lies_is_caught(arithmetic):
    lying, caught, told = Lying(arithmetic), 0, 0
    for seed in range(40):
        chance, tally = Random(seed), Tally(seed)
        maker = SchemaMaker(chance)
        old = maker.document()
        new = maker.successor(old)
        samples = list(Sampler(chance, old, new).values(SAMPLES))
        attack_relation(lying, tally, "lies", old, new, samples)
        attack_common(lying, tally, "lies", [old, new], samples)
        told += tally.claims["lies", "no, a lie"]
        caught += len(tally.wrong)
    assert told > 20
    assert caught / told > 0.9


def test_a_witness_that_shows_nothing_is_caught(arithmetic):
    class Mistaken(Lying):
        def relate(self, old: dict[str, Any], new: dict[str, Any]) -> Related:
            return Related(Yes({"a": 1}), No("cover"))

    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    tally = Tally(0)
    attack_relation(Mistaken(arithmetic), tally, "mistakes", schema, {**schema, "maxProperties": 5}, [])
    assert [wrong["claim"] for wrong in tally.wrong] == ["lost: its witness shows nothing"]


def test_the_schemas_by_chance_are_not_trivial():
    said: set[str] = set()
    for seed in range(200):
        said.update(_keywords(SchemaMaker(Random(seed)).document()))
    assert {"$ref", "oneOf", "not", "if", "unevaluatedProperties", "dependentSchemas", "pattern", "contains"} <= said


def _keywords(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for keyword, child in node.items():
            yield keyword
            yield from _keywords(child)
    elif isinstance(node, list):
        for child in node:
            yield from _keywords(child)
