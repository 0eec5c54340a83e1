"""Replaying the logs of several processes gives one state, whatever the order in which they wrote, or are read."""

from __future__ import annotations

from typing import Any

from broker.domain.audit.replay import Merged, Replayed, lacking, merge, replay, settled
from hypothesis import given
from hypothesis import strategies as st

VERSIONS = ("3", "4")
STATES = ("canary", "stable", "deprecated", "rolled_back", "retired")
DEAD = ("rolled_back", "retired")


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[list[Any]], list[Any]]:
    """One store's steps over several gens; each is written by one of three processes, and heard by some of the others."""
    logs: list[list[Any]] = [[], [], []]
    steps: list[Any] = []
    gen, seq = 1_000, 0
    for _ in range(draw(st.integers(1, 12))):
        actor = draw(st.integers(0, 2))
        if draw(st.integers(0, 5)) == 0:
            gen, seq = gen + draw(st.integers(1, 9)), seq + 1_000
            logs[actor].append({"v": 1, "type": "gen.claim", "gen": gen, "seq": seq})
            for log in logs:  # who adopts it hears what it holds
                held = merge([replay(steps)]).state
                log.append(_heard(gen, seq, list(held.versions.values()), held.marks))
            continue
        seq += 1
        number, state = draw(st.sampled_from(VERSIONS)), draw(st.sampled_from(STATES))
        after = {"tool": "t", "version": number, "state": state, "seq": seq}
        revoked = [f"version:t@{number}"] if state in DEAD else []
        if draw(st.integers(0, 7)) == 0:
            revoked.append(draw(st.sampled_from(["all", "client:c", "key:k"])))
        own = {"v": 1, "type": "version.x", "gen": gen, "gseq": seq, "seq": seq, "records": [after], "revoked": revoked}
        steps.append(own)
        logs[actor].append(own)
        for other in draw(st.sets(st.sampled_from([n for n in range(3) if n != actor]))):
            logs[other].append(_heard(gen, seq, [after], dict.fromkeys(revoked, seq)))
    return logs, steps


def _heard(gen: int, seq: int, records: list[Any], marks: Any) -> Any:
    return {"v": 1, "type": "heard", "gen": gen, "seq": seq, "records": records, "marks": dict(marks)}


def _said(state: Replayed) -> tuple[Any, ...]:
    return state.gen, state.seq, state.versions, state.marks


@given(histories(), st.randoms(use_true_random=False))
def test_the_order_of_logs_and_of_records_in_them_makes_no_difference(
    made: tuple[list[list[Any]], list[Any]], chance: Any
) -> None:
    logs, _ = made
    straight = merge([replay(log) for log in logs])
    chance.shuffle(logs)
    for log in logs:
        chance.shuffle(log)
    assert _said(merge([replay(log) for log in logs]).state) == _said(straight.state)


@given(histories())
def test_the_logs_together_say_what_the_store_went_through(made: tuple[list[list[Any]], list[Any]]) -> None:
    logs, steps = made
    together, truth = merge([replay(log) for log in logs]), replay(steps)
    assert together.state.versions == truth.versions
    assert together.state.marks == truth.marks
    assert not together.contested


@given(histories())
def test_one_log_is_enough_for_what_it_heard_and_takes_nothing_back(made: tuple[list[list[Any]], list[Any]]) -> None:
    logs, steps = made
    truth = replay(steps)
    for log in logs:
        state = replay(log)
        assert all(mark <= truth.marks[scope] for scope, mark in state.marks.items())
        both = merge([state, truth])
        assert both.state.versions == truth.versions
        assert lacking(truth, both.state) == ([], {})


@given(histories(), histories())
def test_of_two_stores_that_went_apart_no_last_rollback_is_lost(
    one: tuple[list[list[Any]], list[Any]], other: tuple[list[list[Any]], list[Any]]
) -> None:
    """Two histories from one beginning, neither of which knows of the other; put together they keep every last death."""
    later = [{**step, "gen": step["gen"] + 500} for step in other[1]]
    mine, theirs = replay(one[1]), replay(later)
    merged = merge([mine, theirs])
    assert _said(merged.state) == _said(merge([theirs, mine]).state)
    for side, against in ((mine, theirs), (theirs, mine)):
        for name, record in side.versions.items():
            mark = side.marks.get(f"version:{name}", 0)
            blind = max(against.marks.get(f"version:{name}", 0), against.marks.get("all", 0)) < mark
            if record["state"] in DEAD and blind:
                assert merged.state.versions[name]["state"] in DEAD
    _put_in_place_it_is_settled(merged, mine, theirs)


def _put_in_place_it_is_settled(merged: Merged, *states: Replayed) -> None:
    put = settled(merged, gen=9_000, seq=merged.state.seq + 1_000)
    told = replay([_heard(9_000, put.seq, list(put.versions.values()), put.marks)])
    again = merge([*states, told])
    assert again.state.versions == put.versions
    assert not again.contested
