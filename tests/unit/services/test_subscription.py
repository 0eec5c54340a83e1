"""A listener's queue: in order, all at once, and cut off where it does not keep up."""

from __future__ import annotations

import asyncio

from broker.domain.revocation.feed import Heartbeat, spell_event
from broker.services.subscription import MAX_WAITING, Subscription


def push(subscription: Subscription, seq: int) -> None:
    event = Heartbeat(1, seq)
    subscription.push(event, spell_event(event))


async def test_what_has_come_is_given_at_once_and_in_order() -> None:
    subscription = Subscription()
    for seq in range(3):
        push(subscription, seq)
    assert [event.seq for event, _ in await subscription.next()] == [0, 1, 2]
    waiting = asyncio.ensure_future(subscription.next())
    await asyncio.sleep(0)
    assert not waiting.done()
    push(subscription, 3)
    assert [(event.seq, spelled) for event, spelled in await waiting] == [(3, spell_event(Heartbeat(1, 3)))]


async def test_a_listener_that_falls_too_far_behind_is_cut_off_and_nothing_is_kept_for_it() -> None:
    subscription = Subscription()
    for seq in range(MAX_WAITING):
        push(subscription, seq)
    assert not subscription.is_over
    push(subscription, MAX_WAITING)
    assert subscription.is_over
    assert await subscription.next() == []
    push(subscription, MAX_WAITING + 1)
    assert await subscription.next() == []


async def test_the_end_wakes_who_waits() -> None:
    subscription = Subscription()
    waiting = asyncio.ensure_future(subscription.next())
    await asyncio.sleep(0)
    subscription.end()
    assert await waiting == []
