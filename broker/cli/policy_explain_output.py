"""What `broker policy explain` looks like: text for people, JSON for programs."""

from __future__ import annotations

from collections.abc import Iterator

from broker.domain.errors import Refusal
from broker.domain.policy.decide import Permit
from broker.domain.policy.deciding import STEPS
from broker.domain.policy.findings import Place
from broker.domain.scopes import spell_scopes
from broker.services.explaining import Change, Explanation, Opening, ScopeNeed


def as_text(said: Explanation) -> str:
    """For people."""
    lines = [*_outcome(said), "", "scopes:"]
    lines += [line for need in said.needs for line in _need(need)]
    if said.outcome is not None:
        lines += ["", _heading(said), *(f"  {_change(change)}" for change in said.changes)]
    if said.openings:
        lines += ["", "who could:"]
        lines += [line for opening in said.openings for line in _opening(opening)]
    return "\n".join(lines)


def _outcome(said: Explanation) -> Iterator[str]:
    name = f"{said.tool}@{said.version}"
    match said.outcome:
        case Permit(task=task, scopes=scopes, ttl_seconds=ttl, uses=uses, audience=audience, online=online):
            yield f"{name}: permit for {task}"
            yield f"  scopes:     {spell_scopes(scopes)}"
            counted = (f", {uses} uses" if uses is not None else "") + (", asked about at each use" if online else "")
            yield f"  lives:      {ttl} s{counted}, good for {audience}"
        case Refusal(reason=reason, detail=detail, why=why):
            yield f"{name}: refused, {reason}"
            yield f"  says:       {detail}"
            if why:
                yield f"  why:        {why}"
        case _:
            yield f"{name}: who asks was left open; name a --client, an --issuer and each --claim"
            return
    if said.decided is not None and said.place is not None:
        yield f"  decided by: {said.decided.rule} (step {said.decided.step}, {STEPS[said.decided.step]})"
        yield f"  at:         {said.place}"
        if said.place.source:
            yield f"              {said.place.source.strip()}"


def _heading(said: Explanation) -> str:
    if not said.changes:
        return "nothing that was tried would change it"
    if isinstance(said.outcome, Permit):
        return "what would refuse (each was tried):"
    if any(isinstance(change.outcome, Permit) for change in said.changes):
        return "what would permit (each was tried):"
    return "no single change that was tried permits it; these lead further:"


def _need(need: ScopeNeed) -> Iterator[str]:
    state = {True: "needed", False: "not needed", None: "unknown"}[need.needed]
    granted = {True: ", granted by the task", False: ", not granted by the task", None: ""}[need.granted]
    yield f"  {need.template}: {state}{granted}"
    yield f"    {need.because}  ({need.place})"


def _change(change: Change) -> str:
    return f"{change.words}: {_short(change.outcome)}"


def _short(outcome: Permit | Refusal) -> str:
    if isinstance(outcome, Refusal):
        return f"refused, {outcome.reason}"
    return f"permit for {outcome.task} with {spell_scopes(outcome.scopes)}"


def _opening(opening: Opening) -> Iterator[str]:
    yield f"  {opening.task}: {opening.allow}  ({opening.place})"
    if opening.outcome is not None:
        yield f"    such as {opening.who}: {_short(opening.outcome)}"


def as_json(said: Explanation) -> dict[str, object]:
    """For programs; members are only ever added."""
    return {
        "tool": said.tool,
        "version": said.version,
        **_outcome_json(said.outcome),
        "rule": said.decided.rule if said.decided is not None else None,
        "step": said.decided.step if said.decided is not None else None,
        "at": _place_json(said.place),
        "scopes": [
            {
                "scope": need.template,
                "needed": need.needed,
                "because": need.because,
                "granted": need.granted,
                "at": _place_json(need.place),
            }
            for need in said.needs
        ],
        "changes": [
            {"aspect": change.aspect, "change": change.words, **_outcome_json(change.outcome)}
            for change in said.changes
        ],
        "who_could": [
            {
                "task": opening.task,
                "allow": opening.allow,
                "such_as": opening.who or None,
                "at": _place_json(opening.place),
                **_outcome_json(opening.outcome),
            }
            for opening in said.openings
        ],
    }


def _outcome_json(outcome: Permit | Refusal | None) -> dict[str, object]:
    match outcome:
        case Permit():
            return {
                "permit": sorted(outcome.scopes),
                "task": outcome.task,
                "ttl_seconds": outcome.ttl_seconds,
                "uses": outcome.uses,
                "online": outcome.online,
                "refuse": None,
            }
        case Refusal():
            return {"permit": None, "refuse": outcome.reason, "detail": outcome.detail, "why": outcome.why}
        case _:
            return {"permit": None, "refuse": None}


def _place_json(place: Place | None) -> dict[str, object] | None:
    return None if place is None else {"file": place.file, "line": place.line, "column": place.column}
