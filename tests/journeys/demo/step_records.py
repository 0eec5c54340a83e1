"""Step 7: the audit records of the whole story."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .scene import Scene

_CALL_TYPES = ("mint", "mint.deny", "tool.call.start", "tool.call.end", "tool.call.deny", "release")

DENIED: Final = {"version_not_routed", "task_not_allowed", "argument_outside_root", "arguments_invalid"}

LIVES: Final = {
    "db.query@3": ["publish", "promote", "retire"],
    "db.query@4": ["publish", "canary", "rollback", "canary", "promote"],
}


@dataclass(frozen=True, slots=True)
class Row:
    """The records of one call, or one other record, as a line. time: of its first record."""

    index: int
    time: str
    what: str
    tool: str
    who: str
    task: str
    outcome: str

    @property
    def likeness(self) -> tuple[str, ...]:
        return (self.what, self.tool, self.who, self.task, self.outcome)


async def records(scene: Scene) -> None:
    tell = scene.tell
    found = await scene.operators.records_when(_is_settled, "records of every call's end and of every refusal")
    tell.say(f"{len(found)} records, the calls among them folded into one line each.")
    rows = _fold(found)
    tell.table(
        ("#", "time", "records", "tool", "who", "task", "outcome"),
        [(str(row.index), row.time, row.what, row.tool, row.who, row.task, _times(row, count)) for row, count in rows],
        right=frozenset({"#"}),
    )

    kinds = Counter(record["type"] for record in found)
    shown = {kind: kinds[kind] for kind in ("tool.call.start", "tool.call.end", "release")}
    started = kinds["tool.call.start"]
    tell.equal(
        "every call that was started is ended, and its credential given back",
        expected={"tool.call.start": started, "tool.call.end": started, "release": started},
        found=shown,
    )
    minted = {record["jti"] for record in found if record["type"] == "mint"}
    used = {record["jti"] for record in found if record["type"] in ("tool.call.start", "tool.call.end", "release")}
    tell.equal("none ran without a credential on record", expected=set(), found=used - minted)
    for version, life in LIVES.items():
        lived = [record["type"].removeprefix("version.") for record in found if _is_about(record, version)]
        tell.equal(f"the life of {version} is all there, in order", expected=life, found=lived)
    order = [(record["gen"], record["gseq"]) for record in found if "gseq" in record]
    tell.equal("numbered by the store, none twice", expected=len(order), found=len(set(order)))
    text = json.dumps(found)
    secrets = [caller.token for caller in (scene.ana, scene.bob, scene.dora, scene.eve)]
    secrets += [scene.first_canary.token] if scene.first_canary else []
    leaked = [secret[:12] for secret in secrets if secret in text or secret.rsplit(".", 1)[1] in text]
    tell.equal("no token of the story is in the records", expected=[], found=leaked)
    raw = [word for word in ("from readings", "passwd", "delete from") if word in text]
    tell.equal("and no raw argument", expected=[], found=raw)


def _is_settled(found: Sequence[Mapping[str, Any]]) -> bool:
    kinds = Counter(record["type"] for record in found)
    denied = {record["reason"] for record in found if record["type"] == "tool.call.deny"}
    return denied >= DENIED and kinds["tool.call.start"] == kinds["tool.call.end"] == kinds["release"]


def _is_about(record: Mapping[str, Any], version: str) -> bool:
    return record["type"].startswith("version.") and f"{record['tool']}@{record['version']}" == version


def _fold(found: Sequence[Mapping[str, Any]]) -> list[tuple[Row, int]]:
    """One row for the records of one call; neighbours that are alike are counted instead of repeated."""
    transactions = {record["jti"]: record["txn"] for record in found if record["type"] == "mint"}
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for record in found:
        call = record["type"] in _CALL_TYPES
        key = (record.get("txn") or transactions.get(record.get("jti"))) if call else None
        groups.setdefault(key or record["id"], []).append(record)
    rows: list[tuple[Row, int]] = []
    for group in groups.values():
        row = _row(group)
        if rows and rows[-1][0].likeness == row.likeness:
            rows[-1] = (rows[-1][0], rows[-1][1] + 1)
        else:
            rows.append((row, 1))
    return rows


def _row(group: Sequence[Mapping[str, Any]]) -> Row:
    first = group[0]
    call = first["type"] in _CALL_TYPES
    facts = {name: next((r[name] for r in group if r.get(name)), "") for name in ("tool", "version", "account", "task")}
    tool = f"{facts['tool']}@{facts['version']}" if facts["version"] else facts["tool"]
    return Row(
        index=first["index"],
        time=first["ts"][11:23],
        what=" ".join(r["type"].removeprefix("tool.call.") for r in group) if call else first["type"],
        tool=tool,
        who=facts["account"] or first.get("by") or "",
        task=facts["task"],
        outcome=_outcome(group),
    )


def _outcome(group: Sequence[Mapping[str, Any]]) -> str:
    for record in group:
        if record["type"] in ("mint.deny", "tool.call.deny"):
            return str(record["reason"])
        if record["type"] == "tool.call.end":
            return str(record["status"])
    first = group[0]
    if first["type"] == "mint":
        return " ".join(first["scopes"])
    if first.get("revoked"):
        return f"revokes {', '.join(first['revoked'])}"
    return str(first.get("reason") or "")


def _times(row: Row, count: int) -> str:
    return row.outcome if count == 1 else f"{row.outcome} × {count}".strip()
