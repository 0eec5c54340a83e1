"""`make bench-revoke`: the time to roll a version back with one live credential and with a million, and what is said afterwards.

Both are tenants of one server, which syncs each write, and are rolled back turn by turn in one run. Right after the last
rollback of the million, 10 000 of them are asked about in the store, and judged by marks and states as a verifier does.
Exits 1 where the medians are further apart than `LIMIT` times, or where one of them is accepted.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from mass_revocation import Answers, Population, ask, measure, populate, ratio
from store_parts import StoreProcess, valkey_program

LIMIT = 3.0
# no rewrite of the file in between: it would cost the one who is measured just then
SETTINGS = ("--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0")


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-revoke")
    parser.add_argument("--credentials", type=int, default=1_000_000)
    parser.add_argument("--sample", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=101)
    options = parser.parse_args()
    server = StoreProcess(valkey_program(), *SETTINGS).start()
    try:
        is_good = asyncio.run(_run(server, options.credentials, options.sample, options.rounds))
    finally:
        server.remove()
    sys.exit(0 if is_good else 1)


async def _run(server: StoreProcess, count: int, sampled: int, rounds: int) -> bool:
    one = await populate(server, 1, sampled=1)
    with server.admin() as admin:
        before = admin.info("memory")["used_memory"]
        began = time.monotonic()
        many = await populate(server, count, sampled=sampled, processes=2)
        spent = time.monotonic() - began
        each = (admin.info("memory")["used_memory"] - before) / count
        keys = admin.dbsize()
    print(f"{count:,} live credentials written in {spent:.0f} s, {each:.0f} bytes each; {keys:,} keys in the store")
    await measure([one, many], rounds=rounds)
    store = await many.connect()
    answers = await ask(many, store)
    await store.close()
    return _print(one, many, answers)


def _print(one: Population, many: Population, answers: Answers) -> bool:
    print(f"{'live credentials':>18s} {'rollback p50 ms':>16s} {'fastest':>8s} {'slowest':>8s}")
    for population in (one, many):
        times = [seconds * 1e3 for seconds in population.seconds]
        print(f"{population.count:18,} {statistics.median(times):16.2f} {min(times):8.2f} {max(times):8.2f}")
    found = ratio(one, many)
    print(
        f"rolling back {many.count:,} takes {found:.2f} x as long as rolling back 1: {_verdict(found <= LIMIT)} {LIMIT:g} x"
    )
    refused = answers.asked - max(answers.active, answers.alive)
    print(
        f"of {answers.asked:,} of them right after: {answers.active} active in the store, "
        f"{answers.alive} accepted by a verifier, {refused:,} refused by both"
    )
    return found <= LIMIT and answers.active == answers.alive == 0 and answers.asked > 0


def _verdict(is_within: bool) -> str:
    return "within" if is_within else "OVER"


if __name__ == "__main__":
    main()
