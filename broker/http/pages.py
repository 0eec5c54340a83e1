"""Reference pages, as the text they are written in; to a browser as that text with a target for each heading.

| asked with                   | answered                                                               |
|------------------------------|------------------------------------------------------------------------|
| `Accept` with `text/html`    | the text, preformatted; `#name` leads to the heading, links lead on     |
| anything else                | `text/plain`: Markdown                                                 |

The text is escaped whole before anything is marked up in it. No script, nothing from elsewhere.
"""

from __future__ import annotations

import html
import re
from functools import cache
from importlib import resources
from typing import Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse

router = APIRouter()

_HEADING: Final = re.compile(r"^(#{1,6}) (.+)$", re.MULTILINE)
_LINK: Final = re.compile(r"\[([^\]\n]+)\]\(([a-z.-]+)\.md(#[a-z0-9_-]+)?\)")
_POLICY: Final = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'", "vary": "accept"}
_STYLE: Final = (
    "body{margin:2em auto;max-width:60em;padding:0 1em}pre{white-space:pre-wrap;font:14px/1.5 monospace}"
    ":target{background:#fd8}"
)


@cache
def names() -> tuple[str, ...]:
    """The pages that there are; a caller's text is compared with these and never becomes a path."""
    found = (file.name for file in resources.files("broker.docs").iterdir())
    return tuple(sorted(name.removesuffix(".md") for name in found if name.endswith(".md")))


@cache
def text(name: str) -> str:
    return (resources.files("broker.docs") / f"{name}.md").read_text(encoding="utf-8")


@cache
def hypertext(name: str) -> str:
    """The page for a browser. A heading's target is spelled as `error_uri` and links spell it."""

    def heading(found: re.Match[str]) -> str:
        return f'<b id="{_target(found[1], html.unescape(found[2]))}">{found[0]}</b>'

    body = _HEADING.sub(heading, html.escape(text(name)))
    body = _LINK.sub(r'<a href="\2\3">\1</a>', body)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{name}</title><style>{_STYLE}</style>'
        f"<pre>{body}</pre></html>"
    )


def _target(level: str, title: str) -> str:
    if level == "###" and title.isidentifier():
        return title  # a reason or a failure, whose own spelling `error_uri` uses
    return re.sub(r"[^\w-]", "", title.replace(" ", "-")).lower()


@router.get(
    "/docs/{page}",
    summary="Reference pages",
    response_class=PlainTextResponse,
    responses={
        200: {"content": {"text/html": {"schema": {"type": "string"}}}},
        404: {"description": "No such page", "content": {"text/plain": {"schema": {"type": "string"}}}},
    },
)
async def show_page(request: Request, page: str) -> Response:
    name = page.removesuffix(".md")
    if name not in names():
        return Response(f"no such page; there are: {', '.join(names())}\n", 404, media_type="text/plain")
    if "text/html" in request.headers.get("accept", ""):
        return Response(hypertext(name), media_type="text/html; charset=utf-8", headers=_POLICY)
    return Response(text(name), media_type="text/plain; charset=utf-8", headers=_POLICY)
