"""Scopes: RFC 6749 §3.3 tokens, as a set that has one spelling.

1. A scope token is 1–256 of `%x21 / %x23-5B / %x5D-7E`; it is case sensitive.
2. A scope parameter is tokens with exactly one space between them; order and repeats mean nothing.
3. A scope set is spelled sorted and without repeats, so that equal sets have equal text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NewType, TypeAlias

Scope = NewType("Scope", str)
ScopeSet: TypeAlias = frozenset[Scope]

MAX_SCOPES: Final = 64
_TOKEN: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,256}")
EMPTY: Final[ScopeSet] = frozenset()


def parse_scope(value: object) -> Scope | None:
    """The value as one scope token, or None where it is none."""
    return Scope(value) if isinstance(value, str) and _TOKEN.fullmatch(value) else None


def parse_scope_parameter(text: str) -> ScopeSet | None:
    """The set that a `scope` parameter names, or None where it is malformed or names more than `MAX_SCOPES`."""
    if not text:
        return EMPTY
    tokens = text.split(" ")
    if len(tokens) > MAX_SCOPES:
        return None
    scopes = [parse_scope(token) for token in tokens]
    found = frozenset(scope for scope in scopes if scope is not None)
    return None if None in scopes else found


def spell_scopes(scopes: Iterable[Scope]) -> str:
    """The one spelling of a scope set: sorted, single spaces."""
    return " ".join(sorted(set(scopes)))


@lru_cache(maxsize=4096)
def within_patterns(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether the name fits one of the patterns; `*` stands for any characters, nothing else is special."""
    return any(_pattern(pattern).fullmatch(name) for pattern in patterns)


@lru_cache(maxsize=1024)
def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in pattern.split("*")), re.DOTALL)
