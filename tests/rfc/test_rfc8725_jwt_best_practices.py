"""RFC 8725 §3 and RFC 7519 §4.1 over the vectors: what was seen to go wrong elsewhere has its stated outcome here."""

from __future__ import annotations

from typing import Any

import pytest
from broker.domain.tokens.verify import Expectation, VerifiedClaims
from jwt_cases import CREDENTIAL, SUBJECT_TOKEN, VECTORS, judge, key_set, make_token, verdict


@pytest.mark.parametrize("expectation", [SUBJECT_TOKEN, CREDENTIAL], ids=["subject token", "credential"])
@pytest.mark.parametrize("case", VECTORS["tokens"], ids=lambda case: case["name"])
def test_a_token_has_its_stated_outcome(case: dict[str, Any], expectation: Expectation) -> None:
    assert verdict(judge(make_token(case), key_set(case), expectation)) == case["expect"]


def test_the_base_token_is_accepted_with_what_it_says() -> None:
    outcome = judge(make_token({}), key_set({}), SUBJECT_TOKEN)
    assert isinstance(outcome, VerifiedClaims)
    assert (outcome.subject, outcome.audience, outcome.jti) == ("alice", "https://tools.example/mcp", "j-1")
    assert outcome.expires_at - outcome.issued_at == 60


def test_every_vector_names_its_source() -> None:
    assert all(case["source"].startswith("https://") for case in VECTORS["tokens"])


def test_a_fraction_of_a_second_is_rounded_down() -> None:
    outcome = judge(make_token({"claims": {"exp": "$NOW+60.9"}}), key_set({}), SUBJECT_TOKEN)
    assert isinstance(outcome, VerifiedClaims)
    assert outcome.expires_at - outcome.issued_at == 60
