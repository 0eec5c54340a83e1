"""What schemas say about one place of a value, in whichever branch: the schemas themselves, names, types."""

from __future__ import annotations

import json
from collections.abc import Sequence

from broker.domain.canonical import JsonValue
from broker.domain.schema.answers import Yes
from broker.domain.schema.building import Builder
from broker.domain.schema.fits import listing, mapping, type_of
from broker.domain.schema.patterns import Unportable, parse_pattern
from broker.domain.schema.probes import edge_texts
from broker.domain.schema.regular import member
from broker.domain.schema.terms import Term


def names_in(bearing: Sequence[Term], builder: Builder) -> list[str]:
    """The names that a place's schemas mention, and names that their patterns match."""
    found: dict[str, None] = {}
    for node, _ in bearing:
        found.update(dict.fromkeys(mapping(node, "properties")))
        found.update(dict.fromkeys(str(name) for name in listing(node, "required")))
        for name, others in mapping(node, "dependentRequired").items():
            found[name] = None
            found.update(dict.fromkeys(map(str, others if isinstance(others, list) else [])))
        found.update(dict.fromkeys(mapping(node, "dependentSchemas")))
        for pattern in mapping(node, "patternProperties"):
            language = parse_pattern(pattern)
            answer = None if isinstance(language, Unportable) else member(language, steps=1_000)
            if isinstance(answer, Yes):
                found[str(answer.witness)] = None
    for node, root in bearing:
        if isinstance(node, dict) and "propertyNames" in node:
            values = [
                *builder.drawn([(node["propertyNames"], root)], 8).between(0, 4),
                *edge_texts([node["propertyNames"]]),
            ]
            values.extend(listing(node["propertyNames"], "enum"))
            found.update(dict.fromkeys(value for value in values if isinstance(value, str)))
    return list(found)


def say_the_same(places: Sequence[Sequence[Term]]) -> bool:
    """Whether all schemas of the question use the same words about a place, without a reference that may lead elsewhere."""
    spelt = {json.dumps([node for node, _ in terms], sort_keys=True) for terms in places}
    return len(places) > 1 and len(spelt) == 1 and '"$ref"' not in next(iter(spelt))


def may_hold(nodes: Sequence[JsonValue], kind: str, keywords: Sequence[str]) -> bool:
    """Whether the schemas speak of values of this type: by name, by keywords that are about it, by a choice."""
    for node in nodes:
        if isinstance(node, dict):
            wanted = node.get("type")
            if (
                wanted == kind
                or (isinstance(wanted, list) and kind in wanted)
                or any(keyword in node for keyword in keywords)
            ):
                return True
            if any(type_of(value) == kind for value in listing(node, "enum")):
                return True
    return False
