"""Step 3: version 4 is rolled back in the middle of a tool call that uses its credential again and again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from broker.domain.dispatch import Code

from .callers import Answer, Caller
from .exchanges import Spent
from .processes import wait_until
from .scene import Scene
from .stage import READINGS, REVENUE
from .use_log import Use, read_uses

USES_BEFORE = 5
CALLS_AFTER = 5
REFUSED_SECONDS = 10


async def rollback(scene: Scene) -> None:
    tell, ana, bob, kept = scene.tell, scene.ana, scene.bob, scene.first_canary
    assert kept is not None
    tell.say("ana reads 200 000 rows with version 4; the tool spends its credential for every page of 20.")
    tell.say("bob goes on calling version 3 all the while.")
    ana.quiet = bob.quiet = True
    running = asyncio.create_task(
        ana.ask("db.query", {"query": READINGS, "timeout": 60}, version="4", task="report"), name="ana"
    )
    stop = asyncio.Event()
    others = asyncio.create_task(_keep_calling(bob, stop), name="bob")
    copies: list[tuple[Spent, float]] = []

    async def spend_copy() -> None:
        copies.append((await scene.exchanges.try_spending(kept.token), time.time()))

    try:
        await _until_used(scene, kept.claims["jti"])
        ran = await scene.operators.run(
            "rollback", "db.query@4", "--wait", admin="rollout-bot", says="No verifier", then=spend_copy
        )
        ended = await _end_of(running)
    finally:
        running.cancel()
        stop.set()
        calls = await others
        ana.quiet = bob.quiet = False

    [(copy, refused)] = copies
    tell.sent(f"ana: tools/call db.query  version 4, task report  {READINGS}")
    tell.got(f"tool error: {ended.text}", ended.milliseconds)
    uses = [use for use in _uses_of_4(scene) if use.unverified_jti != kept.claims["jti"]]
    accepted = [use for use in uses if use.status == 200]
    no = [use for use in uses if use.status == 401]
    tell.equal("the tool's next use of its credential was refused", expected="credential_revoked", found=_reason(no))
    _show_times(scene, accepted, no[0], started=ran.started, acknowledged=ran.acknowledged, copy_refused=refused)
    late = [use for use in _uses_of_4(scene) if use.status == 200 and use.arrived > ran.acknowledged]
    tell.equal("no use was accepted that came after the receipt", expected=0, found=len(late))
    tell.holds("the receipt names the database's verifier", expected="db-api", found=ran.output)
    tell.holds("the tool could only give up", expected="credential_revoked", found=ended.text)
    scene.exchanges.tell(copy)
    tell.equal(
        "the one that was copied is refused, too",
        expected=(401, "credential_revoked"),
        found=(copy.status, copy.reason),
    )
    tell.at_least("though it had seconds left to live", limit=1, found=kept.seconds_left)

    wrong = [call for call in calls if call.kind != "result"]
    tell.equal(f"bob's {len(calls)} calls of version 3 were all answered", expected=[], found=wrong)
    again = await ana.ask("db.query", {"query": REVENUE, "timeout": 5}, version="4", task="report")
    tell.equal("ana calls 4 again: refused", expected=int(Code.SCHEMA_VERSION_RETIRED), found=again.code)
    tell.equal("and told what is current", expected="3", found=again.data.get("current"))


def _show_times(
    scene: Scene, accepted: Sequence[Use], no: Use, *, started: float, acknowledged: float, copy_refused: float
) -> None:
    last = max(use.answered for use in accepted)
    command = (no.answered - started) * 1000
    after = (no.answered - acknowledged) * 1000
    when = f"{after:.1f} ms after" if after >= 0 else f"{-after:.1f} ms before"
    scene.tell.panel(
        "how fast",
        [
            (
                "pages read",
                f"{len(accepted)} before the rollback, the last one {(last - started) * 1000:.0f} ms into the command",
            ),
            ("receipt", f"there {(acknowledged - started) * 1000:.0f} ms after the command was started"),
            ("first refusal", f"{when} the receipt, {command:.0f} ms after the command was started"),
            ("between", f"{(no.answered - last) * 1000:.1f} ms from the last use accepted to the first refused"),
            ("the copy", f"refused {(copy_refused - acknowledged) * 1000:.1f} ms after the receipt"),
        ],
    )


async def _end_of(running: asyncio.Task[Answer]) -> Answer:
    done, _ = await asyncio.wait([running], timeout=REFUSED_SECONDS)
    if not done:
        raise TimeoutError(f"ana's call of version 4 went on for {REFUSED_SECONDS} s after the rollback")
    return running.result()


async def _keep_calling(bob: Caller, stop: asyncio.Event) -> list[Answer]:
    """Calls of version 3, one after another, some of them after the stop."""
    calls: list[Answer] = []
    after = 0
    while after < CALLS_AFTER:
        after += stop.is_set()
        arguments = {"query": REVENUE, "timeout_ms": 5000}
        calls.append(await bob.ask("db.query", arguments, version="3", task="report"))
    return calls


async def _until_used(scene: Scene, other: str) -> None:
    async def look() -> bool | None:
        used = [use for use in _uses_of_4(scene) if use.unverified_jti != other and use.status == 200]
        of_one = [use for use in used if use.unverified_jti == used[-1].unverified_jti]
        return True if len(of_one) >= USES_BEFORE else None

    await wait_until(look, f"the tool has spent its credential {USES_BEFORE} times")


def _uses_of_4(scene: Scene) -> list[Use]:
    return [use for use in read_uses(scene.stage.path("database-uses.jsonl")) if use.unverified_version == "4"]


def _reason(uses: Sequence[Use]) -> str | None:
    return uses[0].reason if uses else None
