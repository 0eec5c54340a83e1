"""What is spelled as YAML reads back as itself, in our reader and in PyYAML, and no text leaves its line."""

from __future__ import annotations

import yaml
from broker.adapters.policyfile.document import read_document
from broker.domain.policy.located import Problems, plain
from broker.domain.policy.spelling import in_comment, quoted, spell
from hypothesis import given
from hypothesis import strategies as st

ODD = "yes No null ~ 1.10 0x1F {a} a:b http://a:1/b a: << *a &a !a = - ? % @ ` a#b"
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=40) | st.sampled_from((*ODD.split(), "a: b", "a #b"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | TEXT,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(TEXT.filter(lambda name: name != "<<"), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_a_value_reads_back_as_itself(value) -> None:
    text = f"key: {spell(value)} # {in_comment('a comment')}\n"
    problems = Problems()
    root = read_document(text.encode(), file="x.yaml", problems=problems)
    assert problems.found == []
    assert root is not None
    assert plain(root) == {"key": value}
    assert yaml.safe_load(text) == {"key": value}


@given(TEXT)
def test_quoted_text_is_text_whatever_it_looks_like(text) -> None:
    assert yaml.safe_load(f"- {quoted(text)}\n") == [text]


@given(st.text(max_size=400))
def test_a_comment_stays_on_its_line_and_shows_what_it_says(text) -> None:
    said = in_comment(text)
    assert said.isprintable()
    assert len(said) <= 201
    assert yaml.safe_load(f"a: 1 # {said}\nb: 2\n") == {"a": 1, "b": 2}


@given(st.floats() | st.integers(min_value=2**53) | st.text(st.characters(categories=("Cs",)), min_size=1))
def test_what_policy_files_do_not_hold_has_no_spelling(value) -> None:
    assert spell({"a": [value]}) is None
