"""What a request says about its client shows no secret, wherever it is printed."""

from __future__ import annotations

from broker.domain.tokens.client_auth import (
    AssertionText,
    Secret,
    decode_basic,
    parse_client_credentials,
    parse_header_credentials,
)


def test_neither_secret_nor_assertion_is_printed() -> None:
    form = {"client_id": "svc", "client_secret": "kanarie"}
    found = parse_client_credentials([], form)
    assert isinstance(found, Secret)
    assert found.secret == "kanarie"
    assert "kanarie" not in repr(found) + str(found)
    bearer = parse_header_credentials(["Bearer kanarie.kanarie.kanarie"])
    assert isinstance(bearer, AssertionText)
    assert bearer.unverified == "kanarie.kanarie.kanarie"
    assert "kanarie" not in repr(bearer) + str(bearer)


def test_basic_is_split_at_the_first_colon_then_each_half_is_decoded() -> None:
    assert decode_basic("YSUzQWI6YyUyQmQ=") == ("a:b", "c+d")
    assert decode_basic("YTpiOmM=") == ("a", "b:c")
    assert decode_basic("YStiOmMrZA==") == ("a b", "c d")


def test_what_has_no_one_reading_is_none() -> None:
    for text in (
        "",
        "YQ==",
        "Og==",
        "YTo=",
        "OmI=",
        "YTol",
        "YTolenk=",
        "YTolZmY=",
        "/zp4",
        "YTpi\n",
        "YTpi=",
        "YT pi",
    ):
        assert decode_basic(text) is None, text


def test_a_header_without_a_form_is_basic_or_an_assertion() -> None:
    assert parse_header_credentials(["basic YTpi"]) == Secret(client="a", secret="b", method="client_secret_basic")  # type: ignore[arg-type]
    assert parse_header_credentials(["BEARER  x.y.z"]) == AssertionText(unverified="x.y.z", client=None)
