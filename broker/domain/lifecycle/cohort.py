"""Routing: which version a principal gets, the same one every time.

1. The newest canary whose cohort names the principal's account or agent.
2. The newest canary whose weight covers the principal: a hash of tool, version, agent and account, of 10 000.
3. The stable version.
4. The deprecated version that became so last: there is no stable one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from broker.domain.lifecycle.states import MINTABLE, State, VersionRecord


def in_cohort(record: VersionRecord, *, agent: str, account: str) -> bool:
    """Whether a canary is served to this principal (rules 1 and 2)."""
    if account in record.cohort.principals or agent in record.cohort.principals:
        return True
    if record.cohort.weight <= 0:
        return False
    seed = "\x00".join((record.tool, record.version, agent, account)).encode()
    return int.from_bytes(hashlib.sha256(seed).digest()[:8], "big") % 10_000 < record.cohort.weight


def routed(records: Iterable[VersionRecord], *, agent: str, account: str) -> VersionRecord | None:
    """The version that this principal is routed to, or None where nothing is served."""
    served = sorted((record for record in records if record.state in MINTABLE), key=lambda r: (r.since, r.seq))
    for record in reversed(served):
        named = account in record.cohort.principals or agent in record.cohort.principals
        if record.state is State.CANARY and named:
            return record
    for record in reversed(served):
        if record.state is State.CANARY and in_cohort(record, agent=agent, account=account):
            return record
    for state in (State.STABLE, State.DEPRECATED):
        for record in reversed(served):
            if record.state is state:
                return record
    return None


def may_declare(record: VersionRecord, *, agent: str, account: str) -> bool:
    """A principal may declare any mintable version but a canary that it is not routed to."""
    if record.state not in MINTABLE:
        return False
    return record.state is not State.CANARY or in_cohort(record, agent=agent, account=account)
