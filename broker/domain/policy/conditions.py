"""What a `needed_when` is made of: keywords of JSON Schema and nothing else.

A validator ignores a keyword that it does not know, so a misspelt one would silently change which inputs need a scope.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final

from broker.domain.policy.located import Located
from broker.domain.schema.dialect import LISTS, MAPS, SINGLES

KEYWORDS: Final = frozenset(
    (
        *MAPS, *LISTS, *SINGLES,
        "$schema", "$id", "$ref", "$anchor", "$dynamicRef", "$dynamicAnchor", "$vocabulary", "$comment",
        "type", "enum", "const", "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength",
        "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "maxContains", "minContains", "maxProperties",
        "minProperties", "required", "dependentRequired", "dependencies",
        "title", "description", "default", "deprecated", "readOnly", "writeOnly", "examples", "format", "contentEncoding",
        "contentMediaType", "contentSchema",
    )
)  # fmt: skip


def unknown_keywords(schema: Located) -> Iterator[Located]:
    """The keys, at any depth, that stand where a keyword is expected and are none."""
    for name, entry in schema.entries().items():
        if name not in KEYWORDS:
            yield entry.key
        elif name in MAPS:
            for child in entry.value.entries().values():
                yield from unknown_keywords(child.value)
        elif name in LISTS or name in SINGLES:
            for item in (entry.value, *entry.value.items()):
                yield from unknown_keywords(item)


def nearest_keyword(name: str) -> str:
    """How to mend a misspelt keyword."""
    near = get_close_matches(name, sorted(KEYWORDS), 1, 0.6)
    return f"did you mean {near[0]}?" if near else "take it out, or write a keyword of JSON Schema 2020-12"
