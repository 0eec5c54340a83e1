"""What the arithmetic on schemas needs from outside: a prover and a validator, as values that are handed in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.schema.answers import Blocker

Accepts: TypeAlias = Callable[[JsonValue], bool]


@dataclass(frozen=True, slots=True)
class Proved:
    """What is proved about two schemas; False is *not proved*, never *disproved*.

    lost:    nothing in old is outside new.
    gained:  nothing in new is outside old.
    stopped: why the prover gave up, where it ran over a limit.
    """

    lost: bool = False
    gained: bool = False
    stopped: str = ""


class Tools(Protocol):
    """Prover and validator. None of these raises for what a schema holds."""

    def included(self, old: JsonObject, new: JsonObject) -> Proved:
        """Inclusion, both ways."""
        ...

    def empty(self, schemas: Sequence[JsonObject]) -> tuple[bool, str]:
        """Whether it is proved that no value is accepted by all; else why the prover gave up, if it did."""
        ...

    def difference(self, one: JsonObject, other: JsonObject) -> JsonObject | None:
        """A schema of what one accepts and the other refuses; to search in, not to rely on."""
        ...

    def compiled(self, schema: JsonObject) -> Accepts | Blocker:
        """The validator of a schema, or what stands in its way."""
        ...
