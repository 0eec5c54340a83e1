"""Proofs about the sets of values that schemas accept, by jsonschema-rs: inclusion, emptiness, difference.

1. Only a proof counts: `True` is proved. `None` is everything else: the library's no (which it gives without a value that
   shows it), its unknown, and whatever it raises.
2. Schemas are read as the validators read them: 2020-12, offline, `format` an annotation, patterns with the same limits.
3. Time and memory are not bounded here: what the library does with a hostile schema may take gigabytes. So this runs in
   a worker process, and imports nothing but the library.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import jsonschema_rs

_REGEX_BYTES: Final = 1_048_576
_OPTIONS: Final = (
    jsonschema_rs.RegexOptions(size_limit=_REGEX_BYTES, dfa_size_limit=_REGEX_BYTES),
    jsonschema_rs.FancyRegexOptions(backtrack_limit=10_000, size_limit=_REGEX_BYTES, dfa_size_limit=_REGEX_BYTES),
)
_FORESEEN: Final = (ValueError, RuntimeError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError)


def included(old: Any, new: Any) -> tuple[bool | None, bool | None]:
    """Whether all that old accepts is proved to be in new, and the reverse."""
    try:
        one, other = _canonical((old, new))
    except _FORESEEN:
        return None, None
    return _covers(other, one), _covers(one, other)


def empty(schemas: Sequence[Any]) -> bool | None:
    """Whether it is proved that no value is accepted by all of the schemas."""
    try:
        met, *others = _canonical(schemas)
        for other in others:
            met = met.intersect(other)
        return True if met.satisfiability() is jsonschema_rs.canonical.Satisfiability.NO else None
    except _FORESEEN:
        return None


def difference(one: Any, other: Any) -> Any:
    """A schema of what one accepts and the other refuses, to search in; None where there is no such form."""
    try:
        kept, taken = _canonical((one, other))
        return kept.subtract(taken).to_json_schema()
    except _FORESEEN:
        return None


def _covers(outer: jsonschema_rs.CanonicalSchema, inner: jsonschema_rs.CanonicalSchema) -> bool | None:
    try:
        return True if outer.covers(inner) is jsonschema_rs.canonical.Containment.YES else None
    except _FORESEEN:
        return None


def _canonical(schemas: Sequence[Any]) -> list[jsonschema_rs.CanonicalSchema]:
    # all with the same engine: handles made with different options do not combine
    problem: Exception | None = None
    for options in _OPTIONS:
        try:
            return [
                jsonschema_rs.canonicalize(
                    schema,
                    draft=jsonschema_rs.Draft202012,
                    offline=True,
                    validate_formats=False,
                    pattern_options=options,
                )
                for schema in schemas
            ]
        except _FORESEEN as error:
            problem = error
    assert problem is not None
    raise problem
