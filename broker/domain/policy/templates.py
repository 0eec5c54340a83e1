"""Scope templates: a scope whose text names the value of an argument.

1. A template is scope token text in which `{/pointer}` stands for the argument at that JSON pointer.
2. A placeholder stands between colons, or between a colon and the end: no value holds one, so none can take the place of
   another or of text that follows. A template whose values could spell a plain scope of the same version
   (`db:{/table}` beside `db:write`) is refused with it (`could_spell`).
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

# The same two as patterns of JSON Schema, in the portable subset.
SAFE_PATTERN: Final = "^[!#$&-)+-.0-9;-\\[\\]-z~]+$"
SAFE_PATH_PATTERN: Final = "^[!#$&-)+-9;-\\[\\]-z~]+$"


def parse_template(template: str) -> tuple[str, ...] | None:
    """The pointers of the placeholders in a template, none for a plain scope; None where it is malformed."""
    parts = _PLACEHOLDER.split(template)
    literals, pointers = parts[0::2], tuple(parts[1::2])
    if not all(_LITERAL.fullmatch(literal) for literal in literals):
        return None
    if pointers and not _are_set_apart(literals):
        return None
    return pointers if pointers or parse_scope(template) else None


def _are_set_apart(literals: list[str]) -> bool:
    before, after = literals[:-1], literals[1:]
    return all(text.endswith(":") for text in before) and all(text.startswith(":") for text in after if text)


def could_spell(template: str, scope: str) -> bool:
    """Whether some values make the template the very text of a plain scope."""
    parts = [re.escape(part) for part in _PLACEHOLDER.split(template)[0::2]]
    return len(parts) > 1 and re.fullmatch("[^:]+".join(parts), scope) is not None


def binds(scope: str, term: str) -> bool:
    """Whether a term is a scope with nothing but placeholders after it: `files:read` bound as `files:read:{/path}`."""
    rest = term.removeprefix(scope)
    return rest != term and bool(re.fullmatch(r"(?::\{/[^{}]*\})+", rest))


def safe_value(kind: str | None, value: str) -> bool:
    """Whether a value may stand in a scope (rule 3)."""
    return bool((_PATH_VALUE if kind == "path" else _VALUE).fullmatch(value))


def fill(template: str, values: Mapping[str, str]) -> Scope | None:
    """The scope of a template with its placeholders filled; None where the result is no scope token."""
    return parse_scope(_PLACEHOLDER.sub(lambda found: values[found[1]], template))
