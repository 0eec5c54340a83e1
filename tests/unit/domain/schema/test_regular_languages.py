"""Languages of patterns: what belongs, what lies within what, and what stays unknown in bounded work."""

from __future__ import annotations

import time

import pytest
from broker.domain.schema.answers import No, Unknown, Yes
from broker.domain.schema.patterns import Unportable, is_portable, parse_pattern
from broker.domain.schema.regular import (
    Language,
    any_text,
    char_set,
    characters,
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


def _language(pattern: str) -> Language:
    read = parse_pattern(pattern)
    assert isinstance(read, Language), f"{pattern}: {read}"
    return read


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        ("^[a-z]+$", "^[a-z0-9]+$"),
        ("^[a-z]{1,5}$", "^[a-z]{0,64}$"),
        ("^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", "^[a-z0-9-]{1,63}$"),
        ("^[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*$", "^[A-Za-z0-9_/-]+$"),
        ("^https://[a-z0-9.-]+(/[!-~]*)?$", "^https?://[!-~]+$"),
        ("^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", "^[0-9a-f-]{36}$"),
        ("^docs/[a-z]+$", "^docs/"),
        ("^abc$", "abc"),
        ("^(a|ab)(c|bcd)$", "^(ac|abcd|abc|abbcd)$"),
        ("^(?![/])[a-z/]+$", "^[a-z][a-z/]*$"),
        ("^(?!.*x)[a-z]+$".replace(".", "[a-z]"), "^[a-wyz]+$"),
    ],
)
def test_a_narrower_pattern_lies_within_the_wider_one(narrow, wide):
    assert difference(_language(narrow), _language(wide)) == No("languages")
    answer = difference(_language(wide), _language(narrow))
    if isinstance(answer, Yes):
        assert matches(_language(wide), answer.witness)
        assert not matches(_language(narrow), answer.witness)
    else:
        assert answer == No("languages")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("^[0-9][0-9]*$", "^[0-9]+$"),
        ("^(a*)*$", "^a*$"),
        ("^(?:a|b)+$", "^[ab]+$"),
        ("^(a?){3}$", "^a{0,3}$"),
        ("^a{2,3}a{0,1}$", "^a{2,4}$"),
        ("^(?=a)[a-z]$", "^a$"),
        ("^(?:(?!b)[a-c])*$", "^[ac]*$"),
        (r"^(?:(?!\.\.)[a-z.])*$", r"^(?![a-z.]*\.\.)[a-z.]*$"),
        ("^(^a|b)$", "^[ab]$"),
        ("^a$|^b$", "^[ab]$"),
        (r"^\u0061\x62$", "^ab$"),
        ("^a+?$", "^a+$"),
        ("^(?<name>a)$", "^a$"),
        ("a|", ""),
    ],
)
def test_patterns_of_the_same_meaning_are_equal(one, other):
    assert difference(_language(one), _language(other)) == No("languages")
    assert difference(_language(other), _language(one)) == No("languages")


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("docs", ["docs", "my docs/"], ["doc", ""]),
        ("^docs/", ["docs/", "docs/../x"], ["a/docs/"]),
        ("s$", ["docs"], ["docs/", "s\n"]),
        (r"^\d+$", ["12"], ["\u0663", ""]),
        (r"^\w$", ["_"], ["é"]),
        (r"^\s$", ["\ufeff", "\xa0"], ["\x85", "\x1c"]),
        ("^.$", ["\x85", "\U0001f600"], ["\n", "\r", "\u2028"]),
        ("^[^a]$", ["\n", "\U0001f600"], ["a", "bb"]),
        ("^[a&&b[]$", ["&", "["], ["c"]),
        ("$.^", [], ["", "a", "\n"]),
    ],
)
def test_a_pattern_holds_what_ecma_says(pattern, inside, outside):
    language = _language(pattern)
    assert [matches(language, string) for string in inside] == [True] * len(inside)
    assert [matches(language, string) for string in outside] == [False] * len(outside)


@pytest.mark.parametrize(
    ("pattern", "why", "position"),
    [
        (r"^(a)\1$", "backreference", 4),
        (r"^(?<=a)b$", "lookbehind", 1),
        (r"\bword", r"`\b`", 0),
        (r"^\p{L}+$", r"`\p`", 1),
        ("(?i)a", "kind", 0),
        (r"^\ud83d\ude00$", "surrogate", 7),
        ("a**", "repetition of a repetition", 2),
        ("^a{3,1}$", "out of order", 2),
        ("^[z-a]$", "out of order", 5),
        (r"^[\w-.]$", "range", 6),
        ("^[]a]$", "empty class", 2),
        ("^(a$", "not closed", 4),
        ("^a)$", "closes nothing", 2),
        ("^[a", "not closed", 3),
        ("^a{$", "stray", 2),
        ("^a\\", "`\\`", 2),
        (r"^(?!a)\d+$", r"`\d`", 6),
        ("^(?:(?!ab)[a-z])*c$", "assertion inside a repetition", 0),
        ("a" * 5_001, "longer than", 0),
        ("(" * 50 + ")" * 50, "deeper than", 41),
        ("a{9999999999}", "digits", 1),
    ],
)
def test_what_is_not_read_says_why_and_where(pattern, why, position):
    read = parse_pattern(pattern)
    assert isinstance(read, Unportable)
    assert why in read.why
    assert read.position == position
    assert read.keyword == "pattern"


@pytest.mark.parametrize(
    "pattern",
    ["^[a-z]+$", r"^[A-Za-z0-9._\-]{1,64}$", "^a$|^b$", "^(?:^docs/)$", r"^docs/[a-z]+(\.[a-z]+)?$", "^(GET|POST)$", "^$", r"^\t$"],
)  # fmt: skip
def test_a_portable_pattern_may_carry_a_decision(pattern):
    assert is_portable(pattern) is None


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("docs", "anchored by `^`"),
        ("^docs", "anchored by `$`"),
        ("^a|b$", "anchored by `^`"),
        (r"^\d+$", r"`\d`"),
        (r"^[\w-]+$", r"`\w`"),
        ("^.*$", "`.`"),
        ("^(?!a)[a-z]+$", "lookahead"),
        (r"^(a)\1$", "backreference"),
        ("^(?<n>a)$", "named group"),
        ("^a+?$", "lazy"),
        (r"^\u0041$", r"`\u`"),
        ("^[[]$", "operator"),
        ("^[!--]$", "operator"),
        ("^[a&&b]$", "operator"),
        (r"^\_$", r"`\_`"),
    ],
)
def test_a_pattern_that_validators_read_differently_may_not(pattern, why):
    assert why in str(is_portable(pattern))


def test_a_witness_is_a_shortest_string_and_readable():
    assert member(_language("^[!-~\x00-\x1f]{3}$")) == Yes("aaa")
    assert difference(_language("^docs/.*$"), _language(r"^docs/[a-z]+$")) == Yes("docs/")
    assert member(intersection(_language("^docs/.*$"), _language(r"(^|/)\.\.(/|$)"))) == Yes("docs/..")
    assert member(one_of(char_set([(0, 31), (0x1F600, 0x1F600)]))) == Yes("\U0001f600")


def test_equal_languages_are_one_object():
    assert union(text("a"), text("b")) is one_of(characters("ab"))
    assert complement(complement(text("a"))) is text("a")
    assert intersection(of_length(1, 5), of_length(3, None)) is of_length(3, 5)
    assert concatenation(any_text(), any_text()) is any_text()
    assert repetition(repetition(text("ab"), 0, 3), 2, 4) is repetition(text("ab"), 0, 12)
    assert complement(of_length(2, 4)) is union(of_length(0, 1), of_length(5, None))
    assert intersection(text("a"), of_length(2, 3)) is nothing()


def test_surrogates_are_in_no_language():
    assert not matches(any_text(), "\ud800")
    assert text("a\ud800") is nothing()
    assert member(one_of(char_set([(0xD800, 0xDFFF)]))) == No("languages")


def test_high_bounds_are_compared_without_counting():
    assert difference(_language("^[a-z]{1,100000}$"), of_length(0, 10**9)) == No("languages")
    assert difference(_language("^a{1,100000}b$"), _language("^[ab]{1,200000}$")) == No("languages")
    assert difference(_language("^((a{1000}){1000})$"), _language("^a*$")) == No("languages")
    assert difference(_language("^x[a-z]{0,100000}$"), of_length(0, 100_001)) == No("languages")


_WIDE_CLASS = "[" + "".join(map(chr, range(0x100, 0x1200, 2))) + "]{1,300}x"
_HOSTILE = [
    "^(a|b|ab)*c{3,70000}$",
    ".*a.{40}b",
    "^(([a-z])+.)+[A-Z]([a-z])+$",
    "((a{1,50}){1,50}){1,50}b",
    "(x+x+)+y",
    "^(?:" + "|".join(f"{n:x}z*" for n in range(700)) + ")*$",
    "a" * 5_000,
    "^" + "a?" * 2_400 + "b$",
    "^" + "(?:" * 39 + "a|b" + ")*" * 39 + "$",
    "^" + "(a*b*c*)*" * 400 + "$",
    "(?=" * 30 + "a" + ")" * 30,
    "^(?:(?=a|^b)a?){8}" * 6,
    _WIDE_CLASS,
    "^(((a{0,1000}){0,1000}){0,1000}b){0,1000}$",
]


@pytest.mark.parametrize("hostile", _HOSTILE, ids=range(len(_HOSTILE)))
def test_a_hostile_pattern_is_answered_or_unknown_in_bounded_work(hostile):
    start = time.process_time()
    language = parse_pattern(hostile)
    if isinstance(language, Language):
        for other in (_language("^[ab]*a[ab]{15}$"), _language("^[a-z0-9]{1,3000}$"), language):
            for answer in (difference(language, other), difference(other, language)):
                assert isinstance(answer, Yes | No | Unknown)
                if isinstance(answer, Unknown):
                    assert answer.blockers[0].keyword == "pattern"
        matches(language, "ab" * 100)
    assert time.process_time() - start < 5


def test_more_steps_decide_what_fewer_leave_unknown():
    one, other = _language("^[ab]*a[ab]{8}$"), _language("^[ab]*b[ab]{8}$")
    assert isinstance(difference(one, other, steps=20), Unknown)
    assert isinstance(difference(one, other, steps=50_000), Yes)
