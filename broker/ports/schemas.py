"""Arithmetic on schemas, without knowing the library that proves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.schema.answers import Answer, Related


class SchemaArithmetic(Protocol):
    """Questions about the sets of values that JSON Schemas 2020-12 accept.

    Guarantees: never a wrong claim: a yes carries a witness that the validator has confirmed, a no is proved. Bounded
                in time and memory whatever the schemas are; over the bound is `Unknown`. Equal questions may be answered
                from a cache.
    Errors:     none for what a schema holds; a schema that cannot be compiled is `Unknown` with the place.
    """

    def relate(self, old: JsonObject, new: JsonObject) -> Related:
        """Whether values are lost or gained from one schema to the other."""
        ...

    def common(self, schemas: Sequence[JsonObject]) -> Answer:
        """Whether one value is accepted by all of the schemas; the witness is such a value."""
        ...

    def accepts(self, schema: JsonObject, value: JsonValue) -> bool:
        """Whether the schema accepts the value; False for a schema that cannot be compiled."""
        ...
