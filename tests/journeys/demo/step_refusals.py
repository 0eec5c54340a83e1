"""Step 6: what is refused, and how the person in front of it reads that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from broker.domain.dispatch import Code

from .callers import Caller
from .scene import Scene
from .stage import REPORTS, REVENUE
from .use_log import read_uses


@dataclass(frozen=True, slots=True)
class Wrong:
    """A call that must not run. code: of the JSON-RPC error; None for a tool error, which the model can mend."""

    what: str
    caller: Caller
    arguments: Mapping[str, Any]
    code: Code | None
    says: str
    tool: str = "db.query"
    version: str | None = "4"
    task: str | None = "report"
    data: Mapping[str, Any] = field(default_factory=dict)


def wrong_calls(scene: Scene) -> list[Wrong]:
    query = {"query": REVENUE}
    return [
        Wrong(
            "a version that was never served",
            scene.ana,
            query,
            Code.SCHEMA_VERSION_UNKNOWN,
            "this version was never served",
            version="9",
        ),
        Wrong(
            "a task that policy does not allow",
            scene.eve,
            query,
            Code.CREDENTIAL_REFUSED,
            "task_not_allowed",
            data={"reason": "task_not_allowed"},
        ),
        Wrong(
            "a write, which version 4 no longer knows",
            scene.dora,
            {"query": "delete from revenue", "mode": "write"},
            None,
            "Invalid arguments for db.query@4: /mode",
        ),
        Wrong(
            "no version declared, and the timeout by its old name",
            scene.bob,
            {**query, "timeout_ms": 5000},
            Code.STRICT_VALIDATION_FAILED,
            "Call tools/list again",
            version=None,
            data={"action": "relist", "retry": "once"},
        ),
        Wrong(
            "a path that leads out of its root",
            scene.bob,
            {"path": f"{REPORTS}/../../etc/passwd"},
            Code.CREDENTIAL_REFUSED,
            "argument_outside_root",
            tool="files.read",
            version="1",
            data={"reason": "argument_outside_root"},
        ),
    ]


async def refusals(scene: Scene) -> None:
    tell = scene.tell
    logs = [scene.stage.path(name) for name in ("database-uses.jsonl", "files-uses.jsonl")]
    before = [len(read_uses(log)) for log in logs]
    for wrong in wrong_calls(scene):
        answer = await wrong.caller.ask(wrong.tool, wrong.arguments, version=wrong.version, task=wrong.task)
        kind, code = ("tool error", None) if wrong.code is None else ("error", int(wrong.code))
        found = (answer.kind, answer.code, {name: answer.data.get(name) for name in wrong.data})
        tell.equal(f"{wrong.what}: refused", expected=(kind, code, dict(wrong.data)), found=found)
        tell.holds(f"and the message says {wrong.says!r}", expected=wrong.says, found=answer.text)
    tell.equal("none of it reached an API", expected=before, found=[len(read_uses(log)) for log in logs])
