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
from pathlib import Path
from random import Random, SystemRandom

from broker.adapters.schemas.arithmetic import open_arithmetic
from broker.ports.schemas import SchemaArithmetic

sys.path.insert(0, str(Path(__file__).parents[1]))
from schema_attack import Tally, attack_pair, attack_relation
from schema_making import SchemaMaker
from schema_sampling import Sampler

CHANGES = Path(__file__).parents[3] / "shared" / "data" / "mcp_contract_pairs.jsonl"


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
        attack_pair(arithmetic, tally, chance, "generated", old, new, per_pair)
        samples = list(Sampler(chance, old, new).values(per_pair))
        tally.samples["generated"] += len(samples)
        attack_relation(arithmetic, tally, "generated, as it is", old, new, samples)


def report(tally: Tally, seconds: float) -> None:
    """What was done, kind by kind."""
    for kind in sorted(tally.questions):
        answers = {what: n for (of, what), n in sorted(tally.claims.items()) if of == kind}
        share = tally.undecided[kind] / max(1, sum(answers.values()))
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
