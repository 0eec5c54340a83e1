"""Whatever is done to a signed token, it is no longer that token."""

from __future__ import annotations

from broker.domain.errors import Refusal
from broker.domain.tokens.keys import KeySet
from broker.domain.tokens.verify import Expectation, VerifiedClaims, verify_claims
from broker.engines.jwk import generate_private_key, parse_jwks, public_jwk
from broker.engines.jws import decode_base64url, encode_base64url, read_unverified, sign, verify
from hypothesis import given
from hypothesis import strategies as st

PRIVATE = generate_private_key("ES256")
FOUND = parse_jwks({"keys": [public_jwk(PRIVATE, algorithm="ES256")]})
assert isinstance(FOUND, KeySet)
(KEY,) = FOUND.keys
TOKEN = sign({"typ": "at+jwt"}, {"iss": "i", "sub": "s"}, PRIVATE, algorithm="ES256")
JSON = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text(), max_size=2)


@given(st.binary(max_size=100))
def test_base64url_comes_back(data: bytes) -> None:
    assert decode_base64url(encode_base64url(data).decode()) == data


@given(st.text(st.sampled_from("AQgwEIB-_+/=.\n é"), max_size=9))
def test_only_one_text_stands_for_some_bytes(text: str) -> None:
    decoded = decode_base64url(text)
    assert decoded is None or encode_base64url(decoded).decode() == text


@given(st.integers(0, len(TOKEN) - 1), st.characters(codec="ascii"))
def test_a_token_with_one_character_changed_is_refused(place: int, character: str) -> None:
    bent = TOKEN[:place] + character + TOKEN[place + 1 :]
    unverified = read_unverified(bent)
    if bent != TOKEN and not isinstance(unverified, Refusal):
        assert isinstance(verify(unverified, KEY), Refusal)


@given(st.dictionaries(st.sampled_from(["iss", "sub", "aud", "exp", "iat", "nbf", "jti"]), JSON))
def test_any_claims_are_judged_and_never_break_the_judge(claims: dict[str, object]) -> None:
    expectation = Expectation("i", ("a",), leeway_seconds=10, max_lifetime_seconds=300)
    assert isinstance(verify_claims(claims, expectation, now=1_000), Refusal | VerifiedClaims)  # type: ignore[arg-type]
