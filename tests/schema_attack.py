"""Attacks on what is claimed about schemas: ask, confirm each yes, try every sample against each no, and keep count."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import jsonschema_rs
from broker.domain.schema.answers import Answer, No, Unknown, Yes
from broker.domain.schema.closure import accepted_inputs, open_inputs
from broker.domain.schema.dialect import SchemaError
from broker.ports.schemas import SchemaArithmetic

from schema_making import SchemaMaker
from schema_sampling import Sampler


@dataclass(slots=True)
class Tally:
    """What was asked, answered and sampled, and which claims are wrong."""

    seed: int
    samples: Counter[str] = field(default_factory=Counter)
    checks: int = 0
    claims: Counter[tuple[str, str]] = field(default_factory=Counter)
    undecided: Counter[str] = field(default_factory=Counter)
    questions: Counter[str] = field(default_factory=Counter)
    differences: int = 0
    met: int = 0
    missed: int = 0
    wrong: list[dict[str, Any]] = field(default_factory=list)

    def claim(self, kind: str, answer: Answer) -> None:
        """Count an answer."""
        match answer:
            case Yes():
                self.claims[kind, "yes"] += 1
            case No(by):
                self.claims[kind, f"no, {by}"] += 1
            case Unknown():
                self.claims[kind, "unknown"] += 1

    def accuse(self, kind: str, what: str, value: Any, schemas: list[Any]) -> None:
        """A wrong claim, with what shows it."""
        self.wrong.append({"kind": kind, "claim": what, "value": value, "schemas": schemas, "seed": self.seed})
        print(f"WRONG  {kind}: {what}: {json.dumps(value)[:200]}", flush=True)


def validator(schema: dict[str, Any]) -> Any:
    """A validator that shares nothing with the code under test but the library."""
    return jsonschema_rs.Draft202012Validator(schema, offline=True, validate_formats=False).is_valid


def validators(tally: Tally, kind: str, schemas: list[dict[str, Any]], answers: tuple[Answer, ...]) -> list[Any]:
    """The validators; none where a schema is no schema, about which nothing may be claimed but that a text is itself."""
    try:
        return [validator(schema) for schema in schemas]
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError):
        if not all(isinstance(answer, Unknown) or answer == No("same text") for answer in answers):
            tally.accuse(kind, "a claim about what is no schema", None, schemas)
        return []


def attack_relation(
    arithmetic: SchemaArithmetic, tally: Tally, kind: str, old: dict[str, Any], new: dict[str, Any], samples: list[Any]
) -> None:
    """Ask for the relation, and confirm and attack what is claimed."""
    tally.questions[kind] += 1
    related = arithmetic.relate(old, new)
    sides = validators(tally, kind, [old, new], (related.lost, related.gained))
    if not sides:
        return
    in_old, in_new = sides
    for what, answer, one, other in (
        ("lost", related.lost, in_old, in_new),
        ("gained", related.gained, in_new, in_old),
    ):
        tally.claim(kind, answer)
        match answer:
            case Yes(witness):
                if not one(witness) or other(witness):
                    tally.accuse(kind, f"{what}: its witness shows nothing", witness, [old, new])
                tally.differences += 1
                tally.met += any(one(value) and not other(value) for value in samples)
            case No(by):
                tally.checks += len(samples)
                for value in samples:
                    if one(value) and not other(value):
                        tally.accuse(kind, f"{what}: no, by {by}", value, [old, new])
                        break
            case Unknown():
                tally.undecided[kind] += 1
                tally.missed += any(one(value) and not other(value) for value in samples)


def attack_common(
    arithmetic: SchemaArithmetic, tally: Tally, kind: str, schemas: list[dict[str, Any]], samples: list[Any]
) -> None:
    """Ask for a common value, and confirm and attack what is claimed."""
    tally.questions[kind] += 1
    answer = arithmetic.common(schemas)
    accepting = validators(tally, kind, schemas, (answer,))
    if not accepting:
        return
    tally.claim(kind, answer)
    match answer:
        case Yes(witness):
            if not all(accepts(witness) for accepts in accepting):
                tally.accuse(kind, "common: its witness is not accepted by all", witness, schemas)
            tally.differences += 1
            tally.met += any(all(accepts(value) for accepts in accepting) for value in samples)
        case No(by):
            tally.checks += len(samples)
            for value in samples:
                if all(accepts(value) for accepts in accepting):
                    tally.accuse(kind, f"common: no, by {by}", value, schemas)
                    break
        case Unknown():
            tally.undecided[kind] += 1
            tally.missed += any(all(accepts(value) for accepts in accepting) for value in samples)


def views(old: dict[str, Any], new: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """The pair as the rules see it."""
    for name, view in (("raw", open_inputs), ("closed", accepted_inputs)):
        try:
            yield name, view(old), view(new)
        except SchemaError:
            continue


def attack_pair(
    arithmetic: SchemaArithmetic,
    tally: Tally,
    chance: Random,
    where: str,
    old: dict[str, Any],
    new: dict[str, Any],
    per_pair: int,
) -> None:
    """Both views of one change, and what conditions have in common with it."""
    pairs = list(views(old, new))
    if not pairs:
        return
    samples = list(Sampler(chance, *pairs[-1][1:]).values(per_pair))
    tally.samples[where] += len(samples)
    for view, one, other in pairs:
        attack_relation(arithmetic, tally, f"{where}, {view}", one, other, samples)
    condition = SchemaMaker(chance).condition(new)
    closed = pairs[-1][2]
    led = list(Sampler(chance, closed, condition).values(per_pair))
    tally.samples[where] += len(led)
    attack_common(arithmetic, tally, f"{where}, common", [closed, condition], led)
