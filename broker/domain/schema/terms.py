"""Terms: schemas that say something about one place of a value, each with the document its references lead into."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.schema.closure import resolve
from broker.domain.schema.fits import listing, mapping, pattern_matches

Term: TypeAlias = "tuple[JsonValue, JsonObject]"

_MAX_SCHEMAS: Final = 300


def bearing_on(terms: Sequence[Term]) -> list[Term]:
    """Every schema that says something about a place, in whichever branch."""
    found: list[Term] = []
    seen: set[int] = set()
    pending = list(terms)
    while pending and len(found) < _MAX_SCHEMAS:
        node, root = pending.pop(0)
        if not isinstance(node, dict) or id(node) in seen:
            continue
        seen.add(id(node))
        found.append((node, root))
        for keyword in ("allOf", "anyOf", "oneOf"):
            pending.extend((child, root) for child in listing(node, keyword))
        pending.extend((node[keyword], root) for keyword in ("if", "then", "else", "not") if keyword in node)
        pending.extend((child, root) for child in mapping(node, "dependentSchemas").values())
        if isinstance(node.get("$ref"), str):
            pending.append((resolve(root, str(node["$ref"])), root))
    return found


def at_name(nodes: Sequence[Term], name: str) -> list[Term]:
    """What has to hold for the member of this name."""
    found: list[Term] = []
    for node, root in nodes:
        properties = mapping(node, "properties")
        listed = [properties[name]] if name in properties else []
        listed.extend(
            child for pattern, child in mapping(node, "patternProperties").items() if pattern_matches(pattern, name)
        )
        if not listed and isinstance(node, dict) and "additionalProperties" in node:
            listed.append(node["additionalProperties"])
        found.extend((child, root) for child in listed)
    if not found:  # then nothing evaluates the name
        found.extend(
            (node["unevaluatedProperties"], root)
            for node, root in nodes
            if isinstance(node, dict) and "unevaluatedProperties" in node
        )
    return found
