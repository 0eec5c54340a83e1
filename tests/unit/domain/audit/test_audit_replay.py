"""What the log says the store must hold: the newest state of each version, and the greatest mark of each scope."""

from __future__ import annotations

from typing import Any

import pytest
from broker.domain.audit.replay import Replayed, lacking, living, merge, replay, settled


def change(number: str, state: str, seq: int, *, gen: int = 1, gseq: int = 1, revoked: tuple[str, ...] = ()) -> Any:
    after = {"tool": "db.query", "version": number, "state": state, "seq": seq}
    return {
        "v": 1,
        "type": "version.x",
        "gen": gen,
        "gseq": gseq,
        "seq": seq,
        "records": [after],
        "revoked": list(revoked),
    }


def claim(gen: int, seq: int) -> Any:
    return {"v": 1, "type": "gen.claim", "gen": gen, "seq": seq, "previous_gen": 0, "run_id": "f", "reason": ""}


def states(*records: Any) -> dict[str, object]:
    return {name: record["state"] for name, record in replay(records).versions.items()}


def test_an_empty_log_says_nothing() -> None:
    state = replay([])
    assert (state.gen, state.seq, state.gseq, state.versions, state.marks) == (0, 0, 0, {}, {})


def test_the_newest_state_of_each_version_counts() -> None:
    assert states(change("3", "stable", 1), change("4", "canary", 2), change("4", "rolled_back", 3)) == {
        "db.query@3": "stable",
        "db.query@4": "rolled_back",
    }


def test_a_record_that_was_written_late_takes_nothing_back() -> None:
    assert states(change("4", "rolled_back", 3), change("4", "canary", 2)) == {"db.query@4": "rolled_back"}


def test_of_the_marks_of_a_scope_the_greatest_counts_whatever_their_order() -> None:
    first = change("4", "rolled_back", 3, revoked=("version:db.query@4",))
    second = change("4", "rolled_back", 9, revoked=("version:db.query@4",))
    for order in ([first, second], [second, first]):
        state = replay(order)
        assert state.marks == {"version:db.query@4": 9}
        assert state.seq == 9


def test_a_revocation_marks_every_scope_that_it_names() -> None:
    record = {"v": 1, "type": "revoke", "gen": 1, "gseq": 4, "seq": 5, "revoked": ["all", "client:svc"]}
    assert replay([record]).marks == {"all": 5, "client:svc": 5}


def test_a_step_recovered_from_the_outbox_counts_as_the_record_that_was_lost() -> None:
    intent = change("4", "rolled_back", 0, gen=0, gseq=0, revoked=("version:db.query@4",))
    intent["records"][0]["seq"] = 3
    record = {"v": 1, "type": "recover", "gen": 2, "gseq": 8, "seq": 3, "intent": intent}
    state = replay([change("4", "canary", 2), record])
    assert state.versions["db.query@4"]["state"] == "rolled_back"
    assert (state.gen, state.gseq, state.seq, state.marks) == (2, 8, 3, {"version:db.query@4": 3})


def test_a_recovered_mint_moves_the_counters_alone() -> None:
    record = {"v": 1, "type": "recover", "gen": 2, "gseq": 8, "seq": 3, "intent": {"type": "mint", "jti": "j"}}
    state = replay([record])
    assert (state.gen, state.gseq, state.seq, state.versions, state.marks) == (2, 8, 3, {}, {})


def test_a_recovered_step_that_nobody_can_read_is_passed_over_but_counted() -> None:
    record = {"v": 1, "type": "recover", "gen": 2, "gseq": 8, "seq": 3, "intent": {"unreadable": "…"}}
    assert replay([record]).seq == 3


def test_the_greatest_claim_counts_and_its_steps_are_numbered_anew() -> None:
    state = replay([claim(5, 1_000), change("4", "canary", 1_001, gen=5, gseq=7), claim(9, 2_000)])
    assert (state.gen, state.seq, state.gseq) == (9, 2_000, 0)
    late = replay([claim(9, 2_000), change("4", "canary", 1_001, gen=5, gseq=7)])
    assert (late.gen, late.seq, late.gseq) == (9, 2_000, 0)


@pytest.mark.parametrize("fmt", [2, None, "1"])
def test_a_format_that_is_not_known_is_not_guessed_at(fmt: Any) -> None:
    with pytest.raises(ValueError, match="format"):
        replay([{**claim(1, 1), "v": fmt}])


def heard(gen: int, seq: int, *records: Any, marks: dict[str, int] | None = None) -> Any:
    return {"v": 1, "type": "heard", "gen": gen, "seq": seq, "records": list(records), "marks": marks or {}}


def version(number: str, state: str, seq: int) -> Any:
    return {"tool": "db.query", "version": number, "state": state, "seq": seq}


def state_of(merged: Any, number: str = "4") -> tuple[object, object]:
    record = merged.state.versions[f"db.query@{number}"]
    return record["state"], record["seq"]


V4 = "version:db.query@4"


def test_what_was_heard_counts_at_its_own_sequence() -> None:
    state = replay([heard(5, 40, version("4", "rolled_back", 31), marks={V4: 31, "all": 12})])
    assert (state.gen, state.seq, state.marks) == (5, 40, {V4: 31, "all": 12})
    assert (
        replay([heard(5, 40, version("4", "canary", 30)), change("4", "stable", 29)]).versions["db.query@4"]["seq"]
        == 30
    )


def test_what_was_heard_late_takes_nothing_back() -> None:
    known = [
        change("4", "rolled_back", 31, gen=5, revoked=(V4,)),
        heard(5, 30, version("4", "canary", 30), marks={V4: 9}),
    ]
    assert replay(known).versions["db.query@4"]["state"] == "rolled_back"
    assert replay(known).marks == {V4: 31}


def test_a_rollback_that_one_of_two_logs_heard_of_counts_for_both() -> None:
    ours = replay([claim(5, 1_000), change("4", "canary", 1_001, gen=5)])
    theirs = replay([claim(5, 1_000), heard(5, 1_002, version("4", "rolled_back", 1_002), marks={V4: 1_002})])
    for states in ([ours, theirs], [theirs, ours]):
        merged = merge(states)
        assert state_of(merged) == ("rolled_back", 1_002)
        assert merged.state.marks == {V4: 1_002}
        assert merged.contested == frozenset()


def test_a_store_that_was_moved_on_without_knowing_of_a_rollback_does_not_undo_it() -> None:
    """A rolled back and died, the store lost it; B claimed without A and promoted the version."""
    of_a = replay(
        [claim(5, 1_000), change("4", "canary", 1_001, gen=5), change("4", "rolled_back", 1_002, gen=5, revoked=(V4,))]
    )
    of_b = replay([claim(5, 1_000), heard(5, 1_001, version("4", "canary", 1_001)), claim(7, 2_001)])
    moved_on = replay([heard(7, 2_002, version("4", "stable", 2_002))])
    for states in ([of_a, of_b, moved_on], [moved_on, of_b, of_a]):
        merged = merge(states)
        assert state_of(merged) == ("rolled_back", 1_002)
        assert merged.contested == {"db.query@4"}
        put = settled(merged, gen=9, seq=3_002)
        assert put.versions["db.query@4"] == version("4", "rolled_back", 3_002)
        again = merge([of_a, of_b, moved_on, replay([heard(9, 3_002, *put.versions.values(), marks=put.marks)])])
        assert state_of(again) == ("rolled_back", 3_002)
        assert again.contested == frozenset()


def test_a_canary_that_came_back_after_its_rollback_stays_whoever_missed_either() -> None:
    rolled_back = change("4", "rolled_back", 1_002, gen=5, revoked=(V4,))
    back = change("4", "canary", 1_003, gen=5)
    one, other = replay([claim(5, 1_000), rolled_back]), replay([claim(5, 1_000), back])
    for states in ([one, other], [other, one]):  # in one gen, who moved it later had seen it as it was before
        assert state_of(merge(states)) == ("canary", 1_003)
        assert merge(states).contested == frozenset()
    informed = replay([heard(7, 2_003, version("4", "canary", 2_003), marks={V4: 1_002})])
    compacted = replay([heard(7, 2_003, version("4", "canary", 2_003), marks={"all": 1_900})])
    assert state_of(merge([one, informed])) == ("canary", 2_003)
    assert state_of(merge([one, compacted])) == ("canary", 2_003)


def test_marks_that_everything_covers_say_nothing_but_those_of_keys_stay() -> None:
    assert living({"all": 9, V4: 9, "client:svc": 10, "key:k": 1}) == {"all": 9, "client:svc": 10, "key:k": 1}
    assert living({V4: 2}) == {V4: 2}


def test_what_a_state_lacks_is_what_it_does_not_say_by_itself() -> None:
    wanted = Replayed(
        versions={"db.query@4": version("4", "stable", 3)}, marks={"all": 9, "tool:t": 4, "key:k": 1, "client:c": 11}
    )
    assert lacking(Replayed(), wanted) == ([version("4", "stable", 3)], {"all": 9, "key:k": 1, "client:c": 11})
    has = Replayed(versions=dict(wanted.versions), marks={"all": 12, "key:k": 1})
    assert lacking(has, wanted) == ([], {})
    assert lacking(wanted, wanted) == ([], {})
