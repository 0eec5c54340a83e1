"""Properties of the list of changes, over schemas by chance: each stands somewhere, and none that counts is missing."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from random import Random

import pytest
from broker.adapters.schemas.arithmetic import open_arithmetic
from broker.domain.canonical import JsonValue
from broker.domain.schema.change_words import words
from broker.domain.schema.changes import Effect
from broker.domain.schema.closure import accepted_inputs, open_inputs
from broker.domain.schema.dialect import SchemaError
from broker.domain.schema.differences import schema_changes
from broker.ports.schemas import SchemaArithmetic
from hypothesis import given, settings
from hypothesis import strategies as st

from schema_making import SchemaMaker
from schema_sampling import Sampler

seeds = st.integers(min_value=0, max_value=2**32)


@pytest.fixture(scope="module")
def arithmetic() -> Iterator[SchemaArithmetic]:
    made = open_arithmetic(None)
    yield made
    made.close()


def made(seed: int) -> tuple[dict, dict]:
    """A schema, and one that may have come of it."""
    maker = SchemaMaker(Random(seed))
    old = maker.document()
    return old, maker.successor(old)


def stands(document: JsonValue, pointer: str) -> bool:
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict) and name in document:
            document = document[name]
        elif isinstance(document, list) and name.isdecimal() and int(name) < len(document):
            document = document[int(name)]
        else:
            return False
    return True


@settings(max_examples=150, deadline=None)
@given(seeds)
def test_a_schema_has_no_changes_to_itself_nor_to_a_copy_in_another_order(seed):
    old, _ = made(seed)
    assert schema_changes(old, copy.deepcopy(old)) == ()
    turned = json.loads(json.dumps(old, sort_keys=True))
    assert schema_changes(old, turned) == ()


@settings(max_examples=300, deadline=None)
@given(seeds)
def test_every_change_stands_where_it_points_and_has_one_printable_sentence(seed):
    old, new = made(seed)
    for change in schema_changes(old, new):
        assert change.pointer_old is not None or change.pointer_new is not None
        for document, pointer in ((old, change.pointer_old), (new, change.pointer_new)):
            assert pointer is None or stands(document, pointer), (change.kind, pointer)
        assert words(change).isprintable()


@pytest.mark.parametrize("seed", range(400))
def test_where_only_words_changed_the_same_is_accepted(seed, arithmetic):
    old, new = made(seed)
    effects = {change.effect for change in schema_changes(old, new)}
    views = [accepted_inputs] if effects <= {Effect.WORDS, Effect.NEITHER} else []
    views += [open_inputs] if effects <= {Effect.WORDS} else []
    for view in views:
        try:
            before, after = view(old), view(new)
        except SchemaError:
            continue
        for value in Sampler(Random(seed), before, after).values(40):
            assert arithmetic.accepts(before, value) == arithmetic.accepts(after, value), (old, new, value)


@settings(max_examples=150, deadline=None)
@given(seeds)
def test_what_changed_one_way_changed_back_the_other(seed):
    old, new = made(seed)
    assert bool(schema_changes(old, new)) == bool(schema_changes(new, old))
