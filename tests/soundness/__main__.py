"""`make soundness`: every claim that is made about schemas, attacked with values by chance.

1. Claims: `relate` of each real change in both views, of generated schemas and their successors in three, and `common` of
   contracts and conditions.
2. A *yes* is confirmed by a validator that is made here. A *no* is attacked by every sample of its question: one sample that
   contradicts is a wrong claim. How often the samples meet what a yes has shown says how much an attack is worth.
3. Wrong claims are written to a file, with the seed; the exit code says whether there are any.

The seed is new each time unless it is given: what one run does not meet, the next may.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import jsonschema_rs
from broker.adapters.schemas.arithmetic import open_arithmetic
from broker.domain.schema.answers import Answer, No, Unknown, Yes
from broker.domain.schema.closure import accepted_inputs, open_inputs
from broker.domain.schema.dialect import SchemaError
from broker.ports.schemas import SchemaArithmetic

sys.path.insert(0, str(Path(__file__).parents[1]))
from schema_making import SchemaMaker
from schema_sampling import Sampler

CHANGES = Path(__file__).parents[3] / "shared" / "data" / "mcp_contract_pairs.jsonl"


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


def attack_relation(
    arithmetic: SchemaArithmetic, tally: Tally, kind: str, old: dict[str, Any], new: dict[str, Any], samples: list[Any]
) -> None:
    """Ask for the relation, and confirm and attack what is claimed."""
    tally.questions[kind] += 1
    related = arithmetic.relate(old, new)
    in_old, in_new = validator(old), validator(new)
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
    accepting = [validator(schema) for schema in schemas]
    tally.claim(kind, answer)
    match answer:
        case Yes(witness):
            if not all(accepts(witness) for accepts in accepting):
                tally.accuse(kind, "common: its witness is not accepted by all", witness, schemas)
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


def real(arithmetic: SchemaArithmetic, tally: Tally, chance: Random, per_pair: int, most: int | None) -> None:
    """Every change of a real tool's input schema."""
    if not CHANGES.is_file():
        print("the folder ../shared/data is not here: no real changes")
        return
    lines = [json.loads(line) for line in CHANGES.read_text().splitlines()]
    chance.shuffle(lines)
    for line in lines[:most]:
        old, new = line["old"].get("inputSchema"), line["new"].get("inputSchema")
        if old and new:
            attack_pair(arithmetic, tally, chance, "real", old, new, per_pair)


def generated(arithmetic: SchemaArithmetic, tally: Tally, chance: Random, per_pair: int, count: int) -> None:
    """Schemas by chance, in the two views and as they are."""
    maker = SchemaMaker(chance)
    for _ in range(count):
        old = maker.document()
        new = maker.successor(old) if chance.random() < 0.85 else maker.document()
        try:
            validator(old), validator(new)
        except (ValueError, jsonschema_rs.ValidationError):
            continue
        attack_pair(arithmetic, tally, chance, "generated", old, new, per_pair)
        samples = list(Sampler(chance, old, new).values(per_pair))
        tally.samples["generated"] += len(samples)
        attack_relation(arithmetic, tally, "generated, as it is", old, new, samples)


def report(tally: Tally, seconds: float) -> None:
    """What was done, kind by kind."""
    for kind in sorted(tally.questions):
        answers = {what: n for (of, what), n in sorted(tally.claims.items()) if of == kind}
        share = tally.undecided[kind] / sum(answers.values())
        told = "  ".join(f"{what} {n}" for what, n in answers.items())
        print(f"{kind:<22} {tally.questions[kind]:>6} questions  {told}  ({share:.2%} undecided)")
    total = sum(tally.samples.values())
    told = ", ".join(f"{where} {n}" for where, n in sorted(tally.samples.items()))
    print(f"{total} samples ({told}), {tally.checks} times against a no; seed {tally.seed}; {seconds:.0f} s")
    if tally.differences:
        print(
            f"the samples of {tally.met / tally.differences:.1%} of {tally.differences} questions with a witness meet one too"
        )
    print(f"undecided where a sample would have shown it: {tally.missed} of {sum(tally.undecided.values())}")
    print(f"wrong claims: {len(tally.wrong)}")


def main() -> int:
    """Run, print, and say whether a claim was wrong."""
    parser = argparse.ArgumentParser(prog="make soundness", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--samples", type=int, default=100, help="values for each question of a pair")
    parser.add_argument("--generated", type=int, default=1_500, help="generated pairs")
    parser.add_argument("--real", type=int, default=None, help="real changes; all unless given")
    parser.add_argument("--wrong", type=Path, default=Path("wrong-claims.json"), help="where wrong claims are written")
    given = parser.parse_args()
    seed = SystemRandom().randrange(1 << 32) if given.seed is None else given.seed
    tally, chance = Tally(seed), Random(seed)
    arithmetic = open_arithmetic(None)
    started = time.monotonic()
    try:
        real(arithmetic, tally, chance, given.samples, given.real)
        generated(arithmetic, tally, chance, given.samples, given.generated)
    finally:
        arithmetic.close()
        report(tally, time.monotonic() - started)
    if tally.wrong:
        given.wrong.write_text(json.dumps(tally.wrong, indent=1))
        print(f"written to {given.wrong}")
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
