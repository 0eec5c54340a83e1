"""The error page says of each reason and each failure what the code says of it, and leaves none out."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from broker.domain import errors
from broker.domain.errors import REASONS, BrokerError, Reason
from broker.http.errors import FAILURES, error_uri

PAGE = (Path(inspect.getfile(errors)).parents[1] / "docs" / "errors.md").read_text()
HEADED = re.findall(r"^##+ (\w+)\n(.*?)(?=\n##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
SECTIONS = {name: section.strip() for name, section in HEADED}
CLASSES = [
    made
    for _, made in inspect.getmembers(errors, inspect.isclass)
    if issubclass(made, BrokerError) and made is not BrokerError
]


@pytest.mark.parametrize("reason", list(Reason))
def test_a_reason_has_a_section_that_says_its_wire_when_it_comes_and_how_to_mend_it(reason: Reason) -> None:
    section, wire = SECTIONS[reason.value], REASONS[reason]
    assert section.startswith(f"`{wire.error}`, {wire.status}: {wire.says}.\n")
    assert re.search(r"^- When: \S.{10,}", section, re.MULTILINE)
    assert re.search(r"^- Mend: \S.{5,}", section, re.MULTILINE)


@pytest.mark.parametrize("failure", CLASSES, ids=lambda made: made.__name__)
def test_a_failure_has_a_section_and_its_class_says_when_wire_and_retry(failure: type[BrokerError]) -> None:
    section = SECTIONS[failure.__name__]
    assert re.search(r"^- When: \S.{10,}", section, re.MULTILINE)
    assert re.search(r"^- Mend: \S.{5,}", section, re.MULTILINE)
    words = inspect.getdoc(failure) or ""
    assert [heading for heading in ("Raised:", "Wire:", "Retry:") if heading not in words] == []


def test_the_page_describes_nothing_that_is_not_there() -> None:
    known = {reason.value for reason in Reason} | {made.__name__ for made in CLASSES} | {"server_error"}
    headings = re.findall(r"^### (\w+)$", PAGE, re.MULTILINE)
    assert set(headings) <= known
    assert len(headings) == len(set(headings))


def test_every_failure_that_goes_out_has_words_of_its_own() -> None:
    assert set(FAILURES) == {made.__name__ for made in CLASSES} - {"ConfigurationError"}


def test_an_error_uri_leads_to_a_section_of_the_page() -> None:
    for name in ("version_rolled_back", "StoreUnavailableError", "server_error"):
        page, _, anchor = error_uri("https://broker.example", name).partition("#")
        assert page == "https://broker.example/docs/errors"
        assert anchor in SECTIONS
