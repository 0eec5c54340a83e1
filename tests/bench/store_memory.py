"""`make bench-memory`: the bytes of a live credential in the store, and the keys, on each server that is supported.

Counted by the server's own `used_memory`, before and after, for the tenant that a broker has by default: Redis 7 takes 16 bytes
more for each where a tenant's name has more than seven letters. Exits 1 where one takes more than `LIMIT` bytes, or where there
are other keys than one a credential and the fixed ones of the tenant.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from mass_revocation import populate
from store_parts import StoreProcess, redis_program, valkey_program

LIMIT = 200.0
FIXED_KEYS = 3


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-memory")
    parser.add_argument("--credentials", type=int, default=100_000)
    options = parser.parse_args()
    is_good = True
    print(f"{'store':14s} {'live credentials':>17s} {'bytes each':>11s} {'keys':>10s} {'of them fixed':>14s}")
    for program in (valkey_program(), redis_program()):
        if program is None:
            print("Redis is not installed and was not measured; apt-get install redis-server")
            continue
        server = StoreProcess(program).start()
        try:
            is_good &= _measure(server, options.credentials)
        finally:
            server.remove()
    print(f"{'within' if is_good else 'OVER'} {LIMIT:.0f} bytes and one key a credential")
    sys.exit(0 if is_good else 1)


def _measure(server: StoreProcess, count: int) -> bool:
    with server.admin() as admin:
        before = admin.info("memory")["used_memory"]
        asyncio.run(populate(server, count, sampled=1, tenant="default"))
        each = (admin.info("memory")["used_memory"] - before) / count
        keys = admin.dbsize()
        about = admin.info("server")
    name = f"Valkey {about['valkey_version']}" if "valkey_version" in about else f"Redis {about['redis_version']}"
    print(f"{name:14s} {count:17,} {each:11.1f} {keys:10,} {keys - count:14,}")
    return each <= LIMIT and keys == count + FIXED_KEYS


if __name__ == "__main__":
    main()
