"""The three store ports as they promise to be, on every server that is supported."""

from __future__ import annotations

import asyncio

import pytest
from broker.adapters.redis.store import RedisStore
from broker.domain.errors import StoreUnclaimedError
from broker.domain.ids import ClientId, Version, VersionId, version_id
from broker.domain.lifecycle.states import State
from broker.domain.revocation.scopes import EVERYTHING, client_scope, version_scope
from broker.ports.store import Applied, Inquiry, Issued, IssueRefused, Standing, VersionChange

from store_parts import (
    TOOL,
    a_canary,
    a_rollback,
    an_assertion,
    an_inquiry,
    an_issue,
    claim,
    content,
    new_jti,
    new_tenant,
    version_record,
)

V4 = version_scope(TOOL, Version("4"))


async def issued(store: RedisStore, issue: object) -> Issued:
    answer = await store.issue(issue)  # type: ignore[arg-type]
    assert isinstance(answer, Issued)
    return answer


# credentials


async def test_a_credential_of_a_mintable_version_is_issued_and_active(any_store: RedisStore) -> None:
    issue = an_issue()
    answer = await issued(any_store, issue)
    assert answer == Issued(any_store.gen, rseq=0, gseq=1)
    assert await any_store.inquire(an_inquiry(issue, answer)) is Standing.ACTIVE


async def test_steps_are_numbered_without_a_hole(any_store: RedisStore) -> None:
    answers = await asyncio.gather(*(issued(any_store, an_issue()) for _ in range(300)))
    assert sorted(answer.gseq for answer in answers) == list(range(1, 301))


async def test_a_repeated_issue_acts_once(any_store: RedisStore) -> None:
    issue = an_issue(assertion=an_assertion())
    first = await issued(any_store, issue)
    assert await issued(any_store, issue) == first
    assert [step.gseq for step in await any_store.pending()] == [first.gseq]


async def test_a_repeat_after_a_rollback_gets_the_dead_credential_and_not_a_new_one(any_store: RedisStore) -> None:
    issue = an_issue("4")
    first = await issued(any_store, issue)
    await any_store.change(a_rollback(seq=0))
    again = await issued(any_store, issue)
    assert again == first
    assert await any_store.inquire(an_inquiry(issue, again)) is Standing.REVOKED


async def test_a_decision_on_an_old_view_is_refused_and_its_assertion_stays_good(any_store: RedisStore) -> None:
    await any_store.change(a_rollback(seq=0))
    assertion = an_assertion()
    assert await any_store.issue(an_issue("3", seq=0, assertion=assertion)) is IssueRefused.STALE_VIEW
    assert await issued(any_store, an_issue("3", seq=1, assertion=assertion))


@pytest.mark.parametrize("version", ["4", "5"], ids=["rolled back", "never published"])
async def test_a_version_that_is_not_mintable_is_refused(any_store: RedisStore, version: str) -> None:
    await any_store.change(a_rollback("4", seq=0))
    assert await any_store.issue(an_issue(version, seq=1)) is IssueRefused.NOT_MINTABLE
    assert [step.intent for step in await any_store.pending()] == [b'{"type":"version.rollback"}']


@pytest.mark.parametrize("state", list(State))
async def test_only_mintable_states_mint(any_store: RedisStore, state: State) -> None:
    await claim(any_store, version_record("9", state))
    answer = await any_store.issue(an_issue("9"))
    mintable = state in (State.CANARY, State.STABLE, State.DEPRECATED)
    assert isinstance(answer, Issued) if mintable else answer is IssueRefused.NOT_MINTABLE


async def test_an_assertion_is_good_for_one_call_whichever_it_is(any_store: RedisStore) -> None:
    assertion = an_assertion()
    issue = an_issue(assertion=assertion)
    answer = await issued(any_store, issue)
    assert await any_store.issue(an_issue(assertion=assertion)) is IssueRefused.ASSERTION_REPLAYED
    replayed = an_inquiry(issue, answer, assertion=assertion)
    assert await any_store.inquire(replayed) is Standing.ASSERTION_REPLAYED
    assert await any_store.release(issue.jti, assertion) is IssueRefused.ASSERTION_REPLAYED
    assert await any_store.take(assertion) is False
    assert await any_store.inquire(an_inquiry(issue, answer)) is Standing.ACTIVE


async def test_an_assertion_can_be_used_up_by_itself_once(any_store: RedisStore) -> None:
    assertion = an_assertion()
    assert await any_store.take(assertion) is True
    assert await any_store.take(assertion) is False


async def test_a_released_credential_is_absent_and_the_sequence_stays(any_store: RedisStore) -> None:
    issue = an_issue()
    answer = await issued(any_store, issue)
    assert await any_store.release(issue.jti) is True
    assert await any_store.release(issue.jti) is False
    assert await any_store.inquire(an_inquiry(issue, answer)) is Standing.ABSENT
    assert (await any_store.view()).seq == 0


@pytest.mark.parametrize("jti", ["", "not a jti", "A" * 21, "A" * 21 + "B", "é" * 22, "x" * 5000])
async def test_what_was_never_issued_is_absent_and_raises_nothing(any_store: RedisStore, jti: str) -> None:
    asked = Inquiry(jti, any_store.gen, 0, VersionId("db.query@3"), (EVERYTHING,))
    assert await any_store.inquire(asked) is Standing.ABSENT
    assert await any_store.release(jti) is False


@pytest.mark.parametrize(
    "change", [{"gen": 1}, {"gen": -1}, {"gen": 10**30}, {"rseq": 1}, {"rseq": -1}, {"scopes": ()}]
)
async def test_a_claim_that_is_not_the_records_is_revoked(any_store: RedisStore, change: dict[str, object]) -> None:
    issue = an_issue()
    answer = await issued(any_store, issue)
    facts = {"gen": answer.gen, "rseq": answer.rseq, "scopes": (EVERYTHING,), **change}
    asked = Inquiry(jti=issue.jti, version=issue.version, **facts)  # type: ignore[arg-type]
    assert await any_store.inquire(asked) is Standing.REVOKED


async def test_an_expired_credential_is_absent(any_store: RedisStore) -> None:
    issue = an_issue(seconds=-1)
    assert await any_store.inquire(an_inquiry(issue, await issued(any_store, issue))) is Standing.ABSENT


async def test_uses_are_counted_and_a_repeated_request_counts_once(any_store: RedisStore) -> None:
    issue = an_issue(uses=2)
    answer = await issued(any_store, issue)

    async def use(request: str | None) -> Standing:
        return await any_store.inquire(an_inquiry(issue, answer, use=request))

    assert [await use("a"), await use("a"), await use(None), await use("b")] == [Standing.ACTIVE] * 4
    assert await use("c") is Standing.USED_UP
    assert await use(None) is Standing.USED_UP
    assert await use("b") is Standing.ACTIVE


async def test_many_uses_at_once_are_never_more_than_granted(any_store: RedisStore) -> None:
    issue = an_issue(uses=40)
    answer = await issued(any_store, issue)
    asked = [any_store.inquire(an_inquiry(issue, answer, use=f"r{number}")) for number in range(100)]
    assert (await asyncio.gather(*asked)).count(Standing.ACTIVE) == 40


async def test_counting_a_use_does_not_prolong_a_credential(store_server: str, store: RedisStore) -> None:
    issue = an_issue(uses=5, seconds=2)
    answer = await issued(store, issue)
    await store.inquire(an_inquiry(issue, answer, use="a"))
    async with asyncio.timeout(10):
        while await store.inquire(an_inquiry(issue, answer)) is Standing.ACTIVE:
            await asyncio.sleep(0.05)
    assert await store.inquire(an_inquiry(issue, answer)) is Standing.ABSENT


# versions and revocations


async def test_the_view_is_what_was_claimed(any_store: RedisStore) -> None:
    view = await any_store.view()
    assert (view.gen, view.seq) == (any_store.gen, 0)
    assert dict(view.versions) == {
        version_id(TOOL, Version("3")): version_record("3", State.STABLE),
        version_id(TOOL, Version("4")): version_record("4", State.CANARY),
    }


async def test_a_rollback_moves_the_sequence_by_one_and_kills_what_was_minted(any_store: RedisStore) -> None:
    old = an_issue("4")
    of_old = await issued(any_store, old)
    other = an_issue("3")
    of_other = await issued(any_store, other)
    assert await any_store.change(a_rollback(seq=0)) == Applied(any_store.gen, seq=1, gseq=3)
    assert await any_store.inquire(an_inquiry(old, of_old)) is Standing.REVOKED
    assert await any_store.inquire(an_inquiry(other, of_other)) is Standing.ACTIVE
    assert (await any_store.view()).versions[version_id(TOOL, Version("4"))].state is State.ROLLED_BACK
    assert await any_store.marks() == {V4: 1}


async def test_a_credential_is_active_only_while_its_own_version_is_mintable(any_store: RedisStore) -> None:
    issue = an_issue("4")
    answer = await issued(any_store, issue)
    unmarked = VersionChange(new_jti(), 0, (version_record("4", State.RETIRED, seq=1),), (), b"{}")
    assert await any_store.change(unmarked) is not None
    assert await any_store.inquire(an_inquiry(issue, answer)) is Standing.REVOKED
    other = an_issue("3", seq=1)
    of_other = await issued(any_store, other)
    asked = Inquiry(other.jti, of_other.gen, of_other.rseq, VersionId("db.query@unknown"), (EVERYTHING,))
    assert await any_store.inquire(asked) is Standing.REVOKED


async def test_a_new_canary_revives_no_old_credential(any_store: RedisStore) -> None:
    old = an_issue("4")
    of_old = await issued(any_store, old)
    await any_store.change(a_rollback(seq=0))
    await any_store.change(a_canary(seq=1))
    new = an_issue("4", seq=2)
    assert await any_store.inquire(an_inquiry(new, await issued(any_store, new))) is Standing.ACTIVE
    assert await any_store.inquire(an_inquiry(old, of_old)) is Standing.REVOKED


async def test_a_change_on_an_old_sequence_does_nothing(any_store: RedisStore) -> None:
    await any_store.change(a_rollback(seq=0))
    before = await any_store.view()
    assert await any_store.change(a_canary(seq=0)) is None
    assert await any_store.view() == before


async def test_a_repeated_change_acts_once_even_though_the_sequence_moved_on(any_store: RedisStore) -> None:
    change = a_rollback(seq=0)
    first = await any_store.change(change)
    await any_store.change(a_canary(seq=1))
    again = await any_store.change(change)
    assert first is not None
    assert again == Applied(first.gen, first.seq, first.gseq, repeated=True)
    assert (await any_store.view()).seq == 2


async def test_a_record_of_another_sequence_than_its_change_is_a_mistake(any_store: RedisStore) -> None:
    with pytest.raises(ValueError):
        await any_store.change(VersionChange("i", 0, (version_record("4", State.CANARY),), (), b"{}"))


async def test_a_revocation_needs_no_view_and_acts_once(any_store: RedisStore) -> None:
    issue = an_issue()
    answer = await issued(any_store, issue)
    scope, revocation = client_scope(ClientId("reporting-mcp")), new_jti()
    first = await any_store.revoke((scope,), id=revocation, intent=b"{}")
    again = await any_store.revoke((scope,), id=revocation, intent=b"{}")
    assert (first.seq, again.seq, again.repeated) == (1, 1, True)
    assert await any_store.inquire(an_inquiry(issue, answer)) is Standing.ACTIVE
    assert await any_store.inquire(an_inquiry(issue, answer, scopes=(scope,))) is Standing.REVOKED


async def test_the_newest_mark_of_all_scopes_decides(any_store: RedisStore) -> None:
    scope = client_scope(ClientId("a"))
    await any_store.revoke((scope,), id=new_jti(), intent=b"{}")
    between = an_issue(seq=1)
    answer = await issued(any_store, between)
    assert await any_store.inquire(an_inquiry(between, answer, scopes=(scope,))) is Standing.ACTIVE
    await any_store.revoke((EVERYTHING,), id=new_jti(), intent=b"{}")
    assert await any_store.inquire(an_inquiry(between, answer, scopes=(scope,))) is Standing.REVOKED


# the outbox


async def test_the_outbox_holds_each_step_until_its_record_is_durable(any_store: RedisStore) -> None:
    first = await issued(any_store, an_issue(intent=b'{"a|b":1}'))
    applied = await any_store.revoke((EVERYTHING,), id=new_jti(), intent=b'{"r":1}')
    pending = await any_store.pending()
    assert [(step.gen, step.gseq, step.seq, step.intent) for step in pending] == [
        (any_store.gen, first.gseq, 0, b'{"a|b":1}'),
        (any_store.gen, applied.gseq, 1, b'{"r":1}'),
    ]
    assert all(0 <= step.age_seconds < 30 for step in pending)
    await any_store.acknowledge([applied.gseq])
    await issued(any_store, an_issue(seq=1, audited=[first.gseq]))
    assert [step.gseq for step in await any_store.pending()] == [3]


async def test_thousands_of_steps_are_acknowledged_in_one_call(any_store: RedisStore) -> None:
    answers = await asyncio.gather(*(issued(any_store, an_issue()) for _ in range(2500)))
    last = await issued(any_store, an_issue(audited=[answer.gseq for answer in answers]))
    assert [step.gseq for step in await any_store.pending()] == [last.gseq]


async def test_steps_of_an_earlier_gen_stay_pending_under_their_own_numbers(any_store: RedisStore) -> None:
    before = any_store.gen
    await issued(any_store, an_issue(intent=b"old"))
    await claim(any_store, version_record("3", State.STABLE))
    await issued(any_store, an_issue(intent=b"new"))
    assert [(s.gen, s.gseq, s.intent) for s in await any_store.pending()] == [
        (before, 1, b"old"),
        (any_store.gen, 1, b"new"),
    ]
    await any_store.acknowledge([1], gen=before)
    assert [step.intent for step in await any_store.pending()] == [b"new"]


# the claim


async def test_a_new_store_is_found_unclaimed(any_server: str) -> None:
    store = RedisStore(any_server, new_tenant())
    found = await store.inspect()
    assert not found.is_claimed
    assert (found.claimed_run_id, found.gen, found.seq, found.gseq) == ("", 0, 0, 0)
    with pytest.raises(StoreUnclaimedError):
        await store.adopt(found)
    with pytest.raises(StoreUnclaimedError):
        await store.view()
    await store.close()


async def test_a_claim_kills_every_credential_and_holds_exactly_the_replayed_content(any_store: RedisStore) -> None:
    issue = an_issue()
    old = await issued(any_store, issue)
    await any_store.revoke((client_scope(ClientId("gone")),), id=new_jti(), intent=b"{}")
    gen = await claim(any_store, version_record("5", State.STABLE, seq=2), seq=4, marks={V4: 3})
    assert gen > old.gen
    view = await any_store.view()
    assert (view.gen, view.seq, list(view.versions)) == (gen, 4, ["db.query@5"])
    assert await any_store.marks() == {V4: 3}
    assert await any_store.inquire(an_inquiry(issue, old)) is Standing.REVOKED
    assert await issued(any_store, an_issue("5", seq=4)) == Issued(gen, rseq=4, gseq=1)


async def test_of_two_brokers_that_claim_one_wins_and_the_other_looks_again(any_server: str) -> None:
    tenant = new_tenant()
    one, two = RedisStore(any_server, tenant), RedisStore(any_server, tenant)
    found = await one.inspect()
    await one.claim(found, content(version_record("3", State.STABLE), gen=1_000))
    for gen in (1_000, 2_000):
        with pytest.raises(StoreUnclaimedError):
            await two.claim(found, content(gen=gen))
    with pytest.raises(StoreUnclaimedError):
        await two.view()
    await two.adopt(await two.inspect())
    assert await two.view() == await one.view()
    await one.close()
    await two.close()


async def test_a_claim_never_goes_back_in_gen(any_store: RedisStore) -> None:
    found = await any_store.inspect()
    with pytest.raises(StoreUnclaimedError):
        await any_store.claim(found, content(gen=found.gen))


async def test_a_broker_that_another_one_superseded_does_nothing_more(any_server: str) -> None:
    tenant = new_tenant()
    old, new = RedisStore(any_server, tenant), RedisStore(any_server, tenant)
    await claim(old, version_record("3", State.STABLE))
    await claim(new, version_record("3", State.STABLE))
    with pytest.raises(StoreUnclaimedError):
        await old.issue(an_issue())
    assert await new.pending() == []
    await old.close()
    await new.close()


async def test_resp2_and_resp3_give_the_same_answers(any_server: str) -> None:
    seen = []
    for protocol in (2, 3):
        store = RedisStore(any_server, new_tenant(), protocol=protocol)  # type: ignore[arg-type]
        await claim(store, version_record("3", State.STABLE), version_record("4", State.CANARY))
        issue = an_issue(uses=1)
        answer = await issued(store, issue)
        change = await store.change(a_rollback(seq=0))
        assert change is not None
        seen.append(
            (
                *(answer.rseq, answer.gseq, change.seq, change.gseq, dict(await store.marks())),
                await store.inquire(an_inquiry(issue, answer, use="a")),
                dict((await store.view()).versions),
                [(step.gseq, step.seq, step.intent) for step in await store.pending()],
                await store.issue(an_issue(seq=0)),
                await store.release(issue.jti),
            )
        )
        await store.close()
    assert seen[0] == seen[1]


async def test_an_exchange_is_one_call_to_the_store(any_store: RedisStore) -> None:
    before = any_store.calls
    await issued(any_store, an_issue(assertion=an_assertion(), audited=[1, 2]))
    assert any_store.calls == before + 1
