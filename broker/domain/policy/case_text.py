"""A test case as text for `tests/*.yaml`: what is asked, and what the policy as it stands makes of it."""

from __future__ import annotations

from dataclasses import dataclass

from broker.domain.canonical import JsonValue
from broker.domain.errors import Refusal
from broker.domain.policy.decide import Permit
from broker.domain.policy.spelling import quoted, spell, spell_set, spell_text
from broker.domain.policy.trials import Request


@dataclass(frozen=True, slots=True)
class Telling:
    """A request and its outcome. with_ttl, with_uses: the outcome differs in that alone, so the case has to state it."""

    name: str
    request: Request
    outcome: Permit | Refusal
    with_ttl: bool = False
    with_uses: bool = False


def spell_case(telling: Telling) -> str | None:
    """The case as a member of `cases:`; None where a policy file cannot hold its arguments."""
    request, outcome = telling.request, telling.outcome
    claims: JsonValue = {name: [*sorted(values)] for name, values in sorted(request.claims.items()) if values}
    asked = [
        ("version", quoted(request.version)),
        ("task", spell_text(request.task) if request.task is not None else None),
        ("client", spell_text(request.client)),
        ("issuer", spell_text(request.issuer)),
        ("claims", spell(claims) if claims else None),
        ("scope", spell_set(request.requested) if request.requested is not None else None),
    ]
    lines = [f"  - name: {spell_text(telling.name)}", "    request:"]
    lines += [f"      {key}: {text}" for key, text in asked if text is not None]
    if request.arguments is not None:
        arguments = spell(request.arguments)
        if arguments is None:
            return None
        lines.append(f"      arguments: {arguments}")
    if isinstance(outcome, Refusal):
        lines.append(f"    refuse: {outcome.reason}")
    else:
        lines.append(f"    permit: {spell_set(outcome.scopes)}")
        if telling.with_ttl:
            lines.append(f"    ttl: {outcome.ttl_seconds}s")
        if telling.with_uses and outcome.uses is not None:
            lines.append(f"    uses: {outcome.uses}")
    return "\n".join(lines)
