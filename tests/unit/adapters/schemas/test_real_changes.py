"""Every change of a real tool's input schema, in both views: no wrong claim, next to nothing undecided, in little time."""

from __future__ import annotations

import json
import time
from collections import Counter
from itertools import islice
from pathlib import Path

import jsonschema_rs
import pytest
from broker.adapters.schemas.arithmetic import open_arithmetic
from broker.domain.schema.answers import Answer, No, Relation, Unknown, Yes
from broker.domain.schema.closure import accepted_inputs, open_inputs
from broker.domain.schema.witness import candidates

CHANGES = Path(__file__).parents[5] / "shared" / "data" / "mcp_contract_pairs.jsonl"
VIEWS = {"open": open_inputs, "closed": accepted_inputs}
ATTACKS = 150
MAX_UNDECIDED = 0.01
MAX_MEDIAN_SECONDS = 0.010


def changes() -> list[tuple[str, dict, dict]]:
    if not CHANGES.is_file():
        pytest.skip("the folder ../shared/data is not here")
    lines = [json.loads(line) for line in CHANGES.read_text().splitlines()]
    both = [line for line in lines if line["old"].get("inputSchema") and line["new"].get("inputSchema")]
    return [(line["tool"], line["old"]["inputSchema"], line["new"]["inputSchema"]) for line in both]


def check(answer: Answer, one, other, tried: list) -> str:
    """One claim against a validator that shares nothing with ours but the library; how it was reached."""
    match answer:
        case Yes(witness):
            assert one(witness), witness
            assert not other(witness), witness
            return "witness"
        case No(by):
            assert [value for value in tried if one(value) and not other(value)] == []
            return by
        case Unknown(blockers):
            assert blockers
            assert all(blocker.why for blocker in blockers)
    return "undecided"


@pytest.mark.shared
@pytest.mark.parametrize("view", VIEWS)
def test_no_claim_about_a_real_change_is_wrong_and_next_to_none_is_missing(view, capsys):
    arithmetic = open_arithmetic(None)
    relations: Counter[str] = Counter()
    ways: Counter[str] = Counter()
    seconds: list[float] = []
    for _, before, after in changes():
        old, new = VIEWS[view](before), VIEWS[view](after)
        started = time.perf_counter()
        related = arithmetic.relate(old, new)
        seconds.append(time.perf_counter() - started)
        relations[related.relation] += 1
        in_old, in_new = (
            jsonschema_rs.Draft202012Validator(schema, offline=True, validate_formats=False).is_valid
            for schema in (old, new)
        )
        attacked = isinstance(related.lost, No) or isinstance(related.gained, No)
        tried = list(islice(candidates([old, new], limit=ATTACKS), ATTACKS)) if attacked else []
        ways[check(related.lost, in_old, in_new, tried)] += 1
        ways[check(related.gained, in_new, in_old, tried)] += 1
    arithmetic.close()
    seconds.sort()
    count = len(seconds)
    undecided = relations[Relation.UNDECIDED] / count
    with capsys.disabled():
        print(f"\n{view} view, {count} changes: {dict(relations)}; by {dict(ways)}; undecided {undecided:.2%}")
        print(
            f"  median {seconds[count // 2] * 1e3:.2f} ms, 99 % {seconds[count * 99 // 100] * 1e3:.1f} ms,"
            f" most {seconds[-1] * 1e3:.0f} ms, all {sum(seconds):.1f} s"
        )
    assert undecided <= MAX_UNDECIDED
    assert seconds[count // 2] <= MAX_MEDIAN_SECONDS


@pytest.mark.shared
def test_a_second_run_takes_its_answers_from_the_file(tmp_path, capsys):
    pairs = [(accepted_inputs(before), accepted_inputs(after)) for _, before, after in changes()[:300]]
    answers, seconds = [], []
    for _ in range(2):
        arithmetic = open_arithmetic(tmp_path)
        started = time.perf_counter()
        answers.append([arithmetic.relate(old, new) for old, new in pairs])
        seconds.append(time.perf_counter() - started)
        worker = arithmetic._prover.process_id
        arithmetic.close()
    with capsys.disabled():
        print(f"\n300 changes: first {seconds[0]:.2f} s, second {seconds[1]:.3f} s")
    assert answers[0] == answers[1]
    assert worker is None
    assert seconds[1] < 0.5
