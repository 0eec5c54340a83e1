"""Commands that wait for a receipt: the command acts, progress is shown, then the receipt.

1. On a terminal progress is one line that changes; into a pipe or file it is plain lines, on stderr.
2. Whatever ends the wait, an interrupt or a lost broker: what has acted is said to have acted, and how to get the receipt.
3. Exit codes: 0 with the receipt, 5 where the command acted and there is no receipt, 130 where the wait was interrupted.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import click

from broker.cli.admin_client import AdminClient, Answer, AwayError
from broker.cli.receipt_text import conclusion, conclusion_of, progress_line, receipt_lines
from broker.domain.revocation.statement import StatementError, read_statement

WITHOUT_RECEIPT: Final = 5
INTERRUPTED: Final = 130
_ERASE: Final = "\r\x1b[K"


def run_waiting(
    client: AdminClient,
    method: str,
    path: str,
    *,
    what: str,
    show: Callable[[Answer], None],
    as_json: bool,
    body: Mapping[str, Any] | None = None,
    is_earlier: bool = False,
) -> None:
    """Run a command with `wait`, then show its answer and its receipt. what: the command, as people call it.

    is_earlier: it asks for the receipt of what was done before.
    """
    wait = _Wait(what)
    try:
        for line in client.follow(method, path, body=body, query={"wait": "true"}):
            wait.take(line)
    except KeyboardInterrupt:
        wait.end()
        wait.say_so(f"interrupted; whether {what} has acted is not known, look before you repeat it")
        sys.exit(INTERRUPTED)
    except AwayError as error:
        wait.end()
        if wait.acted is None:
            raise
        wait.say_so(str(error))
        sys.exit(WITHOUT_RECEIPT)
    wait.end()
    _finish(wait, show=show, as_json=as_json, is_earlier=is_earlier)


def _finish(wait: _Wait, *, show: Callable[[Answer], None], as_json: bool, is_earlier: bool) -> None:
    answer = wait.answer
    if answer is None or answer.get("receipt") is None:
        wait.acted = answer or wait.acted
        failure = wait.failure
        wait.say_so(failure or "the broker gave no receipt; is it an older one?")
        sys.exit(WITHOUT_RECEIPT)
    if as_json:
        click.echo(json.dumps(answer, indent=2, ensure_ascii=False))
        return
    show(answer)
    show_receipt(answer["receipt"], is_earlier=is_earlier)


def show_receipt(receipt: Mapping[str, Any], *, is_earlier: bool) -> None:
    """A receipt for people. is_earlier: of a revocation that was made before."""
    try:
        statement = read_statement({name: value for name, value in receipt.items() if name != "statement"})
    except StatementError as error:
        raise AwayError(f"what the broker calls a receipt cannot be read: {error}") from None
    ending = conclusion_of(statement) if is_earlier else conclusion(statement.revocation.revoked)
    for line in (*receipt_lines(statement), *ending):
        click.echo(line)


class _Wait:
    """What has been heard so far. acted: the command's answer without a receipt, once it is known to have acted."""

    def __init__(self, what: str) -> None:
        self.acted: Answer | None = None
        self.answer: Answer | None = None
        self.failure: str | None = None
        self._what = what
        self._is_terminal = sys.stderr.isatty()
        self._is_open = False

    def take(self, line: Answer) -> None:
        match line.pop("event", None):
            case "acted":
                self.acted = line
            case "progress":
                self._show_progress(progress_line(line))
            case "failure":
                self.failure = f"{line['error_description']} (request {line['request_id']})"
            case _:
                self.answer = line

    def _show_progress(self, text: str) -> None:
        if self._is_terminal:
            click.echo(f"{_ERASE}{text}", nl=False, err=True)
            self._is_open = True
        else:
            click.echo(text, err=True)

    def end(self) -> None:
        """Take the changing line away."""
        if self._is_open:
            click.echo(_ERASE, nl=False, err=True)
            self._is_open = False

    def say_so(self, why: str) -> None:
        """Why there is no receipt; and what that does not change."""
        click.echo(f"broker: {why}", err=True)
        if self.acted is None:
            return
        at = f"{self.acted['gen']}:{self.acted['seq']}"
        click.echo(
            f"{self._what} has acted, at {at}: what it revoked is dead. For its receipt: broker receipt show {at} --wait",
            err=True,
        )
