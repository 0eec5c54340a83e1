"""What a receipt looks like to people: who had applied the revocation, whose lease had run out, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import unquote

from broker.cli.shown import shown
from broker.domain.revocation.feed import spell_point
from broker.domain.revocation.lease import Holder
from broker.domain.revocation.statement import Statement

LISTED: Final = 50
"""Verifiers in a table on the terminal; the receipt itself names more."""


def receipt_lines(statement: Statement) -> Iterator[str]:
    """The table of a receipt, and what it says."""
    rows = [(holder, "lease ran out") for holder in statement.expired]
    rows += [(holder, f"applied {spell_point(holder.applied)}") for holder in statement.acknowledged]
    if rows:
        yield from _table(rows[:LISTED])
    more = statement.expired_count + statement.acknowledged_count - len(rows[:LISTED])
    if more:
        yield f"and {more} more; in all {_counted(statement)}"
    elif not rows and statement.elapsed_ms >= statement.lease_ms:
        yield "no verifier held a lease, and one that is not known of would have run out by now"
    elif not rows:
        yield "no verifier held a lease; there was nobody to wait for"
    if not statement.recorded:
        yield "effective, not recorded: the audit log did not have this revocation yet when the receipt was given"


def _table(rows: Sequence[tuple[Holder, str]]) -> Iterator[str]:
    cells = [("verifier", "client", "how")]
    cells += [(shown(holder.verifier), shown(holder.client), how) for holder, how in rows]
    widths = [max(len(row[column]) for row in cells) for column in (0, 1)]
    for verifier, client, how in cells:
        yield f"{verifier:<{widths[0]}}  {client:<{widths[1]}}  {how}"


def _counted(statement: Statement) -> str:
    return f"{statement.acknowledged_count} applied it and {statement.expired_count} lost the lease"


def progress_line(told: Mapping[str, Any]) -> str:
    """How a wait stands."""
    settled = told["acknowledged"] + told["expired"]
    left = f"{told['seconds_left']:.1f} s left at most"
    if not told["verifiers"]:
        return f"no verifier holds a lease that is known of; {left}"
    line = f"{told['acknowledged']} of {told['verifiers']} verifiers have applied it"
    if told["expired"]:
        line += f", {told['expired']} lost the lease"
    if settled == told["verifiers"]:
        return f"{line}; {left}"
    names = ", ".join(f"{shown(each['verifier'])} ({shown(each['client'])})" for each in told["waiting"][:3])
    waiting = told["verifiers"] - settled
    return f"{line}; waiting for {names}{f' and {waiting - 3} more' if waiting > 3 else ''}; {left}"


def conclusion(revoked: Sequence[str]) -> list[str]:
    """What a receipt proves when it is given, one sentence for each revocation scope."""
    return [f"No verifier can accept {_what(scope)} any more." for scope in revoked]


def conclusion_of(statement: Statement) -> list[str]:
    """What a receipt proved when it was given; a version may have come back since."""
    told = statement.revocation
    since = datetime.fromtimestamp(statement.issued_at, UTC)
    before = shown(told.at) if told.at else "then"
    return [
        f"Since {since:%Y-%m-%d %H:%M:%S} UTC no verifier accepts {_what(scope, before=before)}."
        for scope in told.revoked
    ]


def _what(scope: str, *, before: str | None = None) -> str:
    """The credentials that a revocation scope holds. before: when those that it killed were minted, if that is to be said."""
    kind, _, name = scope.partition(":")
    parts = [shown(unquote(part)) for part in name.split("|")]
    one = "an earlier credential" if before is None else "a credential"
    minted = "" if before is None else f" that was minted before {before}"
    match kind, parts:
        case "all", _:
            return f"{one}{minted}"
        case "key", [kid]:
            return f"a credential signed with the key {kid}"
        case "jti", [jti]:
            return f"the credential {jti}"
        case "version", [version]:
            return f"a credential of {version}{minted}"
        case "tool", [tool]:
            return f"{one} of any version of {tool}{minted}"
        case "policy", [policy]:
            return f"{one} that was granted by the policy {policy}{minted and f' and minted before {before}'}"
        case "client", [client]:
            return f"{one} of the client {client}{minted}"
        case (("agent" | "account"), [issuer, who]):
            return f"{one} of the {kind} {who} of {issuer}{minted}"
        case "pair", [_, agent, issuer, account]:
            return f"{one} of the agent {agent} for the account {account} of {issuer}{minted}"
        case "chain", [jti]:
            return f"{one} of the chain that began with {jti}{minted}"
    return f"{one} in {shown(scope)}{minted}"
