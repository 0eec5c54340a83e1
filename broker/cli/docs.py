"""`broker docs`: the reference pages that come with the package, where there is no broker to ask."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from importlib import resources
from typing import Final

import click

NO_PAGE: Final = 3


@click.command("docs")
@click.argument("page", required=False)
def docs(page: str | None) -> None:
    """Print a reference page, such as lockstep.alone; without PAGE, the names of all."""
    folder = resources.files("broker.docs")
    names = sorted(file.name.removesuffix(".md") for file in folder.iterdir() if file.name.endswith(".md"))
    if page is None:
        click.echo("\n".join(names))
        return
    # Compared with what there is: the name never becomes a path.
    name = page.removesuffix(".md")
    if name not in names:
        near = get_close_matches(name, names, 1)
        click.echo(
            f"there is no page {page}; {f'did you mean {near[0]}?' if near else 'broker docs lists them'}", err=True
        )
        sys.exit(NO_PAGE)
    text = (folder / f"{name}.md").read_text(encoding="utf-8")
    if sys.stdout.isatty():
        click.echo_via_pager(text)
    else:
        click.echo(text, nl=False)
