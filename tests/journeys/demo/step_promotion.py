"""Step 4: version 4 is a canary again, and then stable. Step 5: version 3 is retired at once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import mcp_types
from broker.domain.dispatch import Code

from .scene import Scene
from .stage import REVENUE

OLD_ARGUMENTS = {"query": REVENUE, "timeout_ms": 5000}


async def promotion(scene: Scene) -> None:
    tell, ana, bob, kept = scene.tell, scene.ana, scene.bob, scene.first_canary
    assert kept is not None
    spend = scene.exchanges.spend
    await scene.operators.run("canary", "db.query@4", "--principal", "ana", admin="rollout-bot")
    arguments = {"query": REVENUE, "timeout": 5}
    fresh = await scene.exchanges.exchange(ana.token, version="4", task="report", arguments=arguments)
    answer = await spend(fresh.token)
    tell.equal("a credential of the second canary is accepted", expected=200, found=answer.status)
    answer = await spend(kept.token)
    tell.equal("that of the first canary is still dead", expected=401, found=answer.status)

    await scene.operators.run("promote", "db.query@4", admin="rollout-bot")
    versions = await scene.operators.versions("db.query")
    states = {number: record["state"] for number, record in versions.items()}
    tell.equal("4 is stable, 3 is deprecated", expected={"3": "deprecated", "4": "stable"}, found=states)
    sunset = datetime.fromtimestamp(versions["3"]["sunset"], UTC)
    tell.at_least("and 3 has a sunset a year away", limit=364, found=(sunset - datetime.now(UTC)).days)
    answer = await spend(fresh.token)
    tell.equal("the second canary's credential goes on", expected=200, found=answer.status)
    answer = await spend(kept.token)
    tell.equal("the first canary's does not come back", expected=401, found=answer.status)
    tell.equal("since it is revoked", expected="credential_revoked", found=answer.reason)
    tell.at_least("not because it ran out: it has seconds left", limit=1, found=kept.seconds_left)
    tell.say(f"Both are for db.query@4; they differ in rseq: {kept.claims['rseq']} then, {fresh.claims['rseq']} now.")

    await scene.until_listed(bob, "4")
    called = await bob.use("db.query", OLD_ARGUMENTS, task="report")
    tell.equal("bob's client, still on 3, goes on working", expected="result", found=called.kind)


async def retirement(scene: Scene) -> None:
    tell, bob = scene.tell, scene.bob
    await scene.operators.run("retire", "db.query@3", "--emergency", "statement injection in version 3")
    bob.seen.clear()
    messages: list[str] = []

    def rebuild(tool: mcp_types.Tool) -> dict[str, Any]:
        """What bob's assistant makes of the new schema."""
        messages.append(tool.description or "")
        known = tool.input_schema["properties"]
        return {"query": REVENUE, "timeout": 5} if "timeout" in known else dict(OLD_ARGUMENTS)

    called = await bob.use("db.query", OLD_ARGUMENTS, task="report", rebuild=rebuild)
    told = str(int(Code.SCHEMA_VERSION_RETIRED))
    tell.equal("told to list again, listed, tried once more, answered", expected=[told, "list", "ok"], found=bob.seen)
    tell.equal("bob has his rows", expected=4, found=len(called.value["rows"]))
    again = await bob.use("db.query", {"query": REVENUE, "timeout": 5}, task="report")
    tell.equal("and is on 4 from now on", expected=("result", "ok"), found=(again.kind, bob.seen[-1]))
