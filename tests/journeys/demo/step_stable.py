"""Step 1: version 3 is stable; a credential is made, looked at and used."""

from __future__ import annotations

from .exchanges import Credential
from .scene import Scene
from .stage import DATABASE_AUDIENCE, REPORTS, REVENUE
from .telling import Teller


async def stable(scene: Scene) -> None:
    tell, exchanges, ana, dora = scene.tell, scene.exchanges, scene.ana, scene.dora
    run_all = scene.operators.run_all
    await run_all(("publish", "db.query@3"), ("publish", "files.read@1"))
    # After the version that it replaces: an older one that comes later is judged as what would follow the newer.
    await run_all(("publish", "db.query@4"), ("promote", "db.query@3"), ("promote", "files.read@1"))

    tell.say("First by hand: what the MCP server does just before it runs a tool for ana.")
    arguments = {"query": REVENUE, "timeout_ms": 5000}
    made = await exchanges.exchange(ana.token, version="3", task="report", arguments=arguments)
    show_credential(tell, made)
    tell.equal("it is good for reading, and for nothing else", expected="db:read", found=made.claims["scope"])
    tell.equal(
        "for this tool, this version, this task",
        expected=("db.query", "3", "report"),
        found=(made.detail["tool"], made.detail["version"], made.detail["task"]),
    )
    tell.equal("at the database alone", expected=DATABASE_AUDIENCE, found=made.claims["aud"])
    tell.at_most("for a minute at most", limit=60, found=made.seconds_left)
    tell.at_least("and it has not run out yet", limit=1, found=made.seconds_left)
    answer = await exchanges.spend(made.token)
    tell.equal("the database accepts it", expected=200, found=answer.status)
    answer = await exchanges.spend(made.token, query="delete from revenue", path="/write")
    tell.equal("but not for writing", expected=403, found=answer.status)
    answer = await exchanges.spend(ana.token)
    tell.equal("ana's own token opens nothing there", expected=401, found=answer.status)

    tell.say("Now as it is meant: an MCP client calls the tool, and the gate does all this.")
    called = await ana.use("db.query", arguments, task="report")
    tell.equal("ana gets the rows", expected=[["north", 120], ["south", 80], ["west", 45]], found=called.value["rows"])
    insert = {"query": "insert into revenue values ('east', 30)", "timeout_ms": 5000, "mode": "write"}
    written = await dora.use("db.query", insert, task="migrate")
    tell.equal("dora, in a migration, may write in version 3", expected=[[1]], found=written.value["rows"])
    report = await scene.bob.use("files.read", {"path": f"{REPORTS}/2026/q3.csv"})
    tell.holds("bob reads a report, with a scope for this one file", expected="north,120", found=report.value["text"])


def show_credential(tell: Teller, made: Credential) -> None:
    claims, detail = made.claims, made.detail
    tell.panel(
        "the credential, decoded",
        [
            ("for", f"{claims['sub']}, through the agent {claims['act']['sub']}, by {claims['client_id']}"),
            ("at", claims["aud"]),
            ("scope", claims["scope"]),
            ("task", detail["task"]),
            ("tool", f"{detail['tool']}@{detail['version']}"),
            ("contract", detail["contract"]),
            ("to live", f"{made.seconds_left} s"),
            ("clock", f"gen {claims['gen']}, rseq {claims['rseq']}"),
        ],
    )
