"""A running broker and the rules: it loads and publishes what they let through, and keeps serving the last good policy."""

from __future__ import annotations

import datetime
import json
import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from broker.domain.contracts.contract import parse_contract

from broker_parts import EXCHANGERS, BrokerProcess, PolicyTree, Wire, contract, detail, read_log, refused, wait_until

MODES = {"mode": {"enum": ["read", "write"]}}
WRITES = {"properties": {"mode": {"const": "write"}}, "required": ["mode"]}
TASKS = {
    "use": {"allow": {"clients": list(EXCHANGERS)}, "scopes": ["root.read", "root.write"], "ttl": "60s"},
    "look": {"allow": {"claims": {"groups": ["analysts", "auditors"]}}, "scopes": ["root.read"], "uses": 3},
}


class Files:
    """The files of one tool, `root.modes`: version 1 reads and writes; more versions are written as they are needed."""

    def __init__(self, tree: PolicyTree, name: str = "root.modes") -> None:
        self.tree = tree
        self.name = name
        scopes = {"root.read": {"needed_when": True}, "root.write": {"needed_when": WRITES}}
        tree.add_tool(contract(name, MODES, "mode"), audience="https://root.example", scopes=scopes, tasks=TASKS)
        self.test("1")

    @property
    def path(self) -> Path:
        return self.tree.folder / f"{self.name}.yaml"

    def test(self, *versions: str, granted: bool = True) -> None:
        known = versions if granted else ()
        asked = {"arguments": {"mode": "read"}}
        self.tree.add_tests(self.name, *known, task="use", permit=["root.read"], **asked)

    def edit(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Change what the file says."""
        said = json.loads(self.path.read_text())
        change(said["versions"])
        self.path.write_text(json.dumps(said, indent=1))

    def add(self, number: str, schema: dict[str, Any], **said: Any) -> None:
        """Another version, with tests; `said` is what its entry says beside the contract."""
        served = {"name": self.name, "description": f"The tool {self.name}, as {number} has it.", "inputSchema": schema}
        (self.tree.folder / "contracts" / self.name / f"{number}.json").write_text(json.dumps(served))
        made = {"contract": f"contracts/{self.name}/{number}.json", "digest": parse_contract(served).digest, **said}
        self.edit(lambda versions: versions.__setitem__(number, made))
        self.test(*json.loads(self.path.read_text())["versions"])


def schema_of(*modes: str) -> dict[str, Any]:
    made = contract("x", {"mode": {"enum": list(modes)}}, "mode")["inputSchema"]
    assert isinstance(made, dict)
    return made


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    made = BrokerProcess(tmp_path)
    try:
        yield made
        assert "Traceback" not in made.said(), made.said()
    finally:
        made.remove()


@pytest.fixture
def files(broker: BrokerProcess) -> Files:
    return Files(broker.policies)


def asked(version: str = "1", task: str = "use", mode: str = "read") -> dict[str, Any]:
    return detail("root.modes", version=version, task=task, arguments={"mode": mode})


def reload(wire: Wire) -> tuple[int, dict[str, Any]]:
    answer = wire.admin("POST", "/policy/reload")
    return answer.status_code, answer.json()


def rules(body: dict[str, Any], *severities: str) -> set[str]:
    report = body["report"] if "report" in body else body["data"]["report"]
    return {one["rule"] for one in report["findings"] if not severities or one["severity"] in severities}


def types(broker: BrokerProcess, *kinds: str) -> list[dict[str, Any]]:
    return [record for record in read_log(broker) if record["type"] in kinds]


def shrink(versions: dict[str, Any]) -> None:
    versions["1"]["tasks"]["use"]["ttl"] = "30s"


def grow(versions: dict[str, Any]) -> None:
    versions["1"]["tasks"]["use"]["ttl"] = "90s"


def test_access_that_is_taken_away_in_place_is_gone_at_once(broker: BrokerProcess, files: Files) -> None:
    wire = broker.start().wire
    wire.serve("root.modes@1", "ticket.edit@1")
    held = wire.mint(authorization_details=asked())["access_token"]
    looking = wire.mint(authorization_details=asked(task="look"))["access_token"]
    other = wire.mint()["access_token"]

    files.edit(lambda versions: versions["1"]["tasks"]["look"]["allow"]["claims"].update(groups=["auditors"]))
    status, body = reload(wire)

    assert (status, body["narrowed"], body["edited"]) == (200, ["root.modes@1"], [])
    assert not wire.is_active(held)
    assert not wire.is_active(looking)
    assert wire.is_active(other)
    assert refused(wire.exchange(authorization_details=asked(task="look")))[2] == "task_not_allowed"
    again = wire.mint(authorization_details=asked())["access_token"]
    assert wire.is_active(again)
    [record] = types(broker, "policy.narrow")
    assert record["by"] == "operator"
    assert record["policy"] == body["policy"]
    published = types(broker, "version.publish")
    assert record["revoked"] == [f"policy:{published[0]['records'][0]['policy']}"]


def test_what_was_taken_away_stays_taken_away(broker: BrokerProcess, files: Files) -> None:
    wire = broker.start().wire
    wire.serve("root.modes@1")
    wide = files.path.read_text()
    files.edit(shrink)
    assert reload(wire)[0] == 200
    files.path.write_text(wide)

    status, body = reload(wire)

    assert (status, body["reason"]) == (409, "policy_refused")
    assert rules(body, "refused") == {"version.edited"}
    assert wire.mint(authorization_details=asked())["expires_in"] == 30


def test_access_that_grows_in_place_is_refused_and_the_policy_in_force_stays(
    broker: BrokerProcess, files: Files
) -> None:
    wire = broker.start().wire
    wire.serve("root.modes@1")
    held = wire.mint(authorization_details=asked())["access_token"]
    files.edit(grow)

    status, body = reload(wire)

    assert (status, body["reason"]) == (409, "policy_refused")
    [finding] = [one for one in body["data"]["report"]["findings"] if one["severity"] == "refused"]
    assert finding["rule"] == "version.edited"
    assert finding["place"]["file"] == "root.modes.yaml"
    assert finding["place"]["line"] > 1
    assert "ttl" in finding["what"]
    assert finding["mend"]
    assert wire.is_active(held)
    assert wire.mint(authorization_details=asked())["expires_in"] == 60
    denied = types(broker, "request.deny")
    assert denied[-1]["reason"] == "policy_refused"
    assert "version.edited" in denied[-1]["why"]


def test_a_shrunk_file_is_served_after_a_restart_and_kills_what_was_granted_before(
    broker: BrokerProcess, files: Files
) -> None:
    broker.start().wire.serve("root.modes@1")
    broker.stop(signal.SIGKILL)
    files.edit(shrink)

    wire = broker.start().wire

    assert wire.mint(authorization_details=asked())["expires_in"] == 30
    assert len(types(broker, "policy.narrow")) == 1
    broker.stop()
    wire = broker.start().wire
    assert wire.mint(authorization_details=asked())["expires_in"] == 30
    assert len(types(broker, "policy.narrow")) == 1, "once taken away, there is nothing left to take"


def test_a_grown_file_takes_its_version_out_of_service_at_a_restart_and_nothing_else(
    broker: BrokerProcess, files: Files
) -> None:
    broker.start().wire.serve("root.modes@1", "ticket.edit@1")
    broker.stop()
    good = files.path.read_text()
    files.edit(grow)

    wire = broker.start().wire

    assert "root.modes@1: the loaded policy is not the published one; the version is refused" in broker.said()
    assert refused(wire.exchange(authorization_details=asked()))[2] == "policy_mismatch"
    wire.mint()
    # what a reload does not change, it does not refuse: another emergency need not wait for this one
    status, body = reload(wire)
    assert (status, body["edited"]) == (200, ["root.modes@1"])
    files.path.write_text(good)
    assert reload(wire)[1]["edited"] == []
    wire.mint(authorization_details=asked())


def test_a_kill_between_edit_and_reload_leaves_what_the_files_say(broker: BrokerProcess, files: Files) -> None:
    wire = broker.start().wire
    wire.serve("root.modes@1")
    files.edit(shrink)
    wire.mint(authorization_details=asked())
    broker.stop(signal.SIGKILL)
    assert broker.start().wire.mint(authorization_details=asked())["expires_in"] == 30
    assert reload(broker.wire)[1]["narrowed"] == []


CUT = {"extends": "1", "scopes": {"root.write": None}, "tasks": {"use": {**TASKS["use"], "scopes": ["root.read"]}}}


def test_a_version_that_tightens_its_inputs_and_keeps_its_scopes_is_neither_loaded_nor_published(
    broker: BrokerProcess, files: Files
) -> None:
    wire = broker.start().wire
    wire.serve("root.modes@1")
    files.add("2", schema_of("read"), extends="1")

    status, body = reload(wire)

    assert (status, body["reason"]) == (409, "policy_refused")
    assert "lockstep.scope-kept" in rules(body, "refused")
    assert wire.mint(authorization_details=asked(mode="write"))["scope"] == "root.read root.write"
    answer = wire.admin("POST", "/versions/root.modes/2/publish", body={})
    assert (answer.status_code, answer.json()["reason"]) == (404, "version_not_in_policy")


def test_a_version_that_cuts_a_scope_its_inputs_still_need_is_not_loaded(broker: BrokerProcess, files: Files) -> None:
    wire = broker.start().wire
    wire.serve("root.modes@1")
    files.add("2", schema_of("read", "write"), **CUT)
    status, body = reload(wire)
    assert status == 409
    found = [one for one in body["data"]["report"]["findings"] if one["rule"] == "lockstep.schema-kept"]
    assert [one["witness"] for one in found] == [{"mode": "write"}]


def test_a_version_in_which_both_shrink_is_loaded_and_published(broker: BrokerProcess, files: Files) -> None:
    wire = broker.start().wire
    wire.serve("root.modes@1")
    files.add("2", schema_of("read"), **CUT)
    assert reload(wire)[0] == 200
    assert wire.command("root.modes@2", "publish")["changed"] is True
    wire.command("root.modes@2", "canary", weight_percent=100)
    assert wire.mint(authorization_details=asked("2"))["scope"] == "root.read"


def test_a_version_is_compared_with_what_was_published_whatever_it_says_it_replaces(
    broker: BrokerProcess, files: Files
) -> None:
    wire = broker.start().wire
    wire.serve("root.modes@1")
    # between them stands a version that is never published, and does not grant the scope either
    wide = {"arguments": {}, "scopes": {"root.read": {"needed_when": True}, "root.all": {"needed_when": True}}}
    use = {**TASKS["use"], "scopes": ["root.read", "root.all"]}
    files.add("2", schema_of("read"), **wide, tasks={"use": use})
    files.edit(lambda versions: versions.update({"2": versions.pop("2"), "1": versions.pop("1")}))
    status, body = reload(wire)
    assert (status, "scope.widened" in rules(body, "refused")) == (409, True)


def test_a_version_that_was_loaded_is_judged_once_more_against_what_was_published_since(
    broker: BrokerProcess, files: Files
) -> None:
    wire = broker.start().wire
    wire.serve("root.modes@1")
    files.add("2", schema_of("read"), **CUT)
    # follows 1 as 2 does, and is as wide as 1: no step from it, but one from 2
    files.add("3", schema_of("read", "write"), extends="1", replaces="1", change={"class": "semantic only"})
    files.edit(lambda versions: versions.update({"2": versions.pop("2")}))
    status, body = reload(wire)
    assert status == 200, body
    wire.command("root.modes@2", "publish")
    wire.command("root.modes@2", "canary", weight_percent=100)
    wire.command("root.modes@2", "promote")

    answer = wire.admin("POST", "/versions/root.modes/3/publish", body={})

    assert (answer.status_code, answer.json()["reason"]) == (409, "policy_refused")
    assert "scope.widened" in rules(answer.json(), "refused")


def test_an_exception_that_is_used_is_recorded_at_the_load_and_at_the_publication(
    broker: BrokerProcess, files: Files
) -> None:
    wire = broker.start().wire
    wire.serve("root.modes@1")
    write_widening(files)
    assert rules(reload(wire)[1], "refused") == {"scope.widened"}
    write_exception(files.tree, days=30)

    status, body = reload(wire)

    assert status == 200
    assert rules(body, "excepted") == {"scope.widened"}
    wire.command("root.modes@2", "publish")
    used = types(broker, "policy.exception")
    assert [(one["when"], one["rule"], one["version"], one["by"]) for one in used] == [
        ("load", "scope.widened", "2", "operator"),
        ("publish", "scope.widened", "2", "operator"),
    ]
    assert used[0]["approved_by"] == ["ada", "bo"]
    assert used[0]["reason"] == "the quarter ends"


def test_an_exception_that_ran_out_stops_a_new_version_and_no_published_one(
    broker: BrokerProcess, files: Files
) -> None:
    wire = broker.start().wire
    wire.serve("root.modes@1")
    write_widening(files)
    write_exception(files.tree, days=30)
    assert reload(wire)[0] == 200
    write_exception(files.tree, days=-1)

    status, body = reload(wire)
    assert (status, rules(body, "refused")) == (409, {"scope.widened", "exception.invalid"})
    answer = wire.admin("POST", "/versions/root.modes/2/publish", body={})
    assert answer.status_code == 200, "the policy in force still holds the exception that holds"

    assert reload(wire)[0] == 200, "it is published now, and was judged then"
    broker.stop()
    assert broker.start().is_ready()
    assert "exception.invalid" in broker.said()


def test_a_broker_does_not_start_on_policy_that_the_rules_refuse(broker: BrokerProcess, files: Files) -> None:
    files.add("2", schema_of("read"), extends="1")
    process = broker.launch()
    wait_until(lambda: process.poll() is not None, what="the broker ends")
    assert process.returncode == 1
    said = broker.said()
    assert "root.modes.yaml:" in said
    assert "lockstep.scope-kept" in said
    assert "mend:" in said


def test_two_replicas_never_grant_more_than_the_narrower_files(broker: BrokerProcess, files: Files) -> None:
    """The second replica has not loaded the narrower files yet: it refuses, rather than grant what was taken away."""
    wire = broker.start().wire
    wire.serve("root.modes@1")
    files.edit(shrink)
    assert reload(wire)[1]["narrowed"] == ["root.modes@1"]
    [record] = wire.admin("GET", "/versions?tool=root.modes").json()["versions"]
    assert record["grant"]["tasks"]["use"]["ttl"] == 30
    listed = wire.http.get("/tools/root.modes", headers=wire.proof("svc")[0]).json()["versions"]
    assert "grant" not in listed[0], "who may have what is not for those who serve the tool"


def write_widening(files: Files) -> None:
    longer = {"use": {**TASKS["use"], "ttl": "120s"}}
    files.add("2", schema_of("read", "write"), extends="1", tasks=longer, change={"class": "semantic only"})


def write_exception(tree: PolicyTree, *, days: int) -> None:
    last = (datetime.datetime.now(datetime.UTC).date() + datetime.timedelta(days=days)).isoformat()
    entry = {
        "rule": "scope.widened",
        "tool": "root.modes",
        "version": "2",
        "reason": "the quarter ends",
        "approved_by": ["ada", "bo"],
        "expires": last,
    }
    (tree.folder / "exceptions.yaml").write_text(json.dumps({"exceptions": [entry]}))


def hostile(bound: int) -> dict[str, Any]:
    """A schema that is lawful to read and hard to reason about: sixteen choices, multiplied."""
    properties: dict[str, Any] = {**MODES} | {f"{letter}{number}": {} for letter in "ab" for number in range(16)}
    either = [
        {
            "anyOf": [
                {"properties": {f"a{n}": {"type": "string"}, f"b{n}": {"minimum": bound}}, "required": [f"a{n}"]},
                {"properties": {f"a{n}": {"type": "integer"}}, "required": [f"b{n}"]},
            ]
        }
        for n in range(16)
    ]
    return {"type": "object", "properties": properties, "additionalProperties": False, "allOf": either}


def test_exchanges_go_on_while_a_hostile_contract_is_looked_at(broker: BrokerProcess, files: Files) -> None:
    wire = broker.start().wire
    wire.serve("root.modes@1")

    def exchange_seconds() -> float:
        began = time.perf_counter()
        wire.mint(authorization_details=asked())
        return time.perf_counter() - began

    idle = statistics.median(exchange_seconds() for _ in range(40))
    files.add("2", hostile(1), extends="1")
    outcome: list[str] = []
    other = Wire(broker.url)
    other.http.timeout = 120.0
    checking = threading.Thread(target=lambda: outcome.append(other.admin("POST", "/policy/reload").json()["reason"]))
    checking.start()
    busy: list[float] = []
    while checking.is_alive():
        busy.append(exchange_seconds())
    checking.join()
    other.http.close()

    assert outcome == ["policy_refused"]
    assert len(busy) >= 3, "the check is long enough to be noticed"
    beside = statistics.median(busy)
    print(
        f"{len(busy)} exchanges beside a check: {beside / idle:.1f} times as long as idle, at most {max(busy) / idle:.0f}"
    )
    assert beside < 20 * idle
