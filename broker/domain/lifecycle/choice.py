"""Which version an exchange is for: the one that was named, if this principal may have it, or the one it is routed to.

| named version                        | is                                                              |
|--------------------------------------|-----------------------------------------------------------------|
| none                                 | the one that the principal is routed to (`cohort.routed`)       |
| unknown                              | refused, hard                                                   |
| only published                       | refused: not served yet                                         |
| retired, rolled back                 | refused, with the current version: list again, retry once       |
| a canary, principal not in its cohort | refused                                                         |
| any other mintable one               | that one                                                        |
"""

from __future__ import annotations

from typing import Final

from broker.domain.errors import Reason, Refusal
from broker.domain.ids import ToolName, Version
from broker.domain.lifecycle.cohort import may_declare, routed
from broker.domain.lifecycle.states import LifecycleView, State, VersionRecord

_WHERE: Final = "authorization_details/0/version"
_GONE: Final = {
    State.PUBLISHED: Reason.VERSION_NOT_SERVED,
    State.RETIRED: Reason.VERSION_RETIRED,
    State.ROLLED_BACK: Reason.VERSION_ROLLED_BACK,
}


def choose(
    view: LifecycleView, tool: ToolName, version: Version | None, *, agent: str, account: str
) -> VersionRecord | Refusal:
    """The version record for a principal's call, or why there is none."""
    records = view.of(tool)
    if not records:
        return Refusal(
            Reason.TOOL_UNKNOWN, "a tool that was published here was expected", where="authorization_details/0/tool"
        )
    if version is None:
        current = routed(records, agent=agent, account=account)
        if current is None:
            return Refusal(Reason.VERSION_NOT_SERVED, "no version of this tool is served", where=_WHERE)
        return current
    record = view.get(tool, version)
    if record is None:
        return Refusal(Reason.VERSION_UNKNOWN, f"{tool} has no version {version}", where=_WHERE)
    if may_declare(record, agent=agent, account=account):
        return record
    current = routed(records, agent=agent, account=account)
    return Refusal(
        _GONE.get(record.state, Reason.VERSION_NOT_ROUTED),
        f"{record.id} is {record.state.value}" + (f"; the current version is {current.version}" if current else ""),
        where=_WHERE,
        data=(("current", current.version),) if current else (),
    )
