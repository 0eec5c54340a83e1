"""The values that a template can name, as languages: what stands at its pointers, as far as a scope can carry it.

For one version and one pointer, between two bounds:

1. *Raw*: what an accepted input that needs the scope can hold there (`projection`): contract, closed, and `needed_when`.
2. For a path, URL or host the value in a scope is a normal form. What is one already stays as it is; where the contract lets
   through other spellings, the normal forms of these may be any, so `upper` is then all of them. Whether one of them can
   really be had is told by its spellings (`spellings`).
3. Below the roots, where there are some; without any character that a scope cannot carry.

`lower` may be relied on only where some accepted input that needs the scope holds something at every pointer of it; who asks
has to know that (`projection`, rule 4).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Final

from broker.domain.canonical import JsonObject
from broker.domain.policy.document import ROOTED_KINDS, VersionPolicy
from broker.domain.policy.templates import SAFE_PATH_PATTERN, SAFE_PATTERN
from broker.domain.schema.answers import No
from broker.domain.schema.embedding import both
from broker.domain.schema.patterns import Unportable, parse_pattern
from broker.domain.schema.projection import project
from broker.domain.schema.regular import (
    Language,
    any_text,
    characters,
    concatenation,
    difference,
    nothing,
    one_of,
    repetition,
    text,
    union,
)
from broker.domain.schema.strings import NONE, UNKNOWN, Bounds, all_of

# Normal forms among what a scope can carry (`roots`): of a path, no empty segment and none that ends in a dot.
_PATHS: Final = r"^(/|(/[^/]*[^./])+)$"
_SPELT_PATHS: Final = r"^/([^/][!-~]*)?$"
_SPELT_HOSTS: Final = r"^[A-Za-z0-9_.-]+$"
_SPELT: Final = {"path": _SPELT_PATHS, "host": _SPELT_HOSTS}
_LABEL: Final = "[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
_HOSTS: Final = rf"^({_LABEL}[.])*{_LABEL}$"
_NAMED_HOSTS: Final = rf"^({_LABEL}[.])*[a-z_]([a-z0-9_-]{{0,61}}[a-z0-9_])?$"


def raw_values(version: VersionPolicy, template: str, pointer: str, accepted: JsonObject) -> Bounds:
    """What an accepted input that needs the scope can hold at a pointer (1)."""
    needed = version.scopes[template].needed_when
    if needed is False:
        return NONE
    if needed is True:
        return project(accepted, pointer).bounds
    return project(both(accepted, needed), pointer).bounds


def scope_values(version: VersionPolicy, template: str, pointer: str, accepted: JsonObject) -> Bounds:
    """The values that the scope can name at a pointer (1 to 3)."""
    rule = version.arguments.get(pointer)
    kind = rule.kind if rule is not None else None
    raw = raw_values(version, template, pointer, accepted)
    if kind in _SPELT:
        raw = all_of((raw, Bounds.exactly(_language(_SPELT[kind]))))
    safe = Bounds.exactly(_language(SAFE_PATH_PATTERN if kind == "path" else SAFE_PATTERN))
    if rule is None or kind not in ROOTED_KINDS:
        return all_of((raw, safe))
    normal = _normal_forms(rule.kind)
    below = Bounds.exactly(_below(rule.kind, rule.within)) if rule.within else Bounds.exactly(any_text())
    held = all_of((raw, safe, normal, below))
    if isinstance(difference(raw.upper, normal.lower), No):
        return held
    return Bounds(held.lower, all_of((safe, normal, below)).upper if raw.upper is not nothing() else nothing())


def spellings(kind: str | None, value: str) -> Language:
    """All that has this normal form, and perhaps more: none of them accepted, no such scope."""
    if kind == "path":
        slash = concatenation(text("/"), repetition(union(text("/"), text("./")), 0, None))
        steps = [step for step in value.split("/") if step]
        trail = concatenation(slash, repetition(text("."), 0, 1))
        if not steps:
            return trail
        return concatenation(*(part for step in steps for part in (slash, text(step))), repetition(trail, 0, 1))
    if kind == "host":
        return concatenation(*(one_of(characters(letter + letter.upper())) for letter in value))
    return any_text() if kind == "url" else text(value)


def _normal_forms(kind: str) -> Bounds:
    if kind == "path":
        return Bounds.exactly(_language(_PATHS))
    if kind == "host":
        # An address is in its one spelling, which is not told here; so the bounds differ in what ends in a digit.
        return Bounds(_language(_NAMED_HOSTS), _language(_HOSTS))
    return UNKNOWN


def _below(kind: str, roots: Iterable[str]) -> Language:
    return union(*(_below_one(kind, root) for root in roots))


def _below_one(kind: str, root: str) -> Language:
    if kind == "host":
        return concatenation(any_text(), text(root[1:])) if root.startswith("*.") else text(root)
    bare = text(root.rstrip("/"))
    return union(text(root), concatenation(bare, text("/"), any_text()))


@cache
def _language(pattern: str) -> Language:
    made = parse_pattern(pattern)
    assert not isinstance(made, Unportable)
    return made
