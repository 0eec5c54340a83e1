"""The ways of choosing branches: what has to hold at a place when one branch of each choice is taken.

`allOf` and `$ref` are followed, `anyOf`, `oneOf` and `if` are choices. The first way takes the first branch of each; every
other way departs from it in one choice, so that each branch is met once and their number stays small.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from broker.domain.schema.closure import resolve
from broker.domain.schema.fits import listing
from broker.domain.schema.terms import Term

_MAX_NODES: Final = 120
_MAX_VARIANTS: Final = 40


def variants(terms: Sequence[Term]) -> Iterator[list[Term]]:
    """The terms that have to hold, for each way of choosing branches; one departure from the first way at a time."""
    first, choices = _followed(terms, {})
    yield first
    for count, (key, width) in enumerate(choices):
        for branch in range(1, min(width, _MAX_VARIANTS)):
            if count * branch > 2 * _MAX_VARIANTS:
                return
            yield _followed(terms, {key: branch})[0]


def _followed(terms: Sequence[Term], chosen: dict[int, int]) -> tuple[list[Term], list[tuple[int, int]]]:
    """What has to hold when these branches are chosen, and the choices that there are."""
    nodes: list[Term] = []
    choices: list[tuple[int, int]] = []
    seen: set[int] = set()
    pending = list(terms)
    while pending and len(nodes) < _MAX_NODES:
        node, root = pending.pop(0)
        if not isinstance(node, dict):
            nodes.append((node, root))
            continue
        if id(node) in seen:
            continue
        seen.add(id(node))
        nodes.append((node, root))
        pending.extend((child, root) for child in listing(node, "allOf"))
        if isinstance(node.get("$ref"), str):
            pending.append((resolve(root, str(node["$ref"])), root))
        for keyword in ("anyOf", "oneOf"):
            branches = listing(node, keyword)
            if branches:
                key = id(branches)
                choices.append((key, len(branches)))
                pending.append((branches[min(chosen.get(key, 0), len(branches) - 1)], root))
        if "if" in node:
            key = id(node)
            choices.append((key, 2))
            if chosen.get(key, 0) == 0:
                pending.extend((node[keyword], root) for keyword in ("if", "then") if keyword in node)
            elif "else" in node:
                pending.append((node["else"], root))
    return nodes, choices
