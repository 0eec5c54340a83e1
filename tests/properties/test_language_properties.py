"""Languages of patterns agree with the validator that decides at the gate, string by string."""

from __future__ import annotations

from functools import lru_cache

from broker.domain.contracts.contract import ContractError
from broker.domain.schema.answers import No, Unknown, Yes
from broker.domain.schema.patterns import Unportable, is_portable, parse_pattern
from broker.domain.schema.regular import (
    Language,
    any_text,
    char_set,
    complement,
    concatenation,
    difference,
    intersection,
    matches,
    member,
    nothing,
    of_length,
    one_of,
    repetition,
    text,
    union,
)
from broker.engines.schemas import compile_schema
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

_LETTERS = "abA1_-./ \n\u2028é\u0663"
_STRINGS = st.text(alphabet=_LETTERS, max_size=7)
_ATOMS = st.sampled_from(
    ["a", "b", "A", "1", "_", "-", r"\.", "/", " ", "é", "[ab]", "[^ab]", "[a-z]", "[A-Za-z0-9_]", "[^/]", r"[.\-/]", "[-a]",
     r"\d", r"\w", r"\s", r"\D", r"\W", r"\S", ".", r"\u0061", r"\x62", "[/.]", "(?:)", r"\n"]
)  # fmt: skip
_QUANTIFIERS = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "*?", "+?"])


def _groups(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    sequence = st.lists(inner, min_size=1, max_size=3).map("".join)
    return st.one_of(
        sequence,
        st.tuples(sequence, _QUANTIFIERS).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
        st.tuples(sequence, sequence, _QUANTIFIERS).map(lambda three: f"({three[0]}|{three[1]}){three[2]}"),
    )


def _quantified(pair: tuple[str, str]) -> str:
    return pair[0] + pair[1]


_BODIES = st.recursive(st.tuples(_ATOMS, _QUANTIFIERS).map(_quantified), _groups, max_leaves=8)
_PATTERNS = st.tuples(st.sampled_from(["", "^", "^"]), _BODIES, st.sampled_from(["", "$", "$"])).map("".join)
_ASSERTIONS = ["^", "$", "(?!a)", "(?=b)", r"(?!\.\.)", "(?!ab|b$)", "(?=[^/]*b)", "(?:^a|b)", "(?:a$|b)", "(?!^a)"]
_ASSERTED = st.recursive(
    st.one_of(
        st.tuples(st.sampled_from(["a", "b", "/", r"\.", "[ab]", "[^/]", "[a-z]"]), _QUANTIFIERS).map(_quantified),
        st.sampled_from([*_ASSERTIONS, "(?:(?!b)[a-z])*", r"(?:(?!\.\.)[a-z.])*$"]),
    ),
    _groups,
    max_leaves=7,
)


@lru_cache(maxsize=4096)
def _validator(pattern: str):
    try:
        return compile_schema({"type": "string", "pattern": pattern}, "").is_valid
    except ContractError:
        return None


_BUSY = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])


@_BUSY
@given(_PATTERNS, st.lists(_STRINGS, min_size=6, max_size=12))
def test_a_pattern_holds_the_strings_that_the_validator_accepts(pattern, strings):
    language, valid = parse_pattern(pattern), _validator(pattern)
    assume(valid is not None)
    assert not isinstance(language, Unportable), f"{pattern}: {language}"
    for string in strings:
        assert matches(language, string) == valid(string), (pattern, string)


@_BUSY
@given(_ASSERTED, st.lists(st.text(alphabet="ab/.", max_size=6), min_size=8, max_size=14))
def test_anchors_and_lookahead_mean_what_the_validator_takes_them_for(pattern, strings):
    language, valid = parse_pattern(pattern), _validator(pattern)
    assume(valid is not None and not isinstance(language, Unportable))
    for string in strings:
        assert matches(language, string) == valid(string), (pattern, string)


@_BUSY
@given(_PATTERNS, _PATTERNS, st.lists(_STRINGS, max_size=8))
def test_an_inclusion_is_never_claimed_wrongly(one, other, strings):
    old, new = parse_pattern(one), parse_pattern(other)
    in_one, in_other = _validator(one), _validator(other)
    assume(in_one is not None and in_other is not None)
    answer = difference(old, new)
    match answer:
        case Yes(witness):
            assert in_one(witness), (one, other, witness)
            assert not in_other(witness), (one, other, witness)
        case No():
            shown = member(old)
            found = [*strings, shown.witness] if isinstance(shown, Yes) else strings
            assert not [string for string in found if in_one(string) and not in_other(string)], (one, other)
        case Unknown():
            event("unknown")  # seldom: repetitions of what is ambiguous and may be empty


_SETS = st.sampled_from([char_set([(97, 99)]), char_set([(98, 98), (47, 47)]), char_set([(0, 0x10FFFF)])])
_LANGUAGES: st.SearchStrategy[Language] = st.recursive(
    st.one_of(
        _SETS.map(one_of),
        st.text(alphabet="abc/", max_size=2).map(text),
        st.sampled_from([nothing(), any_text(), of_length(1, 3), of_length(2, None)]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: union(*parts)),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: intersection(*parts)),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: concatenation(*parts)),
        inner.map(complement),
        st.tuples(inner, st.integers(0, 2), st.integers(0, 2)).map(
            lambda three: repetition(three[0], three[1], three[1] + three[2])
        ),
        st.tuples(inner, st.integers(0, 2)).map(lambda pair: repetition(pair[0], pair[1], None)),
    ),
    max_leaves=8,
)


@_BUSY
@given(_LANGUAGES, st.lists(st.text(alphabet="abc/é", max_size=4), min_size=4, max_size=8))
def test_derivatives_and_positions_give_the_same_answer(language, strings):
    for string in strings:
        inside = matches(language, string)
        assert isinstance(member(intersection(language, text(string))), Yes if inside else No), (language, string)
        assert matches(complement(language), string) is not inside
        assert inside is False or language.shortest <= len(string)
        assert inside is False or language.longest is None or len(string) <= language.longest


@_BUSY
@given(_LANGUAGES)
def test_a_witness_belongs_to_its_language(language):
    answer = member(language)
    if isinstance(answer, Yes):
        assert matches(language, answer.witness)
    else:
        assert isinstance(answer, No)
        assert not matches(language, "")


@given(_LANGUAGES, _LANGUAGES, _LANGUAGES, st.text(alphabet="abc/", max_size=4))
@settings(max_examples=300, deadline=None)
def test_set_laws_hold(one, two, three, string):
    here = [matches(language, string) for language in (one, two, three)]
    assert matches(union(one, two, three), string) == any(here)
    assert matches(intersection(one, two, three), string) == all(here)
    assert union(one, two) is union(two, one)
    assert intersection(one, two) is intersection(two, one)


@_BUSY
@given(st.tuples(st.just("^"), _BODIES, st.just("$")).map("".join))
def test_a_portable_pattern_is_read(pattern):
    if is_portable(pattern) is None and _validator(pattern) is not None:
        assert isinstance(parse_pattern(pattern), Language)
