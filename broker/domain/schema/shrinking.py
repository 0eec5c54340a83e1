"""The plainest value that still shows what another one shows.

Each step tries something plainer at one place and keeps it where it still holds: a member in place of the object around it, a
member or an item left out, a plain value of the same type, a shorter string, a smaller number. It ends where no step helps, or
the number of tries is used up.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Final

from broker.domain.canonical import JsonValue

_MAX_TRIES: Final = 600
_MAX_DEPTH: Final = 12


def shrink(value: JsonValue, holds: Callable[[JsonValue], bool]) -> JsonValue:
    """The plainest value found for which `holds` is true; it has to be true for the value itself."""
    tries = _MAX_TRIES
    while True:
        for plainer in _plainer(value, 0):
            if tries == 0:
                return value
            tries -= 1
            if holds(plainer):
                value = plainer
                break
        else:
            return value


def _plainer(value: JsonValue, depth: int) -> Iterator[JsonValue]:
    """Plainer values, the boldest step first; each is strictly plainer, so that shrinking ends."""
    if depth > _MAX_DEPTH:
        return
    match value:
        case dict():
            yield from (member for member in value.values() if isinstance(member, dict))
            if len(value) > 3:
                names = list(value)
                yield {name: value[name] for name in names[: len(names) // 2]}
                yield {name: value[name] for name in names[len(names) // 2 :]}
            for name in value:
                yield {other: member for other, member in value.items() if other != name}
            for name, member in value.items():
                for plainer in _plainer(member, depth + 1):
                    yield {**value, name: plainer}
        case list():
            if len(value) > 3:
                yield value[: len(value) // 2]
                yield value[len(value) // 2 :]
            for index in range(min(len(value), 40)):
                yield value[:index] + value[index + 1 :]
            for index in range(min(len(value), 40)):
                for plainer in _plainer(value[index], depth + 1):
                    yield [*value[:index], plainer, *value[index + 1 :]]
        case bool() | None:
            if value is False:
                yield True
        case str():
            yield from _plainer_text(value)
        case int() | float():
            yield from (number for number in (1, 0, 2, -1) if _is_plainer_number(number, value))
            if isinstance(value, float) and abs(value) < 2**53:
                yield from (number for number in (int(value), int(value) + 1) if _is_plainer_number(number, value))


def _plainer_text(value: str) -> Iterator[str]:
    for plain in ("a", "b", ""):
        if _rank_of_text(plain) < _rank_of_text(value):
            yield plain
    if len(value) > 3:
        yield value[: len(value) // 2]
        yield value[len(value) // 2 :]
    if 1 < len(value) <= 60:
        for index in range(len(value)):
            yield value[:index] + value[index + 1 :]


def _rank_of_text(value: str) -> tuple[int, int, str]:
    """A short plain word reads best, better than an empty one."""
    return (0 if value in ("a", "b") else 1, len(value), value)


def _is_plainer_number(one: float, other: float) -> bool:
    return _rank_of_number(one) < _rank_of_number(other)


def _rank_of_number(value: float) -> tuple[bool, float, int]:
    """One reads best, then what is near to nothing and short to write."""
    return (value != 1, abs(value), len(json.dumps(value)))
