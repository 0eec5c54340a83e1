"""Credentials that come from others, in the store: none is issued, and none active, while one of them is not what it must be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from broker.adapters.redis.store import RedisStore
from broker.domain.ids import ClientId, Version, VersionId
from broker.domain.revocation.scopes import (
    EVERYTHING,
    RevocationScope,
    client_scope,
    jti_scope,
    key_scope,
    version_scope,
)
from broker.ports.store import Ancestor, Inquiry, Issue, Issued, IssueRefused, Standing

from store_parts import TOOL, a_rollback, an_assertion, an_issue, new_jti

KEY = key_scope("k1")


def standing_in(jti: str, version: str = "3") -> tuple[RevocationScope, ...]:
    return EVERYTHING, KEY, version_scope(TOOL, Version(version)), client_scope(ClientId(f"of-{jti}")), jti_scope(jti)


class Chain:
    """Credentials of one chain, each issued with all before it as its ancestors."""

    def __init__(self, store: RedisStore) -> None:
        self.store = store
        self.seq = 0
        self.members: list[Ancestor] = []

    def issue(self, version: str = "3", **facts: Any) -> Issue:
        return replace(an_issue(version, seq=self.seq, **facts), ancestors=tuple(self.members))

    async def grow(self, version: str = "3", **facts: Any) -> Ancestor:
        issue = self.issue(version, **facts)
        issued = await self.store.issue(issue)
        assert isinstance(issued, Issued), issued
        member = Ancestor(issue.jti, issued.gen, issued.rseq, issue.version, standing_in(issue.jti, version))
        self.members.append(member)
        return member

    async def standing(self, at: int = -1, **facts: Any) -> Standing:
        *before, own = self.members[: at + 1] if at >= 0 else self.members
        scopes = [scope for one in (own, *before) for scope in one.scopes]
        asked = Inquiry(own.jti, own.gen, own.rseq, own.version, scopes, ancestors=before, **facts)
        return await self.store.inquire(asked)

    async def revoke(self, scope: RevocationScope) -> None:
        self.seq = (await self.store.revoke((scope,), id=new_jti(), intent=b"{}")).seq


@pytest.fixture
def chain(any_store: RedisStore) -> Chain:
    return Chain(any_store)


async def test_a_chain_grows_while_all_of_it_lives(chain: Chain) -> None:
    for _ in range(10):
        await chain.grow()
    assert {await chain.standing(at) for at in range(10)} == {Standing.ACTIVE}


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize(
    "scope_of", [jti_scope, lambda jti: client_scope(ClientId(f"of-{jti}"))], ids=["jti", "client"]
)
async def test_a_mark_on_any_of_them_stops_what_came_of_it_and_nothing_before(
    chain: Chain, at: int, scope_of: Callable[[str], RevocationScope]
) -> None:
    for _ in range(3):
        await chain.grow()
    await chain.revoke(scope_of(chain.members[at].jti))
    assert await chain.store.issue(chain.issue()) is IssueRefused.ANCESTOR_DEAD
    found = [await chain.standing(one) for one in range(3)]
    assert found == [Standing.ACTIVE] * at + [Standing.REVOKED] * (3 - at)


async def test_a_mark_from_before_an_ancestor_does_not_touch_it(chain: Chain) -> None:
    await chain.revoke(version_scope(TOOL, Version("3")))
    await chain.grow()
    await chain.grow()
    assert await chain.standing() is Standing.ACTIVE


async def test_a_mark_on_a_signing_key_counts_whatever_rseq_a_credential_claims(chain: Chain) -> None:
    await chain.revoke(KEY)
    member = await chain.grow()  # by a forger, say, or by a process that has not heard of it
    assert member.rseq >= chain.seq
    assert await chain.standing() is Standing.REVOKED
    assert await chain.store.issue(chain.issue()) is IssueRefused.ANCESTOR_DEAD


@pytest.mark.parametrize("at", [0, 1])
async def test_what_was_given_back_takes_what_came_of_it_along(chain: Chain, at: int) -> None:
    for _ in range(2):
        await chain.grow()
    await chain.store.release(chain.members[at].jti)
    assert await chain.store.issue(chain.issue()) is IssueRefused.ANCESTOR_DEAD
    assert await chain.standing() is (Standing.REVOKED if at == 0 else Standing.ABSENT)


async def test_a_version_that_is_no_longer_mintable_stops_what_hangs_on_it(chain: Chain) -> None:
    await chain.grow("4")
    await chain.grow("3")
    silent = replace(a_rollback("4", seq=0), revokes=())  # the state alone, without a mark
    applied = await chain.store.change(silent)
    assert applied is not None
    chain.seq = applied.seq
    assert await chain.standing() is Standing.REVOKED
    assert await chain.store.issue(chain.issue("3")) is IssueRefused.ANCESTOR_DEAD


@pytest.mark.parametrize(
    "changes",
    [
        {"gen": 1},
        {"rseq": 5},
        {"jti": "A" * 22},
        {"jti": "no jti"},
        {"version": VersionId("db.query@9")},
        {"scopes": ()},
    ],
    ids=str,
)
async def test_an_ancestor_that_is_not_as_it_says_is_none(chain: Chain, changes: dict[str, Any]) -> None:
    member = await chain.grow()
    chain.members = [replace(member, **changes)]
    assert await chain.store.issue(chain.issue()) is IssueRefused.ANCESTOR_DEAD


async def test_nothing_is_written_for_a_dead_chain_and_its_assertion_stays_good(chain: Chain) -> None:
    member, assertion = await chain.grow(uses=3), an_assertion()
    await chain.revoke(jti_scope(member.jti))
    pending = len(await chain.store.pending())
    refused = chain.issue(assertion=assertion)
    assert await chain.store.issue(refused) is IssueRefused.ANCESTOR_DEAD
    assert len(await chain.store.pending()) == pending
    asked = Inquiry(refused.jti, member.gen, member.rseq, refused.version, standing_in(refused.jti))
    assert await chain.store.inquire(asked) is Standing.ABSENT
    assert await chain.store.take(assertion) is True


async def test_an_exchange_is_one_use_of_the_parent_and_a_repeat_is_none(chain: Chain) -> None:
    parent = await chain.grow(uses=2)
    first, second = chain.issue(), chain.issue()
    issued = await chain.store.issue(first)
    assert await chain.store.issue(first) == issued
    assert isinstance(await chain.store.issue(second), Issued)
    assert await chain.store.issue(chain.issue()) is IssueRefused.PARENT_USED_UP
    child = Ancestor(first.jti, parent.gen, parent.rseq, first.version, standing_in(first.jti))
    chain.members.append(child)
    assert await chain.standing() is Standing.ACTIVE
    assert isinstance(await chain.store.issue(chain.issue()), Issued)  # of the first, no more uses are counted


async def test_uses_counted_at_an_audience_and_at_exchanges_are_the_same_uses(chain: Chain) -> None:
    await chain.grow(uses=2)
    assert await chain.standing(use="one") is Standing.ACTIVE
    assert isinstance(await chain.store.issue(chain.issue()), Issued)
    assert await chain.standing(use="one") is Standing.ACTIVE  # a repetition, still known after the exchange
    assert await chain.standing(use="two") is Standing.USED_UP


async def test_assertion_ancestors_and_settled_steps_go_together_in_one_call(chain: Chain) -> None:
    await chain.grow()
    await chain.grow()
    before, assertion = await chain.store.pending(), an_assertion()
    calls = chain.store.calls
    issue = chain.issue(assertion=assertion, audited=[one.gseq for one in before])
    assert isinstance(await chain.store.issue(issue), Issued)
    assert chain.store.calls == calls + 1
    assert [one.gseq for one in await chain.store.pending()] == [max(one.gseq for one in before) + 1]
    assert await chain.store.take(assertion) is False


async def test_a_lifecycle_that_moved_is_said_before_a_dead_chain(chain: Chain) -> None:
    member = await chain.grow()
    await chain.revoke(jti_scope(member.jti))
    stale = replace(chain.issue(), seq=0)
    assert await chain.store.issue(stale) is IssueRefused.STALE_VIEW
