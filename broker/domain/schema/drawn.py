"""Values that are made when they are asked for, and kept."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from broker.domain.canonical import JsonValue


class Drawn:
    """Values that are made when they are asked for, and kept."""

    def __init__(self, values: Iterator[JsonValue], limit: int) -> None:
        self._values = islice(values, limit)
        self._made: list[JsonValue] = []
        self._busy = False

    def between(self, start: int, end: int) -> list[JsonValue]:
        """The values from one number up to another, as many as there are."""
        # One that is asked for while it is being made stands inside itself: recursion, which has to end somewhere.
        while len(self._made) < end and not self._busy:
            self._busy = True
            try:
                self._made.append(next(self._values))
            except StopIteration:
                break
            finally:
                self._busy = False
        return self._made[start:end]

    def first(self) -> list[JsonValue]:
        """The first value in a list, empty where there is none."""
        return self.between(0, 1)
