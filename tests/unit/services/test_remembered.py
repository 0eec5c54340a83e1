"""The memory of verified tokens is bounded and keeps no token."""

from __future__ import annotations

from broker.services.remembered import KEPT, KEPT_CHARACTERS, Remembered


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


def test_long_tokens_are_not_kept_beyond_a_size_of_all_together():
    known: Remembered[int] = Remembered()
    size = KEPT_CHARACTERS // 4
    tokens = [str(number) * size for number in range(6)]
    for number, token in enumerate(tokens):
        known.keep(token, number)
        known.keep(token, number)
    assert [known.get(token) for token in tokens] == [None, None, 2, 3, 4, 5]
    known.drop(tokens[5])
    known.keep(tokens[0], 0)
    assert [known.get(token) for token in tokens] == [0, None, 2, 3, 4, None]
