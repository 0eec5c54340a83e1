"""Schemas made to keep a prover or a validator busy: each is answered in bounded time, with bounded memory, no exception."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker.adapters.schemas.arithmetic import Arithmetic
from broker.adapters.schemas.prover import MEMORY_BYTES, Prover
from broker.domain.schema.answers import Relation

TEXT = {"type": "string"}
SECONDS = 2  # for a proof: less than in use, so that what runs into the bound does so soon


def branches(longest: int) -> dict:
    made = [
        {
            "type": "object",
            "properties": {
                "k": {"const": f"k{n}"},
                **{f"p{m}": {**TEXT, "maxLength": longest + n + m} for m in range(5)},
            },
            "required": ["k"],
        }
        for n in range(128)
    ]
    return {"oneOf": made}


def choices(bound: int) -> dict:
    either = [
        {
            "anyOf": [
                {"properties": {f"a{n}": TEXT, f"b{n}": {"minimum": bound}}, "required": [f"a{n}"]},
                {"properties": {f"a{n}": {"type": "integer"}}, "required": [f"b{n}"]},
            ]
        }
        for n in range(16)
    ]
    return {"allOf": either}


def deep(depth: int, leaf: dict) -> dict:
    for _ in range(depth):
        leaf = {"type": "object", "properties": {"x": leaf}}
    return leaf


def doubling(depth: int, leaf: dict) -> dict:
    names = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(depth)}
    return {"$defs": {**names, f"d{depth}": leaf}, "$ref": "#/$defs/d0"}


def tangle(leaf: dict) -> dict:
    """Eight definitions, each of which names all."""
    every = [{"properties": {f"x{n}": {"$ref": f"#/$defs/t{n}"}}} for n in range(8)]
    return {"$defs": {f"t{n}": {"anyOf": [*every, leaf]} for n in range(8)}, "$ref": "#/$defs/t0"}


def wide(count: int, kind: str) -> dict:
    return {
        "type": "object",
        "properties": {f"argument_{n}": {"type": kind, "description": "x" * 40} for n in range(count)},
    }


HOSTILE = {
    "128 discriminated branches": (branches(1), branches(2)),
    "16 choices multiplied": (choices(1), choices(2)),
    "depth 100": (deep(100, TEXT), deep(100, {"type": "integer"})),
    "depth 200": (deep(200, TEXT), deep(200, {"type": "integer"})),
    "depth 20000": (deep(20_000, TEXT), deep(20_000, {"type": "integer"})),
    "references that double": (doubling(40, TEXT), doubling(40, {"type": "integer"})),
    "a reference to itself": ({"$ref": "#"}, {"type": "object", "$ref": "#"}),
    "references in a ring": (
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"},
    ),
    "recursion that names itself eight times": (tangle(TEXT), tangle({"type": "integer"})),
    "a pattern that backtracks": ({"pattern": "^(a+)+$"}, {"pattern": "^(a|aa)+$"}),
    "a pattern that backtracks with lookahead": ({"pattern": "^(?=a)(a+)+$"}, {"pattern": "^(?=a)(a|aa)+$"}),
    "a pattern with huge counts": ({"pattern": "^(a{1000}){1000}$"}, {"pattern": "^(a{1000}){999}$"}),
    "a pattern of 20 kB": ({"pattern": "^(" + "ab|" * 6_000 + "c)*$"}, {"pattern": "^(" + "ba|" * 6_000 + "c)*$"}),
    "a megabyte": (wide(10_000, "string"), wide(10_000, "integer")),
    "a hundred kilobytes": (wide(1_000, "string"), wide(1_000, "integer")),
    "huge bounds": (
        {"maxItems": 10**9, "minLength": 10**9, "multipleOf": 1e-300, "minProperties": 10**9},
        {"maxItems": 10**9 + 1, "minLength": 10**9 - 1, "multipleOf": 1e300, "minProperties": 10**9 + 1},
    ),
    "huge numbers": ({"minimum": -(10**300)}, {"minimum": 10**300, "maxLength": 10**30}),
    "many items": ({"type": "array", "minItems": 10**6, "uniqueItems": True}, {"type": "array", "minItems": 10**6}),
    "conditions in conditions": (
        {"if": choices(1), "then": choices(2), "else": {"if": choices(3), "then": choices(4)}},
        {"if": choices(1), "then": choices(3), "else": {"if": choices(2), "then": choices(4)}},
    ),
    "not of not": ({"not": {"not": {"not": choices(1)}}}, {"not": {"not": {"not": choices(2)}}}),
}  # fmt: skip


@pytest.fixture
def arithmetic() -> Iterator[Arithmetic]:
    made = Arithmetic(prover=Prover(seconds=SECONDS))
    yield made
    made.close()


@pytest.mark.parametrize(("old", "new"), HOSTILE.values(), ids=HOSTILE)
def test_it_is_answered_within_the_bound(arithmetic, old, new):
    before = _resident_bytes()
    started = time.monotonic()
    related = arithmetic.relate(old, new)
    answer = arithmetic.common([old, new])
    took = time.monotonic() - started
    print(f"{related.relation} {type(answer).__name__} {took:.2f} s")
    assert isinstance(related.relation, Relation)
    assert took < 10 * SECONDS
    assert _resident_bytes() - before < 200 * 1024 * 1024
    worker = arithmetic._prover.process_id
    assert worker is None or _resident_bytes(worker) < MEMORY_BYTES


def _resident_bytes(process_id: int | str = "self") -> int:
    return int(Path(f"/proc/{process_id}/statm").read_text().split()[1]) * 4096
