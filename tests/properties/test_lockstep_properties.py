"""Lockstep by chance: modes of a tool and the scopes that they need. Both sides together pass, either half alone does not."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from broker.adapters.schemas.arithmetic import open_arithmetic
from broker.services.checking import PolicyChecker
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rules_parts import Rules, inputs, needs, said, task, version

MODES = ("list", "read", "write", "append", "move", "drop")
SETTINGS = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.fixture(scope="module")
def rules() -> Iterator[Rules]:
    arithmetic = open_arithmetic(None)
    with tempfile.TemporaryDirectory() as folder:
        yield Rules(PolicyChecker(arithmetic), Path(folder))
    arithmetic.close()


modes = st.lists(st.sampled_from(MODES), min_size=2, unique=True)


def reached(kept: list[str], scopes: dict[str, set[str]]) -> dict[str, set[str]]:
    return {name: asked for name, asked in scopes.items() if asked & set(kept)}


def made(kept: list[str], scopes: dict[str, set[str]]) -> dict[str, Any]:
    conditions = {name: needs("mode", *sorted(asked)) for name, asked in sorted(scopes.items())}
    return version(inputs(["mode"], mode=kept), scopes={"tool:use": True, **conditions})


@SETTINGS
@given(data=st.data(), all_modes=modes)
def test_only_both_halves_together_are_lawful(rules: Rules, data: st.DataObject, all_modes: list[str]) -> None:
    some = st.sets(st.sampled_from(all_modes), min_size=1)
    kept = data.draw(st.lists(st.sampled_from(all_modes), min_size=1, max_size=len(all_modes) - 1, unique=True))
    dropped = sorted(set(all_modes) - set(kept))
    scopes = data.draw(st.dictionaries(st.sampled_from(["tool:b", "tool:c"]), some))
    scopes["tool:a"] = data.draw(st.sets(st.sampled_from(dropped), min_size=1))  # so that something is out of reach
    old = made(all_modes, scopes)

    assert said(rules.step(old, made(kept, reached(kept, scopes)))) == set()
    tightened = {rule for rule, _ in said(rules.step(old, made(kept, scopes)))}
    assert tightened >= {"lockstep.scope-kept", "lockstep.alone"}
    cut = {rule for rule, _ in said(rules.step(old, made(all_modes, reached(kept, scopes))))}
    assert cut >= {"lockstep.schema-kept", "lockstep.alone"}


@SETTINGS
@given(data=st.data(), all_modes=modes)
def test_what_a_task_grants_does_not_grow_unseen(rules: Rules, data: st.DataObject, all_modes: list[str]) -> None:
    conditions = {f"tool:{mode}": needs("mode", mode) for mode in all_modes}
    names = sorted(conditions)
    granted = st.lists(st.sampled_from(names), min_size=1, unique=True)
    before, after = data.draw(granted), data.draw(granted)
    schema = inputs(["mode"], mode=all_modes)
    everything = task(*names)
    old = version(schema, scopes=conditions, tasks={"all": everything, "work": task(*before)})
    new = version(schema, scopes=conditions, tasks={"all": everything, "work": task(*after)})
    found = {key for rule, key in said(rules.step(old, new)) if rule == "scope.widened"}
    assert found == {f"work/{name}" for name in set(after) - set(before)}
