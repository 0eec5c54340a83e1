"""The reference pages as the broker serves them: Markdown, and to a browser the same with targets to lead to."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker.domain.errors import Reason
from broker.http import pages
from broker.http.errors import FAILURES, error_uri
from fastapi import FastAPI
from fastapi.testclient import TestClient

DOCS = Path(pages.__file__).parents[1] / "docs"
BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    app = FastAPI(docs_url=None)
    app.include_router(pages.router)
    with TestClient(app) as made:
        yield made


def targets(page: str) -> set[str]:
    return set(re.findall(r' id="([^"]+)"', page))


@pytest.mark.parametrize("name", sorted(file.stem for file in DOCS.glob("*.md")))
def test_a_page_is_its_text_and_to_a_browser_the_same_text(client: TestClient, name: str) -> None:
    written = (DOCS / f"{name}.md").read_text()
    plain = client.get(f"/docs/{name}")
    assert (plain.headers["content-type"], plain.text) == ("text/plain; charset=utf-8", written)
    shown = client.get(f"/docs/{name}", headers=BROWSER)
    assert shown.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in shown.headers["content-security-policy"]
    body = shown.text.partition("<pre>")[2].partition("</pre>")[0]
    read = html.unescape(re.sub(r"<[^>]*>", "", body))
    assert read == re.sub(r"\[([^\]\n]+)\]\([a-z.-]+\.md(#[a-z0-9_-]+)?\)", r"\1", written)


@pytest.mark.parametrize("name", [*(reason.value for reason in Reason), *FAILURES, "server_error"])
def test_an_error_uri_leads_a_browser_to_its_section(client: TestClient, name: str) -> None:
    path, _, fragment = error_uri("", name).partition("#")
    assert fragment in targets(client.get(path, headers=BROWSER).text)


def test_a_link_leads_to_a_page_and_a_target_that_are_there(client: TestClient) -> None:
    links = [
        link
        for name in pages.names()
        for link in re.findall(r'href="([^"]+)"', client.get(f"/docs/{name}", headers=BROWSER).text)
    ]
    assert links
    for link in links:
        path, _, fragment = link.partition("#")
        page = client.get(f"/docs/{path}", headers=BROWSER)
        assert page.status_code == 200
        assert not fragment or fragment in targets(page.text)


def test_a_page_that_is_not_there_says_which_are(client: TestClient) -> None:
    for name in ("nothing", "policy.schema.json", "..%2fconfig", "__init__"):
        answer = client.get(f"/docs/{name}")
        assert answer.status_code == 404
    assert "errors, exception.invalid, gate" in client.get("/docs/nothing").text
