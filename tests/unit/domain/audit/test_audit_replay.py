"""What the log says the store must hold: the newest state of each version, and the greatest mark of each scope."""

from __future__ import annotations

from typing import Any

import pytest
from broker.domain.audit.replay import replay


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
