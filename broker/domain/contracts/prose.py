"""Prose became structure: whether a constraint that a schema carries now was already stated in words, which no validator reads.

| what the schema says now           | what the old words have to say                                                          |
|------------------------------------|-----------------------------------------------------------------------------------------|
| one of these values                | every one of them                                                                        |
| an upper or lower bound            | its number, in a sentence about a limit or as the end of a range                          |
| a pattern                          | what a value must look like                                                               |
| has to be given                    | that it is required                                                                       |
| options, conditions, dependencies  | which arguments belong together, or exclude each other                                    |

Words are looked for in the description of the property, and in those sentences of the tool's that name it. Rather too few are
found than too many: what is not found here is `breaking`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.schema.changes import Change, ChangeKind
from broker.domain.schema.wording import sentences

_UPPER: Final = re.compile(
    r"\b(max(imum)?|at most|up to|no more than|not exceed|limit(ed)?|less than|below|under|between|from|range|longer)\b|[≤<–-]",
    re.IGNORECASE,
)
_LOWER: Final = re.compile(
    r"\b(min(imum)?|at least|no (less|fewer) than|more than|greater|above|between|from|range|start(s|ing)?|positive|"
    r"non-?empty|not be empty|1-based|one-based|0-based|zero-based)\b|[≥>–-]",
    re.IGNORECASE,
)
_SHAPE: Final = re.compile(
    r"\b(must|only|has to|have to|format(ted)?|consists? of|match(es)?|start(s|ing)? with|in the form|prefixed)\b",
    re.IGNORECASE,
)
_REQUIRED: Final = re.compile(r"\b(required|mandatory|must (be )?(provided?|given|specif|set|suppl))", re.IGNORECASE)
_ONLY_SOMETIMES: Final = re.compile(
    r"\b(required|mandatory) (if|when|unless|for|only|with)\b|not required", re.IGNORECASE
)
_TOGETHER: Final = re.compile(
    r"\b(at least one of|exactly one of|only one of|one of|either [`'\"]?\w+[`'\"]? or|required (if|when|unless|for)|"
    r"cannot be (combined|used)|"
    r"mutually exclusive|must (be )?(provided?|given|specified|used) (with|together|when|if)|not both|"
    r"only (used|valid|when|with))\b",
    re.IGNORECASE,
)
_EMPTY: Final = re.compile(r"\b(non-?empty|(not|never|cannot) be (empty|blank))\b", re.IGNORECASE)
_OPTIONS: Final = (ChangeKind.BRANCH_ADDED, ChangeKind.CONSTRAINT_ADDED, ChangeKind.DEPENDENCY_ADDED)
_GROUPS: Final = ("anyOf", "oneOf", "allOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas")


def said_before(change: Change, old: JsonObject) -> str:
    """The sentence of the old contract that had stated what the change demands; empty where there is none."""
    found = next((sentence for sentence in _sentences(change, old) if _states(change, sentence)), "")
    return " ".join(found.split())


def _states(change: Change, sentence: str) -> bool:
    match change.kind:
        case ChangeKind.ENUM_ADDED:
            values = change.after if isinstance(change.after, list) else []
            texts = [str(value) for value in values if isinstance(value, str | int) and not isinstance(value, bool)]
            return bool(texts) and len(texts) == len(values) and all(_named(text, sentence) for text in texts)
        case ChangeKind.UPPER_BOUND_TIGHTENED if change.pointer_old is None:
            return _UPPER.search(sentence) is not None and _numbered(change.after, sentence)
        case ChangeKind.LOWER_BOUND_TIGHTENED if change.pointer_old is None:
            if change.after == 1 and _EMPTY.search(sentence):
                return True
            return _LOWER.search(sentence) is not None and _numbered(change.after, sentence)
        case ChangeKind.PATTERN_ADDED:
            return _SHAPE.search(sentence) is not None
        case ChangeKind.REQUIRED_ADDED:
            return _REQUIRED.search(sentence) is not None and _ONLY_SOMETIMES.search(sentence) is None
    if change.kind not in _OPTIONS or change.detail not in _GROUPS:
        return False
    found = _TOGETHER.search(sentence)
    return found is not None and sum(_named(name, sentence) for name in _demanded(change.after)) > 1


def _demanded(value: JsonValue) -> frozenset[str]:
    """The names that a constraint asks for or excludes."""
    if isinstance(value, list):
        names = frozenset(item for item in value if isinstance(item, str))
        return names.union(*map(_demanded, value))
    if not isinstance(value, dict):
        return frozenset()
    properties = value.get("properties")
    names = frozenset(properties) if isinstance(properties, dict) else frozenset()
    return names.union(*map(_demanded, value.values()))


def _sentences(change: Change, old: JsonObject) -> Iterator[str]:
    """What the old contract says about the value: its own description, then what the tool's says of it by name."""
    name = change.where.rpartition(".")[2].removesuffix("[]")
    schema = old.get("inputSchema")
    own = _own_description(schema, change.where) if isinstance(schema, dict) else None
    if isinstance(own, str):
        if change.kind is ChangeKind.ENUM_ADDED:
            yield own  # values are often listed over several lines
        yield from sentences(own)
    whole = old.get("description")
    if isinstance(whole, str):
        for sentence in sentences(whole):
            if not name or _named(name, sentence):
                yield sentence
    if not name and isinstance(schema, dict):
        yield from _all_descriptions(schema)


def _own_description(schema: JsonObject, where: str) -> JsonValue:
    """The description of a property, by the names that lead to it."""
    node: JsonValue = schema
    found: JsonValue = None
    for step in where.split("."):
        properties = node.get("properties") if isinstance(node, dict) else None
        node = properties.get(step.removesuffix("[]")) if isinstance(properties, dict) else None
        found = node.get("description") if isinstance(node, dict) else None
        if isinstance(node, dict) and step.endswith("[]"):
            node = node.get("items")
    return found


def _all_descriptions(schema: JsonObject) -> Iterator[str]:
    properties = schema.get("properties")
    for node in properties.values() if isinstance(properties, dict) else ():
        description = node.get("description") if isinstance(node, dict) else None
        if isinstance(description, str):
            yield from sentences(description)


def _named(text: str, sentence: str) -> bool:
    """Whether a text stands in a sentence as a word of its own."""
    return bool(text.strip()) and re.search(rf"(?<![\w]){re.escape(text)}(?![\w])", sentence) is not None


def _numbered(value: JsonValue, sentence: str) -> bool:
    """Whether a number stands in a sentence, in digits, with or without separators."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    spelt = {f"{value:g}", str(value), f"{value:,}"}
    return any(re.search(rf"(?<![\w.]){re.escape(number)}(?![\w]|\.\d)", sentence) for number in spelt)
