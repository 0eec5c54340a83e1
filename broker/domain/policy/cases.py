"""Test cases of a policy: what is asked, and what should become of it.

1. A case names the version, the client and the issuer; task, claims, arguments and scope are as the caller would give them.
2. It expects either the scopes of a permit, or the reason of a refusal. It may add how long a permit lives, how often it
   may be used, and which rule decides (`tasks/report/allow`); what it does not state is not looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker.domain.canonical import JsonObject
from broker.domain.ids import ClientId, TaskName, ToolName, Version
from broker.domain.policy.located import Located, plain
from broker.domain.policy.parse_trust import parse_duration


@dataclass(frozen=True, slots=True)
class PolicyCase:
    """One case of a tool's test file.

    arguments: None where the caller gives none. requested: None where it asks for no scope in particular.
    permit:    the scopes it expects; None where it expects a refusal. refuse: the expected reason, else None.
    node:      the case in its file; `name_node` is where its name stands.
    """

    tool: ToolName
    name: str
    version: Version
    client: ClientId
    issuer: str
    task: TaskName | None
    claims: Mapping[str, frozenset[str]]
    arguments: JsonObject | None
    requested: frozenset[str] | None
    permit: frozenset[str] | None
    refuse: str | None
    node: Located
    ttl_seconds: int | None = None
    uses: int | None = None
    rule: str | None = None


def parse_cases(root: Located) -> tuple[PolicyCase, ...]:
    """The cases of a test file whose form has been checked; what is unreadable is left out, since it has been reported."""
    tool = root.text("tool")
    listed = root.get("cases")
    if tool is None or listed is None:
        return ()
    made = []
    for node in listed.items():
        request = node.get("request")
        version = request.text("version") if request is not None else None
        client = request.text("client") if request is not None else None
        issuer = request.text("issuer") if request is not None else None
        if request is None or version is None or client is None or issuer is None:
            continue
        task, arguments, uses = request.text("task"), request.get("arguments"), node.get("uses")
        made.append(
            PolicyCase(
                tool=ToolName(tool),
                name=node.text("name") or "",
                version=Version(version),
                client=ClientId(client),
                issuer=issuer,
                task=TaskName(task) if task is not None else None,
                claims={
                    name: frozenset(str(item.value) for item in child.items())
                    for name, child in request.children("claims")
                },
                arguments=_object(arguments),
                requested=frozenset(request.texts("scope")) if request.get("scope") is not None else None,
                permit=frozenset(node.texts("permit")) if node.get("permit") is not None else None,
                refuse=node.text("refuse"),
                node=node,
                ttl_seconds=parse_duration(node, "ttl", 0) or None,
                uses=uses.value if uses is not None and isinstance(uses.value, int) else None,
                rule=node.text("rule"),
            )
        )
    return tuple(made)


def _object(node: Located | None) -> JsonObject | None:
    value = plain(node) if node is not None else None
    return value if isinstance(value, dict) else None
