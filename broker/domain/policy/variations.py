"""Requests that differ from a given one as little as can be: what `policy explain` tries.

| aspect    | differs in                                                                      |
|-----------|---------------------------------------------------------------------------------|
| scope     | it asks for no scope in particular                                               |
| task      | it names another task                                                           |
| principal | a claim has one value more, or is gone; the client or the issuer is another        |
| both      | another task, and a principal whom it lets in                                      |
| arguments | one value lies under a root, one is exchanged or left out (`nearby`)               |

Each comes with words that complete "it would be different …". Nothing here decides: each is tried by whoever asks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.policy.document import Policy, VersionPolicy
from broker.domain.policy.nearby import nearby
from broker.domain.policy.principals import Who, clients_for, issuers_for, let_in
from broker.domain.policy.trials import Request
from broker.domain.schema.dialect import escape, unescape

_SHOWN: Final = 80
_MAX_NEARBY: Final = 2_000


@dataclass(frozen=True, slots=True)
class Variation:
    """aspect: as in the table."""

    aspect: str
    words: str
    request: Request


def variations(request: Request, version: VersionPolicy, policy: Policy) -> Iterator[Variation]:
    """The nearest first, within each aspect."""
    if request.requested is not None:
        yield Variation("scope", "without asking for a scope in particular", replace(request, requested=None))
    for name in version.tasks:
        if name != request.task:
            yield Variation("task", f"with the task {name}", replace(request, task=name))
    yield from _principals(request, version, policy)
    yield from _both(request, version, policy)
    if request.arguments is not None:
        yield from _arguments(request, request.arguments, version)


def _principals(request: Request, version: VersionPolicy, policy: Policy) -> Iterator[Variation]:
    named = version.tasks.get(request.task) if request.task is not None else None
    tasks = [named] if named is not None else list(version.tasks.values())
    seen = set()
    for task in tasks:
        for name, values in task.claims.items():
            for value in values:
                has = request.claims.get(name, frozenset())
                if value not in has and (name, value) not in seen:
                    seen.add((name, value))
                    claims = {**request.claims, name: has | {value}}
                    yield Variation("principal", f"with {name} {value}", replace(request, claims=claims))
    for client in clients_for(version, policy):
        if client != request.client:
            yield Variation("principal", f"as the client {client}", replace(request, client=client))
    for issuer in issuers_for(version, policy):
        if issuer != request.issuer:
            yield Variation("principal", f"with a token of {issuer}", replace(request, issuer=issuer))
    for name in request.claims:
        rest = {key: values for key, values in request.claims.items() if key != name}
        yield Variation("principal", f"without {name}", replace(request, claims=rest))


def _both(request: Request, version: VersionPolicy, policy: Policy) -> Iterator[Variation]:
    for task in version.tasks.values():
        for who in let_in(task, version, policy):
            claims = {**request.claims, **who.claims}
            for client in dict.fromkeys((request.client, who.client)):
                changed = replace(request, task=task.task, client=client, issuer=who.issuer, claims=claims)
                yield Variation(
                    "both", f"with the task {task.task}, {spell_who(Who(client, who.issuer, claims))}", changed
                )


def _arguments(request: Request, arguments: JsonObject, version: VersionPolicy) -> Iterator[Variation]:
    for pointer, rule in version.arguments.items():
        for root in rule.within:
            moved = _under(arguments, pointer, rule.kind, root)
            if moved is not None and moved != arguments:
                yield Variation("arguments", difference(arguments, moved), replace(request, arguments=moved))
    for count, near in enumerate(nearby(arguments, version.contract.input_schema)):
        if count == _MAX_NEARBY:
            return
        if near != arguments:
            yield Variation("arguments", difference(arguments, near), replace(request, arguments=near))


def _under(arguments: JsonObject, pointer: str, kind: str, root: str) -> JsonObject | None:
    """The arguments with the last part of the value at a pointer put under a root; None where no text stands there."""
    name, slash, rest = pointer[1:].partition("/")
    key = unescape(name)
    value = arguments.get(key)
    if slash:
        below = _under(value, f"/{rest}", kind, root) if isinstance(value, dict) else None
        return {**arguments, key: below} if below is not None else None
    if not isinstance(value, str):
        return None
    last = value.rstrip("/").rpartition("/")[2].strip(". ") or "x"
    moved = root.replace("*.", "x.") if kind == "host" else f"{root.rstrip('/')}/{last}"
    return {**arguments, key: moved}


def spell_who(who: Who) -> str:
    """A principal in words."""
    said = [f"{name} {' and '.join(sorted(values))}" for name, values in sorted(who.claims.items()) if values]
    return ", ".join((f"the client {who.client}", *said))


def difference(old: JsonValue, new: JsonValue, pointer: str = "") -> str:
    """Where two values differ first, in words: `without /mode`, `with /mode "read"`."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in old:
            if name not in new:
                return f"without {pointer}/{escape(name)}"
            if old[name] != new[name]:
                return difference(old[name], new[name], f"{pointer}/{escape(name)}")
        for name in new:
            if name not in old:
                return f"with {pointer}/{escape(name)} {shown(new[name])}"
    return f"with {pointer or 'the arguments'} {shown(new)}"


def shown(value: JsonValue) -> str:
    """A value on one line, not too long."""
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
