"""Which rule decided: the step of `decide`, and where the files say it.

| outcome                                        | step         | stands at                                            |
|------------------------------------------------|--------------|------------------------------------------------------|
| `client_not_permitted`, `token_issuer_unknown` | 1 reach      | the client's `tools`, the issuers                     |
| `ceiling_exceeded`                             | 1, or 6      | the ceiling                                           |
| `task_missing`, `task_unknown`                 | 2 task       | the tasks                                             |
| `task_not_allowed`                             | 2 task       | the task's `allow`                                    |
| `arguments_required`                           | 3, or 5      | the roots, or the template, that wait for a value      |
| `arguments_invalid`                            | 3, or 5      | the contract, or the template that names the value     |
| `argument_outside_root`                        | 4 roots      | the argument's `within`                               |
| `argument_separator`                           | 5 scopes     | the template                                          |
| `scope_not_in_task`                            | 5 scopes     | the task's `scopes`                                   |
| `scope_not_granted`                            | 5, or 7      | the scopes, or the task's `scopes`                    |
| a permit                                       | 7 request    | the task                                              |
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from broker.domain.errors import Reason, Refusal
from broker.domain.ids import TaskName
from broker.domain.policy.decide import Permit, tasks_for
from broker.domain.policy.document import Principal, VersionPolicy
from broker.domain.schema.dialect import escape

STEPS: Final = {
    0: "version",
    1: "reach",
    2: "task",
    3: "arguments",
    4: "roots",
    5: "scopes",
    6: "ceilings",
    7: "request",
}
_CEILING: Final = re.compile(r"trust\.yaml/(clients|issuers)/(.+?)/ceiling")


@dataclass(frozen=True, slots=True)
class Deciding:
    """The rule that decided. pointer: into the version, or into `trust.yaml` where `in_trust`."""

    step: int
    pointer: str
    in_trust: bool = False

    @property
    def rule(self) -> str:
        """As people name it: `tasks/report/allow`, `arguments/path/within`, `trust.yaml/clients/reporting-mcp/tools`."""
        read = self.pointer.replace("/~1", "/").replace("~1", "/").replace("~0", "~")
        return f"trust.yaml{read}" if self.in_trust else read[1:]


def deciding(
    outcome: Permit | Refusal, version: VersionPolicy, *, principal: Principal, task: TaskName | None
) -> Deciding:
    """The rule behind an outcome of `decide` for this version, principal and task."""
    if isinstance(outcome, Permit):
        return Deciding(7, f"/tasks/{escape(outcome.task)}")
    named = task if task is not None else next(iter(tasks_for(version, principal)), TaskName(""))
    at_task = f"/tasks/{escape(named)}"
    _, found, template = (outcome.why or "").partition("/scopes/")
    at_template = f"/scopes/{escape(template)}" if found else "/scopes"
    match outcome.reason:
        case Reason.CLIENT_NOT_PERMITTED:
            return Deciding(1, f"/clients/{escape(principal.client)}/tools", in_trust=True)
        case Reason.TOKEN_ISSUER_UNKNOWN:
            return Deciding(1, "/issuers", in_trust=True)
        case Reason.CEILING_EXCEEDED:
            return _ceiling(outcome)
        case Reason.TASK_NOT_ALLOWED:
            return Deciding(2, f"{at_task}/allow")
        case Reason.TASK_MISSING | Reason.TASK_UNKNOWN:
            return Deciding(2, "/tasks")
        case Reason.ARGUMENTS_REQUIRED if not (outcome.where or "").startswith("/"):
            return Deciding(3, _waiting(version, named))
        case Reason.ARGUMENTS_INVALID if not found:
            return Deciding(3, "/contract")
        case Reason.ARGUMENT_OUTSIDE_ROOT:
            return Deciding(4, f"/arguments/{escape(outcome.where or '')}/within")
        case Reason.SCOPE_NOT_IN_TASK:
            return Deciding(5, f"{at_task}/scopes")
        case Reason.SCOPE_NOT_GRANTED if outcome.where == "scope":
            return Deciding(7, f"{at_task}/scopes")
        case Reason.SCOPE_NOT_GRANTED:
            return Deciding(5, "/scopes")
        case Reason.ARGUMENTS_REQUIRED | Reason.ARGUMENTS_INVALID | Reason.ARGUMENT_SEPARATOR:
            return Deciding(5, at_template)
        case _:
            return Deciding(0, "")


def _ceiling(outcome: Refusal) -> Deciding:
    step = 6 if outcome.where == "scope" else 1
    found = _CEILING.search(outcome.why or "")
    pointer = f"/{found[1]}/{escape(found[2])}/ceiling" if found is not None else ""
    return Deciding(step, pointer, in_trust=True)


def _waiting(version: VersionPolicy, task: TaskName) -> str:
    """Where it is said that arguments decide, in the order in which `decide` looks."""
    for pointer, argument in version.arguments.items():
        if argument.within:
            return f"/arguments/{escape(pointer)}/within"
    rule = version.tasks.get(task)
    for template in rule.scopes if rule is not None else ():
        if version.scopes[template].placeholders:
            return f"/scopes/{escape(template)}"
    return "/scopes"
