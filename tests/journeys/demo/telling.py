"""Telling the story: what was sent, what came back, what was expected of it; and the verdict.

1. A step is told as it happens: `→` sent, `←` came back, `✓`/`✗` checked. A check that fails says what it expected and
   what it found, and ends the step and the story.
2. The verdict is good only if every step was played, none failed, and each checked something.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from rich.console import Console
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

WIDTH: Final = 110
_LEFT: Final = 3
_INDENT: Final = (0, 0, 0, _LEFT)
_MARKS: Final = ("→", "←", "✓", "✗")
_MARK_WIDTH: Final = 2


class CheckFailedError(Exception):
    """A check found something else than it expected; it has been told already."""


@dataclass(slots=True)
class Outcome:
    """How one step went. milliseconds: how long it took."""

    title: str
    checks: int = 0
    passed: bool = False
    milliseconds: float = 0


class Teller:
    """Prints, checks and counts."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.checks = 0

    def title(self, text: str) -> None:
        self._console.print()
        self._console.print(Rule(Text(text, style="bold cyan"), align="left", style="cyan"))

    def say(self, text: str) -> None:
        """A sentence that leads on."""
        self._line(Text(text, style="italic"))

    def sent(self, text: str) -> None:
        self._line(Text.assemble(("→ ", "bold blue"), text))

    def got(self, text: str, milliseconds: float | None = None) -> None:
        took = f"  {milliseconds:.1f} ms" if milliseconds is not None else ""
        self._line(Text.assemble(("← ", "bold magenta"), text, (took, "dim")))

    def panel(self, title: str, rows: Sequence[tuple[str, str]]) -> None:
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="cyan", no_wrap=True)
        grid.add_column(overflow="fold")
        for name, value in rows:
            grid.add_row(name, Text(value))
        panel = Panel(grid, title=title, title_align="left", border_style="dim", expand=False)
        self._console.print(Padding(panel, _INDENT, expand=False))

    def table(
        self, columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: frozenset[str] = frozenset()
    ) -> None:
        table = Table(box=None, header_style="bold", padding=(0, 1), pad_edge=False)
        for column in columns:
            table.add_column(column, justify="right" if column in right else "left", overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        self._console.print(Padding(table, _INDENT, expand=False))

    def equal(self, what: str, *, expected: object, found: object) -> None:
        """The found value is the expected one."""
        self._check(what, expected == found, expected, found)

    def holds(self, what: str, *, expected: str, found: str) -> None:
        """The found text has the expected one in it."""
        self._check(what, expected in found, f"…{expected}…", found)

    def at_most(self, what: str, *, limit: float, found: float) -> None:
        self._check(what, found <= limit, f"at most {limit:g}", found)

    def at_least(self, what: str, *, limit: float, found: float) -> None:
        self._check(what, found >= limit, f"at least {limit:g}", found)

    def failed(self, why: str) -> None:
        """A step broke before it could be checked."""
        self._line(Text.assemble(("✗ ", "bold red"), why))

    def verdict(self, outcomes: Sequence[Outcome], *, steps: int, milliseconds: float) -> None:
        good = is_good(outcomes, steps=steps)
        grid = Table.grid(padding=(0, 2))
        for outcome in outcomes:
            mark = Text("✓", style="bold green") if outcome.passed else Text("✗", style="bold red")
            took = Text(f"{outcome.checks} checks, {outcome.milliseconds / 1000:.1f} s", style="dim")
            grid.add_row(mark, Text(outcome.title), took)
        said = (
            "Every step did what it should" if good else f"{len(outcomes)} of {steps} steps were played, not all well"
        )
        self._console.print()
        self._console.print(
            Panel(
                grid,
                title=f"{said} ({milliseconds / 1000:.1f} s)",
                title_align="left",
                border_style="green" if good else "red",
                expand=False,
            )
        )

    def _check(self, what: str, passed: bool, expected: object, found: object) -> None:
        self.checks += 1
        if passed:
            self._line(Text.assemble(("✓ ", "bold green"), what))
            return
        self._line(Text.assemble(("✗ ", "bold red"), what))
        self._line(Text(f"    expected: {_shown(expected)}"))
        self._line(Text(f"    found:    {_shown(found)}"))
        raise CheckFailedError(what)

    def _line(self, text: Text) -> None:
        """One line, indented; what does not fit goes on below its first word."""
        hanging = _MARK_WIDTH if text.plain[:1] in _MARKS else 0
        room = self._console.width - _LEFT - hanging
        head, body = text[:hanging], text[hanging:]
        for number, line in enumerate(body.wrap(self._console, room)):
            self._console.print(Text(" " * _LEFT) + (Text(" " * hanging) if number else head) + line)


Step: TypeAlias = tuple[str, Callable[[], Awaitable[None]]]


async def play(teller: Teller, steps: Sequence[Step]) -> int:
    """Play the steps in order, up to the first that fails; the exit code: 0 for a good story."""
    began = time.perf_counter()
    outcomes: list[Outcome] = []
    for number, (title, step) in enumerate(steps, 1):
        teller.title(f"{number}  {title}")
        outcome = Outcome(title)
        outcomes.append(outcome)
        before, since = teller.checks, time.perf_counter()
        try:
            await step()
            outcome.passed = True
        except CheckFailedError:
            pass
        except Exception as error:  # whatever breaks a step is told, and the story ends badly
            teller.failed(f"{type(error).__name__}: {error}")
        outcome.checks = teller.checks - before
        outcome.milliseconds = (time.perf_counter() - since) * 1000
        if not outcome.passed:
            break
    teller.verdict(outcomes, steps=len(steps), milliseconds=(time.perf_counter() - began) * 1000)
    return 0 if is_good(outcomes, steps=len(steps)) else 1


def is_good(outcomes: Sequence[Outcome], *, steps: int) -> bool:
    """Rule 2."""
    return len(outcomes) == steps > 0 and all(outcome.passed and outcome.checks > 0 for outcome in outcomes)


def shorten(value: Any, limit: int = 72) -> str:
    """JSON in one line, cut where it is long."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _shown(value: object) -> str:
    return value if isinstance(value, str) else repr(value)
