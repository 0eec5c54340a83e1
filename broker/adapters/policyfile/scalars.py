"""Plain (unquoted) YAML scalars: four readings, and everything that two readers could read differently refused.

| text                                              | is                                       |
|---------------------------------------------------|------------------------------------------|
| empty, `null`, `~`                                | nothing                                  |
| `true`, `false`                                   | a flag                                   |
| `0`, `-7`, `42` (below 2^53)                      | a whole number                           |
| `1.10`, `1e5`, `.inf`, `0x1F`, `060`, `08`, `1_000`, | ambiguous: YAML 1.1 and 1.2, or two libraries, |
| `10:00`, `2026-07-28`, `+5`, `yes`, `No`, `True`, … | disagree about its type                      |
| anything else, such as `60s`, `1.2.3`, `db:read`     | text                                     |

What is quoted or a block is always text.
"""

from __future__ import annotations

import re
from typing import Final

from broker.domain.canonical import MAX_INTEGER

_WHOLE: Final = re.compile(r"0|-?[1-9][0-9]{0,15}")
_AMBIGUOUS: Final = re.compile(
    r"""
      [-+]?[0-9][0-9_]*                                          # octal, leading zeros, underscores, a sign, too long
    | [-+]?0[xXoObB][0-9A-Fa-f_]*                                # other bases
    | [-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9_]+)(?:[eE][-+]?[0-9]+)?  # floating point
    | [-+]?[0-9][0-9_]*[eE][-+]?[0-9]+                           # floating point without a point
    | [-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)
    | [-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?           # base 60
    | [0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt\ ].*)?                # dates and times
    | =
    """,
    re.VERBOSE,
)
_WORDS: Final = frozenset(("yes", "no", "on", "off", "y", "n", "true", "false", "null"))


class AmbiguousError(ValueError):
    """The scalar has more than one reading."""


def read_plain(text: str) -> bool | int | str | None:
    """The one reading of a plain scalar. Raises `AmbiguousError` where there are several."""
    if text in ("", "null", "~"):
        return None
    if text in ("true", "false"):
        return text == "true"
    if _WHOLE.fullmatch(text) and abs(int(text)) <= MAX_INTEGER:
        return int(text)
    if _AMBIGUOUS.fullmatch(text) or text.lower() in _WORDS:
        raise AmbiguousError
    return text
