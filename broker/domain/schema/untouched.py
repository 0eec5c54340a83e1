"""References that keep what they meant, although the place that they led to has been closed.

`not: {$ref: "#"}` asks about the schema as it was written. Closing happens in place, so after it the same reference would lead
to the closed schema, and the closure could accept what the contract refuses.

1. A place is touched by closing if it is the root, or is reached from it along `properties`, `items`, `prefixItems`.
   Definitions and combinators stay as they were.
2. A reference to a touched place, other than those that closing made itself, leads into an untouched copy of the document.
   The copy stands in `$defs`, without definitions and anchors of its own: those stand once, in the document.
3. An anchor, and a reference that spells out the document's own `$id`, are such references too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import quote, unquote, urldefrag, urljoin

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.schema.dialect import LISTS, MAPS, SINGLES, subschemas

_TOUCHED: Final = ("properties", "items", "prefixItems")
_ONCE: Final = ("$id", "$schema", "$anchor")


def keep_references(original: JsonObject, closed: JsonObject, made: frozenset[str]) -> JsonObject:
    """The closed document, its references meaning what they meant; `made` are those that closing wrote itself."""
    anchors = _anchors(original)

    def leads_to(reference: str) -> str | None:
        """The pointer of the touched place that a reference leads to."""
        fragment = _own_fragment(reference, original.get("$id"))
        if fragment is None or reference in made:
            return None
        pointer = anchors.get(fragment, fragment) if fragment and not fragment.startswith("/") else fragment
        first = pointer.split("/")[1:2]
        return pointer if not first or first[0] in _TOUCHED else None

    if not any(leads_to(reference) is not None for reference in _references(closed)):
        return closed
    definitions = closed.get("$defs")
    taken = definitions if isinstance(definitions, dict) else {}
    name = next(name for name in (f"open-{number}" for number in range(len(taken) + 1)) if name not in taken)

    def moved(reference: str) -> str:
        pointer = leads_to(reference)
        return reference if pointer is None else f"#/$defs/{name}{quote(pointer, safe='/~!$&()*+,;=:@')}"

    copy = {keyword: value for keyword, value in original.items() if keyword not in ("$defs", "definitions")}
    untouched = _rewritten(copy, moved, once=False)
    kept = _rewritten(closed, moved, once=True)
    assert isinstance(kept, dict)
    listed = kept.get("$defs")
    return {**kept, "$defs": {**(listed if isinstance(listed, dict) else {}), name: untouched}}


def _own_fragment(reference: str, identity: JsonValue) -> str | None:
    """The decoded fragment of a reference into this document; None where it leads elsewhere."""
    if reference.startswith("#"):
        return unquote(reference[1:])
    if not isinstance(identity, str):
        return None
    try:
        target, fragment = urldefrag(urljoin(identity, reference))
        return unquote(fragment) if target == urldefrag(identity).url else None
    except ValueError:
        return None


def _references(schema: JsonObject) -> set[str]:
    found: set[str] = set()
    pending: list[JsonValue] = [schema]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                found.add(str(node["$ref"]))
            pending.extend(child for _, child in subschemas(node))
    return found


def _anchors(schema: JsonObject) -> dict[str, str]:
    found: dict[str, str] = {}
    pending: list[tuple[str, JsonValue]] = [("", schema)]
    while pending:
        pointer, node = pending.pop()
        if isinstance(node, dict):
            if isinstance(node.get("$anchor"), str):
                found[str(node["$anchor"])] = pointer
            pending.extend((pointer + below, child) for below, child in subschemas(node))
    return found


def _rewritten(node: JsonValue, moved: Callable[[str], str], *, once: bool) -> JsonValue:
    """A copy with other references; without what may stand once only, unless this is where it stands."""
    if not isinstance(node, dict):
        return node
    made: JsonObject = {}
    for keyword, value in node.items():
        if keyword in _ONCE and not once:
            continue
        if keyword == "$ref" and isinstance(value, str):
            made[keyword] = moved(value)
        elif keyword in MAPS and isinstance(value, dict):
            made[keyword] = {name: _rewritten(child, moved, once=once) for name, child in value.items()}
        elif keyword in LISTS and isinstance(value, list):
            made[keyword] = [_rewritten(child, moved, once=once) for child in value]
        elif keyword in SINGLES:
            made[keyword] = _rewritten(value, moved, once=once)
        else:
            made[keyword] = value
    return made
