"""From arguments to scopes: steps 3 to 5 of the decision (`decide.py` has the whole).

3. Arguments. Absent, they are no obstacle unless an argument has roots or a granted scope names one. Present, they fit
              the contract and its closure.
4. Roots.     Every argument with `within` is brought to its normal form and lies under a root.
5. Scopes.    Arguments present: those that they need, all of which the task grants. Absent: all that the task grants.
              Templates are filled with normal forms that a scope can carry. Nothing needed is nothing granted: refused.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.errors import Reason, Refusal
from broker.domain.ids import version_id
from broker.domain.policy.document import ArgumentFacts, TaskRule, VersionPolicy
from broker.domain.policy.roots import normalise, within
from broker.domain.policy.templates import fill, safe_value
from broker.domain.schema.dialect import unescape
from broker.domain.scopes import ScopeSet


def scopes_without_arguments(version: VersionPolicy, task: TaskRule, rule: str) -> ScopeSet | Refusal:
    """What the task grants where no arguments are given; refused where they decide. `rule` names the task's rule."""
    wanting = [pointer for pointer, argument in version.arguments.items() if argument.within]
    wanting += [pointer for template in task.scopes for pointer in version.scopes[template].placeholders]
    if wanting:
        return Refusal(
            Reason.ARGUMENTS_REQUIRED,
            f"what is granted depends on {wanting[0]}; give the full arguments",
            where="authorization_details/arguments",
            why=f"{rule}: {', '.join(dict.fromkeys(wanting))} decide",
        )
    return _filled(task.scopes, version, {}, rule)


def scopes_with_arguments(
    version: VersionPolicy, task: TaskRule, arguments: JsonObject, facts: ArgumentFacts, rule: str
) -> ScopeSet | Refusal:
    """What these arguments need, if the task grants all of it. `rule` names the task's rule."""
    if not facts.valid:
        return Refusal(
            Reason.ARGUMENTS_INVALID,
            facts.problem or "the arguments do not fit the contract",
            where="authorization_details/arguments",
            why=f"{version_id(version.tool, version.version)}/contract",
        )
    for pointer, argument in version.arguments.items():
        if argument.within and not all(
            isinstance(value, str) and within(argument.kind, value, argument.within) is not None
            for value in _values_at(arguments, pointer)
        ):
            return Refusal(
                Reason.ARGUMENT_OUTSIDE_ROOT,
                f"{pointer} leads outside what policy allows; give a {argument.kind} under "
                f"{' or '.join(argument.within)}, in plain form",
                where=pointer,
                why=f"{version_id(version.tool, version.version)}/arguments{pointer}/within",
            )
    missing = sorted(facts.needed.difference(task.scopes))
    if missing:
        return Refusal(
            Reason.SCOPE_NOT_IN_TASK,
            f"these arguments need {missing[0]}, which the task {task.task} does not grant; "
            "change the arguments or name another task",
            where="authorization_details/task",
            why=f"{rule}/scopes lacks {', '.join(missing)}",
        )
    return _filled(tuple(scope for scope in task.scopes if scope in facts.needed), version, arguments, rule)


def _values_at(arguments: JsonObject, pointer: str) -> Iterator[JsonValue]:
    """What stands at a pointer: nothing where it is absent or null; a list, there or on the way, stands for its members.

    Something on the way that is neither object nor list stands for what is in it: it is no place, so it is judged as one.
    """
    level: list[JsonValue] = [arguments]
    for step in pointer.split("/")[1:]:
        name = unescape(step)
        below: list[JsonValue] = []
        for node in _members(level):
            if not isinstance(node, dict):
                below.append(node)
            elif name in node:
                below.append(node[name])
        level = below
    for value in _members(level):
        if value is not None:
            yield value


def _members(values: list[JsonValue]) -> Iterator[JsonValue]:
    """The values, with the members of lists in their place, at any depth and in order."""
    pending = values[::-1]
    while pending:
        value = pending.pop()
        if isinstance(value, list):
            pending.extend(reversed(value))
        else:
            yield value


def _filled(templates: tuple[str, ...], version: VersionPolicy, arguments: JsonObject, rule: str) -> ScopeSet | Refusal:
    granted = set()
    for template in templates:
        values: dict[str, str] = {}
        for pointer in version.scopes[template].placeholders:
            value = _value_for_scope(version, arguments, pointer, template)
            if isinstance(value, Refusal):
                return value
            values[pointer] = value
        scope = fill(template, values)
        if scope is None:
            return _separator(template, template, version)
        granted.add(scope)
    if not granted:
        return Refusal(
            Reason.SCOPE_NOT_GRANTED,
            "these arguments need no scope, so there is nothing to grant",
            where="authorization_details/arguments",
            why=f"{rule}: no needed_when accepts the arguments",
        )
    return frozenset(granted)


def _value_for_scope(version: VersionPolicy, arguments: JsonObject, pointer: str, template: str) -> str | Refusal:
    found = list(_values_at(arguments, pointer))
    if len(found) != 1:
        return Refusal(
            Reason.ARGUMENTS_REQUIRED,
            f"the scope {template} names {pointer}; give exactly one value there",
            where=pointer,
            why=f"{version_id(version.tool, version.version)}/scopes/{template}",
        )
    value = found[0]
    if isinstance(value, bool) or not isinstance(value, str | int):
        return Refusal(
            Reason.ARGUMENTS_INVALID,
            f"the scope {template} names {pointer}; a string or an integer was expected there",
            where=pointer,
            why=f"{version_id(version.tool, version.version)}/scopes/{template}",
        )
    argument = version.arguments.get(pointer)
    kind = argument.kind if argument is not None else None
    text: str | None = str(value)
    if argument is not None and argument.kind in ("path", "url", "host"):
        text = normalise(argument.kind, str(value))
    if text is None or not safe_value(kind, text):
        return _separator(pointer, template, version)
    return text


def _separator(where: str, template: str, version: VersionPolicy) -> Refusal:
    return Refusal(
        Reason.ARGUMENT_SEPARATOR,
        f"the value at {where} holds something that the scope {template} cannot carry; "
        "use plain characters without `:`, `*`, `%`, spaces or quotes, and `/` only in a path",
        where=where,
        why=f"{version_id(version.tool, version.version)}/scopes/{template}",
    )
