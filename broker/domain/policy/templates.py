"""Scope templates: a scope whose text names the value of an argument.

1. A template is scope token text in which `{/pointer}` stands for the argument at that JSON pointer.
2. Two placeholders have text between them, or one value could take the place of the other.
3. A value that goes into a scope holds no character that a scope, or somebody who reads one, could take for structure:
   no `:`, `*` or `%`, no `/` unless it is a path, nothing outside RFC 6749 §3.3. It is never empty.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from broker.domain.scopes import Scope, parse_scope

_PLACEHOLDER: Final = re.compile(r"\{(/[^{}]*)\}")
_LITERAL: Final = re.compile(r"[\x21\x23-\x29\x2b-\x5b\x5d-\x7a|\x7e]*")
_VALUE: Final = re.compile(r"[\x21\x23\x24\x26-\x29\x2b-\x2e\x30-\x39\x3b-\x5b\x5d-\x7a\x7e]+")
_PATH_VALUE: Final = re.compile(r"[\x21\x23\x24\x26-\x29\x2b-\x39\x3b-\x5b\x5d-\x7a\x7e]+")


def parse_template(template: str) -> tuple[str, ...] | None:
    """The pointers of the placeholders in a template, none for a plain scope; None where it is malformed."""
    parts = _PLACEHOLDER.split(template)
    literals, pointers = parts[0::2], tuple(parts[1::2])
    if not all(_LITERAL.fullmatch(literal) for literal in literals):
        return None
    if any(not literal for literal in literals[1:-1]) or not literals[0]:
        return None
    return pointers if pointers or parse_scope(template) else None


def safe_value(kind: str | None, value: str) -> bool:
    """Whether a value may stand in a scope (rule 3)."""
    return bool((_PATH_VALUE if kind == "path" else _VALUE).fullmatch(value))


def fill(template: str, values: Mapping[str, str]) -> Scope | None:
    """The scope of a template with its placeholders filled; None where the result is no scope token."""
    return parse_scope(_PLACEHOLDER.sub(lambda found: values[found[1]], template))
