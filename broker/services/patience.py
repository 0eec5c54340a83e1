"""Arithmetic on schemas for as long as somebody can wait: after that, everything is unknown, and says why.

Each question is bounded by itself; a folder may ask a great many hard ones, and the next load waits until this one is judged.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.schema.answers import Answer, Blocker, Related, Unknown
from broker.ports.schemas import SchemaArithmetic


class Patience:
    """Implements `SchemaArithmetic` by another one, for so many seconds from when it is made."""

    def __init__(self, arithmetic: SchemaArithmetic, *, seconds: float) -> None:
        self._arithmetic = arithmetic
        self._until = time.monotonic() + seconds
        self._over = Unknown((Blocker("", "", f"everything together took longer than {seconds:g} seconds"),))

    def relate(self, old: JsonObject, new: JsonObject) -> Related:
        return Related(self._over, self._over) if self._is_over() else self._arithmetic.relate(old, new)

    def common(self, schemas: Sequence[JsonObject]) -> Answer:
        return self._over if self._is_over() else self._arithmetic.common(schemas)

    def accepts(self, schema: JsonObject, value: JsonValue) -> bool:
        return self._arithmetic.accepts(schema, value)

    def _is_over(self) -> bool:
        return time.monotonic() > self._until
