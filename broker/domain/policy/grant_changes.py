"""What a version grants, and to whom, against what its predecessor did: one sentence for each difference.

| about     | differences                                                                                     |
|-----------|-------------------------------------------------------------------------------------------------|
| scopes    | no task grants it any more, now one does; a template takes its place; it can become fewer, or more; |
|           | other inputs need it                                                                              |
| tasks     | new, gone; who may have it, what it grants, how long, how often                                     |
| arguments | declared, its kind, its roots, what enforces it                                                     |
| audience  | where a credential is good                                                                         |

`more` is a right that grows, `less` one that shrinks; what cannot be told apart from growing is `unknown`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from broker.domain.canonical import JsonValue
from broker.domain.policy.access import allow_grown, spell_allow
from broker.domain.policy.document import ArgumentRule, TaskRule
from broker.domain.policy.facts import StepFacts
from broker.domain.policy.templates import binds
from broker.domain.schema.answers import Answer, Unknown, Yes
from broker.domain.schema.dialect import escape


class Direction(StrEnum):
    """What becomes of a right."""

    MORE = "more"
    LESS = "less"
    OTHER = "other"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class GrantChange:
    """One difference.

    about:     `scope`, `task`, `argument` or `audience`; name: which one.
    pointer:   into the version that says it; gone: whether that is the old one.
    witness:   an input or a scope that shows it, where there is one; shows: what it shows.
    """

    about: str
    name: str
    what: str
    direction: Direction
    pointer: str
    gone: bool = False
    witness: JsonValue = None
    shows: str = ""


_CONDITION: Final = "an input that both accept"


def grant_changes(step: StepFacts) -> tuple[GrantChange, ...]:
    """The differences: scopes first, then tasks, arguments, audience; in the order in which the files say them."""
    return (*_scopes(step), *_tasks(step), *_arguments(step), *_audience(step))


def _scopes(step: StepFacts) -> Iterator[GrantChange]:
    before, after = step.old.granted, step.new.granted
    for name in sorted(before - after):
        pointer = f"/scopes/{escape(name)}"
        terms = sorted(term for term in after if binds(name, term))
        if terms:
            what = f"was bound to arguments: {', '.join(terms)} takes its place"
            yield _shown("scope", name, what, Direction.LESS, pointer, step.bound.get(name), "needed it, and gets none")
        else:
            shows = "accepted now, and still needs it"
            yield _shown("scope", name, "is cut: no task grants it", Direction.LESS, pointer, step.cut.get(name), shows)
    bound = {term for name in before for term in after if binds(name, term)}
    for name in sorted(after - before):
        if name in bound:
            continue
        shows = "an input that gets it"
        yield _shown(
            "scope", name, "is granted now", Direction.MORE, f"/scopes/{escape(name)}", step.new.reach.get(name), shows
        )
    for name, related in step.languages.items():
        yield from _moved(name, "can become fewer scopes", related.lost, Direction.LESS, "could be granted before")
        yield from _moved(name, "can become more scopes", related.gained, Direction.MORE, "can be granted now")
    for name, related in step.conditions.items():
        no_longer = f"is needed by fewer inputs: {_CONDITION} no longer gets it"
        yield from _moved(name, no_longer, related.lost, Direction.LESS, "needed it before")
        yield from _moved(
            name, f"is needed by more inputs: {_CONDITION} gets it", related.gained, Direction.MORE, "needs it now"
        )


def _moved(name: str, what: str, answer: Answer, direction: Direction, shows: str) -> Iterator[GrantChange]:
    pointer = f"/scopes/{escape(name)}"
    match answer:
        case Yes(witness):
            yield GrantChange("scope", name, what, direction, pointer, witness=witness, shows=shows)
        case Unknown(blockers):
            first = blockers[0] if blockers else None
            reason = "" if first is None else f": {first if first.keyword else first.why}"
            why = f"may be another: it could not be decided whether it {what}{reason}"
            yield GrantChange("scope", name, why, Direction.UNKNOWN, pointer)
        case _:
            pass


def _shown(
    about: str, name: str, what: str, direction: Direction, pointer: str, answer: Answer | None, shows: str
) -> GrantChange:
    gone = direction is Direction.LESS
    if isinstance(answer, Yes):
        return GrantChange(about, name, what, direction, pointer, gone, answer.witness, shows)
    return GrantChange(about, name, what, direction, pointer, gone)


def _tasks(step: StepFacts) -> Iterator[GrantChange]:
    old, new = step.old.version.tasks, step.new.version.tasks
    for name, task in new.items():
        if name in old:
            yield from _task(old[name], task)
        else:
            what = f"is new: {spell_allow(task)} may have it for {task.ttl_seconds} s, with {_listed(task.scopes)}"
            yield GrantChange("task", name, what, Direction.MORE, f"/tasks/{escape(name)}")
    for name in old:
        if name not in new:
            what = "is gone: nobody may have it"
            yield GrantChange("task", name, what, Direction.LESS, f"/tasks/{escape(name)}", gone=True)


def _task(old: TaskRule, new: TaskRule) -> Iterator[GrantChange]:
    name, pointer = new.task, f"/tasks/{escape(new.task)}"
    come = [scope for scope in new.scopes if scope not in old.scopes]
    for scope in come:
        binding = [before for before in old.scopes if binds(before, scope)]
        what = f"grants {scope}" + (f" in place of {', '.join(binding)}" if binding else "")
        direction = Direction.LESS if binding else Direction.MORE
        yield GrantChange("task", name, what, direction, f"{pointer}/scopes/{escape(scope)}")
    for scope in old.scopes:
        if scope not in new.scopes and not any(binds(scope, other) for other in come):
            place = f"{pointer}/scopes/{escape(scope)}"
            yield GrantChange("task", name, f"no longer grants {scope}", Direction.LESS, place, gone=True)
    if spell_allow(old) != spell_allow(new):
        what = f"is for {spell_allow(new)}; it was for {spell_allow(old)}"
        direction = Direction.MORE if allow_grown(old, new) else Direction.LESS
        yield GrantChange("task", name, what, direction, f"{pointer}/allow")
    if old.ttl_seconds != new.ttl_seconds:
        what = f"lasts {new.ttl_seconds} s; it lasted {old.ttl_seconds} s"
        direction = Direction.MORE if new.ttl_seconds > old.ttl_seconds else Direction.LESS
        yield GrantChange("task", name, what, direction, f"{pointer}/ttl")
    if old.uses != new.uses:
        more = old.uses is not None and (new.uses is None or new.uses > old.uses)
        what = f"may be used {_times(new.uses)}; it could be used {_times(old.uses)}"
        yield GrantChange("task", name, what, Direction.MORE if more else Direction.LESS, f"{pointer}/uses")
    if old.online != new.online:
        what = "is asked about at each use" if new.online else "is no longer asked about at each use"
        yield GrantChange("task", name, what, Direction.LESS if new.online else Direction.MORE, f"{pointer}/online")


def _arguments(step: StepFacts) -> Iterator[GrantChange]:
    old, new = step.old.version.arguments, step.new.version.arguments
    for name in [*new, *(name for name in old if name not in new)]:
        before, after = old.get(name), new.get(name)
        pointer = f"/arguments/{escape(name)}"
        if before is None and after is not None:
            yield GrantChange("argument", name, f"is declared {_spelled(after)}", Direction.OTHER, pointer)
        elif after is None and before is not None:
            what = f"is no longer declared; it was {_spelled(before)}"
            yield GrantChange("argument", name, what, Direction.OTHER, pointer, gone=True)
        elif before is not None and after is not None and _spelled(before) != _spelled(after):
            what = f"is {_spelled(after)}; it was {_spelled(before)}"
            yield GrantChange("argument", name, what, Direction.OTHER, pointer)


def _spelled(rule: ArgumentRule) -> str:
    kind = f"an {rule.kind}" if rule.kind == "identifier" else f"a {rule.kind}"
    within = f" within {', '.join(rule.within)}" if rule.within else ""
    return f"{kind}{within}" + (f" enforced by {', '.join(rule.enforced_by)}" if rule.enforced_by else "")


def _audience(step: StepFacts) -> Iterator[GrantChange]:
    old, new = step.old.version.audience, step.new.version.audience
    if old != new:
        yield GrantChange("audience", new, f"is where credentials are good; it was {old}", Direction.OTHER, "")


def _listed(scopes: tuple[str, ...]) -> str:
    return ", ".join(scopes) or "no scope"


def _times(uses: int | None) -> str:
    return "any number of times" if uses is None else "once" if uses == 1 else f"{uses} times"
