"""Step 2: version 4 is a canary for ana; everybody else stays on 3."""

from __future__ import annotations

from broker.domain.dispatch import Code

from .scene import Scene
from .stage import REVENUE
from .step_stable import show_credential


async def canary(scene: Scene) -> None:
    tell, ana, bob = scene.tell, scene.ana, scene.bob
    await scene.operators.run("canary", "db.query@4", "--principal", "ana", admin="rollout-bot")
    await scene.until_listed(ana, "4")
    await ana.list_tools(cache_mode="refresh")
    for other in (bob, scene.dora):
        await other.list_tools(cache_mode="refresh")
        tell.equal(f"{other.name} is shown 3", expected="3", found=await other.listed_version("db.query"))

    arguments = {"query": REVENUE, "timeout": 5}
    called = await ana.ask("db.query", arguments, version="4", task="report")
    tell.equal("ana calls 4", expected=("result", 4), found=(called.kind, len(called.value.get("rows", ()))))
    called = await bob.use("db.query", {"query": REVENUE, "timeout_ms": 5000}, task="report")
    tell.equal("bob calls 3", expected=("result", 4), found=(called.kind, len(called.value.get("rows", ()))))
    refused = await bob.ask("db.query", arguments, version="4", task="report")
    tell.equal("bob declares 4: refused", expected=int(Code.CREDENTIAL_REFUSED), found=refused.code)
    tell.equal("and told why", expected="version_not_routed", found=refused.data.get("reason"))

    tell.say("A credential for 4, kept aside for what follows: say, somebody copied it out of the running tool.")
    made = await scene.exchanges.exchange(ana.token, version="4", task="report", arguments=arguments)
    show_credential(tell, made)
    scene.first_canary = made
    answer = await scene.exchanges.spend(made.token)
    tell.equal("the database accepts it", expected=200, found=answer.status)
