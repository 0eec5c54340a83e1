"""A revocation while exchanges of what it kills are under way: either no child, or a dead one.

Thirty times a credential is exchanged by many at once, and revoked in the middle. The truth is told by `gseq`, the store's
own order of steps: no child is numbered after the revocation of its parent, and none is active afterwards. The last test
looks at the parent in one step and mints in another, and must see children live on: so the first one can fail.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from broker.adapters.redis.store import RedisStore
from broker.domain.ids import Version
from broker.domain.revocation.scopes import EVERYTHING, RevocationScope, jti_scope, version_scope
from broker.ports.store import Ancestor, Inquiry, Issue, Issued, IssueRefused, Standing

from store_parts import TOOL, an_issue, claimed_store, new_jti, new_tenant, until

TURNS = 30
AT_ONCE = 16

Mint = Callable[[Issue], Awaitable[Issued | IssueRefused]]


@dataclass
class Turn:
    """One parent and what came of it. revoked: number of the step that revoked it."""

    parent: Ancestor
    children: list[tuple[Issue, Issued]] = field(default_factory=list)
    refused: list[IssueRefused] = field(default_factory=list)
    seq: int = 0
    revoked: int = 0


async def play(store: RedisStore, mint: Mint) -> list[Turn]:
    turns, seq = [], 0
    for _ in range(TURNS):
        issue = an_issue("3", seq=seq)
        issued = await store.issue(issue)
        assert isinstance(issued, Issued)
        turn = Turn(Ancestor(issue.jti, issued.gen, issued.rseq, issue.version, standing_in(issue.jti)), seq=seq)
        turns.append(turn)
        await asyncio.gather(revoke(store, turn), *(delegate(mint, turn) for _ in range(AT_ONCE)))
        seq = turn.seq
    return turns


def standing_in(*jtis: str) -> tuple[RevocationScope, ...]:
    return EVERYTHING, version_scope(TOOL, Version("3")), *map(jti_scope, jtis)


async def delegate(mint: Mint, turn: Turn) -> None:
    """Exchange the parent again and again, on the view of the moment, until it is refused for being dead."""
    while IssueRefused.ANCESTOR_DEAD not in turn.refused:
        issue = replace(an_issue("3", seq=turn.seq), ancestors=(turn.parent,))
        answer = await mint(issue)
        if isinstance(answer, Issued):
            turn.children.append((issue, answer))
        else:
            turn.refused.append(answer)


async def revoke(store: RedisStore, turn: Turn) -> None:
    await until(lambda: len(turn.children) >= AT_ONCE)
    applied = await store.revoke((jti_scope(turn.parent.jti),), id=new_jti(), intent=b'{"type":"revoke"}')
    turn.revoked, turn.seq = applied.gseq, applied.seq


async def alive(store: RedisStore, turn: Turn) -> list[Issued]:
    """The children that are active."""
    found = []
    for issue, issued in turn.children:
        scopes = standing_in(issue.jti, turn.parent.jti)
        asked = Inquiry(issue.jti, issued.gen, issued.rseq, issue.version, scopes, ancestors=(turn.parent,))
        if await store.inquire(asked) is Standing.ACTIVE:
            found.append(issued)
    return found


async def test_a_parent_revoked_while_it_is_exchanged_leaves_no_living_child(any_server: str) -> None:
    store = await claimed_store(any_server, new_tenant(), call_seconds=10)
    try:
        turns = await play(store, store.issue)
        assert all(len(turn.children) >= AT_ONCE for turn in turns)
        late = [issued for turn in turns for _, issued in turn.children if issued.gseq > turn.revoked]
        assert late == []
        assert [await alive(store, turn) for turn in turns] == [[]] * TURNS
        assert {reason for turn in turns for reason in turn.refused} >= {IssueRefused.ANCESTOR_DEAD}
    finally:
        await store.close()


async def test_with_look_and_mint_taken_apart_children_live_on(store_server: str) -> None:
    store = await claimed_store(store_server, new_tenant(), call_seconds=10)

    async def look_then_mint(issue: Issue) -> Issued | IssueRefused:
        (parent,) = issue.ancestors
        asked = Inquiry(parent.jti, parent.gen, parent.rseq, parent.version, parent.scopes)
        if await store.inquire(asked) is not Standing.ACTIVE:
            return IssueRefused.ANCESTOR_DEAD
        while True:
            # as a broker does: a view that has fallen behind is read anew, and the decision made again
            answer = await store.issue(replace(issue, ancestors=(), seq=(await store.view()).seq))
            if answer is not IssueRefused.STALE_VIEW:
                return answer

    try:
        turns = await play(store, look_then_mint)
        assert sum([len(await alive(store, turn)) for turn in turns]) > 0
    finally:
        await store.close()
