"""The memory of verified tokens is bounded and keeps no token."""

from __future__ import annotations

from broker.services.remembered import KEPT, Remembered


def test_what_was_kept_is_found_by_the_very_same_token_only():
    known: Remembered[int] = Remembered()
    known.keep("a.b.c", 1)
    assert known.get("a.b.c") == 1
    assert known.get("a.b.C") is None
    known.drop("a.b.c")
    assert known.get("a.b.c") is None


def test_the_oldest_goes_first_and_no_token_is_kept():
    known: Remembered[int] = Remembered()
    for number in range(KEPT + 10):
        known.keep(f"token-{number}", number)
    assert known.get("token-0") is None
    assert known.get("token-9") is None
    assert known.get("token-10") == 10
    assert "token-11" not in repr(vars(known))
