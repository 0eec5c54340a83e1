"""Access: who may have what for how long; and whether one access is wider than another.

What a published version grants is frozen; who may have it may shrink in place: `allow`, `ttl`, `uses`, `online`, a whole task.

1. A task that was not there is wider.
2. Fewer clients or claims to choose from is narrower; a requirement that goes (no `clients` where there were some, a claim that
   is no longer asked for) is wider, unless nothing is left at all, which allows nobody.
3. More seconds, more uses or uncounted uses are wider; so is a credential that need no longer be asked about at each use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from broker.domain.ids import TaskName
from broker.domain.policy.document import TaskRule


@dataclass(frozen=True, slots=True)
class Growth:
    """One thing that is wider than before. what: `task`, `allow`, `ttl`, `uses`, `online` or `scopes`."""

    task: TaskName
    what: str
    before: str
    after: str


def access_growth(old: Mapping[TaskName, TaskRule], new: Mapping[TaskName, TaskRule]) -> Iterator[Growth]:
    """What is wider in the new tasks than in the old ones; the scopes of tasks are not looked at."""
    for name, task in new.items():
        before = old.get(name)
        if before is None:
            yield Growth(name, "task", "no such task", spell_allow(task))
            continue
        if allow_grown(before, task):
            yield Growth(name, "allow", spell_allow(before), spell_allow(task))
        if task.ttl_seconds > before.ttl_seconds:
            yield Growth(name, "ttl", f"{before.ttl_seconds}s", f"{task.ttl_seconds}s")
        if before.uses is not None and (task.uses is None or task.uses > before.uses):
            yield Growth(name, "uses", str(before.uses), "uncounted" if task.uses is None else str(task.uses))
        if before.online and not task.online:
            yield Growth(name, "online", "true", "false")


def allow_grown(old: TaskRule, new: TaskRule) -> bool:
    """Whether somebody could have the new task who could not have the old one."""
    if not new.clients and not new.claims:
        return False
    if not old.clients and not old.claims:
        return True
    if old.clients and (not new.clients or not set(new.clients) <= set(old.clients)):
        return True
    return any(
        name not in new.claims or not set(new.claims[name]) <= set(values) for name, values in old.claims.items()
    )


def spell_allow(task: TaskRule) -> str:
    """Who may have a task, in words."""
    parts = [f"client {' or '.join(task.clients)}"] if task.clients else []
    parts += [f"{name} {' or '.join(values)}" for name, values in task.claims.items()]
    return " and ".join(parts) or "nobody"
