"""`broker version …` and the admin API, as an operator uses them: real command, real broker, and nobody gets in unasked."""

from __future__ import annotations

import datetime
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_parts import (
    TOOLS_API,
    BrokerProcess,
    PolicyTree,
    Wire,
    assertion,
    basic,
    contract,
    detail,
    free_port,
    pem_of,
    read_log,
    refused,
    wait_until,
)

TOOLS = ("life.one", "life.two", "life.bare")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("broker")
    tree = PolicyTree(folder / "policies")
    for name in TOOLS:
        tree.add_tool(
            contract(name, {"key": {"type": "string"}}),
            audience=TOOLS_API,
            scopes={"root.read": {"needed_when": True}},
            tasks={"read": {"allow": {"clients": ["svc"]}, "scopes": ["root.read"]}},
            versions=3,
        )
    trust = json.loads((tree.folder / "trust.yaml").read_text())
    for issuer in trust["issuers"].values():
        issuer["ceiling"]["tools"].append("life.*")
    for client in trust["clients"].values():
        client.get("tools", []).append("life.*")
    (tree.folder / "trust.yaml").write_text(json.dumps(trust))
    for name in ("operator", "rollout-bot"):
        (folder / f"{name}.pem").write_bytes(pem_of(name))
    made = BrokerProcess(folder, policies=tree)
    try:
        made.start()
        yield made
        assert made.stop() == 0
        assert "Traceback" not in made.said(), made.said()
    finally:
        made.remove()


@pytest.fixture
def wire(broker: BrokerProcess) -> Wire:
    return broker.wire


class Operator:
    """Types `broker …` and reads what is said."""

    def __init__(self, broker: BrokerProcess, name: str = "operator") -> None:
        self.environment = {
            "BROKER_URL": broker.url,
            "BROKER_ADMIN": name,
            "BROKER_ADMIN_KEY": str(broker.folder / f"{name}.pem"),
        }

    def type(self, *words: str, expect: int = 0, **environment: str) -> str:
        plain = {name: value for name, value in os.environ.items() if not name.startswith("BROKER_")}
        done = subprocess.run(
            [sys.executable, "-m", "broker.cli.main", *words],
            env={**plain, **self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=60,
        )
        said = done.stdout + done.stderr
        assert done.returncode == expect, said
        assert "Traceback" not in said
        assert (done.stdout == "") == (expect != 0), "what was done is said on stdout, what was not on stderr"
        return said


@pytest.fixture
def operator(broker: BrokerProcess) -> Operator:
    return Operator(broker)


def test_a_version_goes_through_its_whole_life(operator: Operator) -> None:
    one, two = "life.one@1", "life.one@2"
    assert operator.type("version", "publish", one) == f"{one}  published\n"
    assert operator.type("version", "publish", one) == f"nothing to change\n{one}  published\n"
    assert operator.type("version", "promote", one) == f"{one}  stable\n"
    operator.type("version", "publish", two)
    said = operator.type("version", "promote", two, expect=1)
    assert "transition_not_allowed" in said
    assert f"{one} is stable; {two} must be a canary before it can replace it" in said
    said = operator.type("version", "canary", two, "--principal", "bob", "--principal", "eve", "--weight", "2.5")
    assert said == f"{two}  canary  for bob, eve, 2.5 %\n"
    sunset = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=365)).date().isoformat()
    assert operator.type("version", "promote", two) == f"{two}  stable\n{one}  deprecated  sunset {sunset}\n"
    said = operator.type("version", "deprecate", one, "--sunset", "2026-12-24", expect=1)
    assert "sunset_too_early" in said
    said = operator.type("version", "retire", one, expect=1)
    assert "sunset_not_reached" in said
    assert "--emergency REASON" in said
    said = operator.type("version", "retire", one, "--emergency", "leaks rows")
    assert f"{one}  retired\nrevoked version:{one}: every credential with rseq below " in said
    said = operator.type("version", "rollback", two, expect=1)
    assert "no_version_left" in said
    said = operator.type("version", "rollback", two, "--force")
    assert f"{two}  rolled_back\nrevoked version:{two}" in said
    assert operator.type("version", "canary", two) == f"{two}  canary  for nobody\n"
    said = operator.type("version", "list", "--tool", "life.one")
    assert said == f"{one}  retired\n{two}  canary  for nobody\n"


def test_the_answer_can_be_read_by_a_machine(operator: Operator) -> None:
    said = json.loads(operator.type("version", "publish", "life.bare@1", "--json"))
    assert (said["changed"], said["versions"][0]["state"]) == (True, "published")
    said = json.loads(operator.type("version", "list", "--tool", "life.bare", "--json"))
    assert [record["version"] for record in said["versions"]] == ["1"]
    shown = json.loads(operator.type("version", "show", "life.bare@1", "--json"))
    assert shown["members"]["name"] == "life.bare"
    text = operator.type("version", "show", "life.bare@1")
    assert text.startswith(f"life.bare@1  published\ncontract  {shown['contract']}\n")


def test_usage_is_2_unusable_input_3_and_nobody_there_4(operator: Operator, tmp_path: Path) -> None:
    operator.type("version", "publish", "nonsense", expect=2)
    operator.type("version", "explode", "life.one@1", expect=2)
    for weight in ("101", "-1", "nan", "0.001", "abc"):
        said = operator.type("version", "canary", "life.one@1", "--weight", weight, expect=2)
        assert "a number from 0 to 100 with at most two decimals was expected" in said
    said = operator.type("version", "list", expect=3, BROKER_ADMIN_KEY=str(tmp_path / "missing.pem"))
    assert "broker keygen operator" in said
    (tmp_path / "odd.pem").write_text("not a key")
    said = operator.type("version", "list", expect=3, BROKER_ADMIN_KEY=str(tmp_path / "odd.pem"))
    assert "a private key in PEM form was expected" in said
    nobody = f"http://127.0.0.1:{free_port()}"
    said = operator.type("version", "list", expect=4, BROKER_URL=nobody)
    assert f"no broker answers at {nobody}" in said


def test_what_was_never_published_or_is_not_in_the_policy_is_said_so(operator: Operator) -> None:
    assert "version_not_published" in operator.type("version", "promote", "life.two@3", expect=1)
    assert "version_not_in_policy" in operator.type("version", "publish", "life.two@9", expect=1)
    assert "version_not_in_policy" in operator.type("version", "publish", "life.nine@1", expect=1)
    assert "version_not_published" in operator.type("version", "show", "life.two@3", expect=1)
    said = operator.type("version", "list", "--tool", "life.nine")
    assert said == "no version of life.nine was published yet; `broker version publish tool@version` does it\n"


def test_names_that_would_break_a_line_and_shares_that_would_be_rounded_are_refused(wire: Wire) -> None:
    for body in ({"principals": ["a\nb"]}, {"principals": ["\x1b[2J"]}, {"principals": ["a\u2028b"]}):
        answer = wire.admin("POST", "/versions/life.two/1/canary", body=body)
        assert (answer.status_code, answer.json()["reason"]) == (400, "command_malformed")
    answer = wire.admin("POST", "/versions/life.two/1/canary", body={"weight_percent": 0.001})
    assert (answer.status_code, answer.json()["where"]) == (400, "weight_percent")
    answer = wire.admin("POST", "/versions/life.two/1/retire", body={"emergency": "one\ntwo"})
    assert (answer.status_code, answer.json()["reason"]) == (400, "command_malformed")


def test_a_published_version_is_not_edited_by_a_reload(broker: BrokerProcess, operator: Operator) -> None:
    operator.type("version", "publish", "life.one@3")
    file = broker.policies.folder / "life.one.yaml"
    written = file.read_text()
    file.write_text(written.replace('"svc"', '"poster"'))
    try:
        said = operator.type("policy", "reload", expect=1)
        assert "life.one.yaml:" in said
        assert "version.edited: life.one@3 is published, and the task read has a wider allow" in said
        assert "mend: take the edit back" in said
        assert json.loads(operator.type("version", "show", "life.one@3", "--json"))["loaded"] is True
    finally:
        file.write_text(written)
        operator.type("policy", "reload")


def test_an_administrator_may_do_what_trust_says_and_no_more(broker: BrokerProcess, operator: Operator) -> None:
    bot = Operator(broker, "rollout-bot")
    for words in (["publish", "life.two@1"], ["retire", "life.two@1", "--emergency", "x"], ["list"]):
        assert "admin_not_permitted" in bot.type("version", *words, expect=1)
    operator.type("version", "publish", "life.two@1")
    assert bot.type("version", "canary", "life.two@1", "--principal", "bob") == "life.two@1  canary  for bob\n"
    assert "rolled_back" in bot.type("version", "rollback", "life.two@1")
    assert "admin_not_permitted" in bot.type("policy", "reload", expect=1)
    changes = [
        record
        for record in read_log(broker)
        if record.get("tool") == "life.two" and record["type"].startswith("version.")
    ]
    assert [(record["command"], record["by"]) for record in changes] == [
        ("publish", "operator"),
        ("canary", "rollout-bot"),
        ("rollback", "rollout-bot"),
    ]


def test_somebody_elses_key_or_name_gets_nobody_in(operator: Operator, broker: BrokerProcess) -> None:
    bots_key = str(broker.folder / "rollout-bot.pem")
    assert "admin_unauthenticated" in operator.type("version", "list", expect=1, BROKER_ADMIN_KEY=bots_key)
    assert "admin_unauthenticated" in operator.type("version", "list", expect=1, BROKER_ADMIN="nobody")
    said = operator.type("version", "list", expect=1, BROKER_URL=broker.url.replace("127.0.0.1", "localhost"))
    assert "the URL must be spelled like the broker's issuer" in said


def test_one_replica_is_reached_at_an_address_of_its_own_by_whoever_says_the_issuer(
    operator: Operator, broker: BrokerProcess
) -> None:
    own = broker.url.replace("127.0.0.1", "localhost")
    assert operator.type("version", "list", BROKER_URL=own, BROKER_ISSUER=broker.url) == operator.type(
        "version", "list"
    )
    assert "admin_unauthenticated" in operator.type("version", "list", "--issuer", own, expect=1)


ROUTES: list[tuple[str, str, Any]] = [
    ("GET", "/admin/versions", None),
    ("GET", "/admin/versions/life.one/1", None),
    *(
        ("POST", f"/admin/versions/life.one/1/{command}", {})
        for command in ("publish", "canary", "promote", "rollback", "deprecate", "retire")
    ),
    ("POST", "/admin/versions/life.one/1/rollback", {"force": "yes"}),
    ("POST", "/admin/versions/life.one/1/explode", {}),
    ("POST", "/admin/versions/{/1/rollback", {}),
    ("POST", "/admin/versions/life.one/1/rollback", "not json"),
    ("POST", "/admin/revocations", {"kind": "everything", "reason": "x"}),
    ("POST", "/admin/revocations", {}),
    ("POST", "/admin/revocations?wait=true", {"kind": "everything", "reason": "x"}),
    ("POST", "/admin/versions/life.one/1/rollback?wait=perhaps", {}),
    ("GET", "/admin/receipts/1/1", None),
    ("GET", "/admin/receipts/1/x", None),
    ("POST", "/admin/policy/reload", None),
    ("GET", "/admin/records", None),
    ("GET", "/admin/records?start=-1", None),
    ("GET", "/admin/records?log=-1", None),
    ("GET", "/admin/keys", None),
    ("POST", "/admin/keys/rotate", None),
]


def test_the_routes_are_all_there_are(wire: Wire) -> None:
    served = {path for path in wire.http.get("/openapi.json").json()["paths"] if path.startswith("/admin")}
    assert served == {
        "/admin/versions",
        "/admin/versions/{tool}/{version}",
        "/admin/versions/{tool}/{version}/{command}",
        "/admin/revocations",
        "/admin/receipts/{gen}/{seq}",
        "/admin/policy/reload",
        "/admin/records",
        "/admin/keys",
        "/admin/keys/rotate",
    }


@pytest.mark.parametrize(("method", "path", "body"), ROUTES)
def test_without_an_administrators_proof_there_is_a_401_its_record_and_nothing_else(
    broker: BrokerProcess, wire: Wire, method: str, path: str, body: Any
) -> None:
    length = len(read_log(broker))
    clients = assertion("key-mcp", broker.url)
    proofs: tuple[list[str], ...] = (
        [],
        [""],
        ["Bearer"],
        ["Bearer x.y.z"],
        [f"Bearer {clients}"],
        [basic("svc")],
        ["Basic b3BlcmF0b3I6"],
        [f"Bearer {assertion('operator', 'https://elsewhere.example')}"],
        [f"Bearer {assertion('operator', broker.url, key='rollout-bot')}"],
    )
    for given in proofs:
        headers = [("authorization", value) for value in given]
        more = {"content": body} if isinstance(body, str) else {"json": body}
        answer = wire.http.request(method, path, headers=headers, **more)
        assert refused(answer)[:3] == (401, "invalid_client", "admin_unauthenticated"), given
        assert answer.headers["www-authenticate"].startswith("Basic ")
    written = read_log(broker)[length:]
    assert [(record["type"], record["by"]) for record in written] == [("request.deny", None)] * len(proofs)


def test_two_proofs_at_once_are_refused(broker: BrokerProcess, wire: Wire) -> None:
    proofs = [("authorization", f"Bearer {assertion('operator', broker.url)}") for _ in range(2)]
    answer = wire.http.get("/admin/versions", headers=proofs)
    assert refused(answer) == (400, "invalid_request", "client_credentials_multiple", "Authorization")


def test_an_assertion_opens_one_request_only(broker: BrokerProcess, wire: Wire) -> None:
    headers = {"authorization": f"Bearer {assertion('operator', broker.url)}"}
    assert wire.http.get("/admin/versions", headers=headers).status_code == 200
    for method, path in (("GET", "/admin/versions"), ("POST", "/admin/policy/reload")):
        answer = wire.http.request(method, path, headers=headers)
        assert refused(answer)[:3] == (401, "invalid_client", "client_assertion_replayed")


@pytest.mark.parametrize(
    ("command", "body", "where"),
    [
        ("publish", {"contract": "sha256:" + "0" * 64}, "body/contract"),
        ("publish", {"members": {}}, "body/members"),
        ("publish", {"force": True}, "force"),
        ("publish", {"principals": ["bob"]}, "principals"),
        ("rollback", {"emergency": "x"}, "emergency"),
        ("rollback", {"force": "yes"}, "body/force"),
        ("canary", {"weight_percent": 101}, "body/weight_percent"),
        ("canary", {"weight_percent": "5"}, "body/weight_percent"),
        ("canary", {"principals": [""]}, "body/principals/0"),
        ("retire", {"emergency": ""}, "body/emergency"),
        ("deprecate", {"sunset": "tomorrow"}, "sunset"),
        ("explode", {}, "path/command"),
    ],
)
def test_a_command_takes_what_it_takes_and_a_contract_never(
    wire: Wire, command: str, body: dict[str, Any], where: str
) -> None:
    answer = wire.admin("POST", f"/versions/life.one/3/{command}", body=body)
    assert refused(answer) == (400, "invalid_request", "command_malformed", where)


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"kind": "version", "names": {"tool": "life.one"}, "reason": "x"}, "kind"),
        ({"kind": "account", "names": {"account": "alice"}, "reason": "x"}, "names"),
        ({"kind": "everything", "names": {"tool": "x"}, "reason": "x"}, "names"),
        ({"kind": "tool", "names": {"tool": "a}b"}, "reason": "x"}, "names/tool"),
        ({"kind": "everything"}, "body/reason"),
        ({"kind": "everything", "reason": ""}, "body/reason"),
    ],
)
def test_a_revocation_names_one_scope_exactly(wire: Wire, body: dict[str, Any], where: str) -> None:
    assert refused(wire.admin("POST", "/revocations", body=body)) == (
        400,
        "invalid_request",
        "command_malformed",
        where,
    )


def test_a_published_contract_is_the_policys_own(broker: BrokerProcess, wire: Wire) -> None:
    wire.command("life.two@2", "publish")
    held = json.loads((broker.policies.folder / "contracts" / "life.two" / "2.json").read_text())
    shown = wire.admin("GET", "/versions/life.two/2").json()
    assert shown["members"] == held
    published = [record for record in read_log(broker) if record["type"] == "version.publish"]
    record = next(record for record in published if (record["tool"], record["version"]) == ("life.two", "2"))
    assert record["contract_members"] == held


def test_a_bad_policy_is_told_at_its_place_and_the_last_good_one_stays(
    broker: BrokerProcess, operator: Operator, wire: Wire
) -> None:
    wire.serve("root.get@1")
    asked = detail("root.get", task="read")
    assert wire.exchange(authorization_details=asked).status_code == 200
    file = broker.policies.folder / "root.get.yaml"
    good = file.read_text()
    file.write_text(good.replace('"owners"', '"ownerz"'))
    said = operator.type("policy", "reload", expect=1)
    assert "policy_invalid" in said
    assert "root.get.yaml:4:" in said
    assert "ownerz" in said
    assert wire.exchange(authorization_details=asked).status_code == 200
    changes = [record for record in read_log(broker) if record["type"] == "policy.change"]
    file.write_text(good.replace('"owners"', '"owners" '))
    assert operator.type("policy", "reload").split()[1] == changes[-1]["policy"]
    assert wire.exchange(authorization_details=asked).status_code == 200
    file.write_text(good)


def test_sighup_loads_the_policy_again_or_says_why_not(broker: BrokerProcess, wire: Wire) -> None:
    file = broker.policies.folder / "life.bare.yaml"
    good = file.read_text()
    file.write_text("tool: [")
    os.kill(broker.pid, signal.SIGHUP)
    wait_until(lambda: "the last good one stays" in broker.said(), what="the bad policy is reported")
    assert "life.bare.yaml:" in broker.said()
    assert wire.http.get("/readyz").status_code == 200
    file.write_text(good)
    os.kill(broker.pid, signal.SIGHUP)
    wait_until(lambda: bool(re.search(r"policy sha256:[0-9a-f]+ loaded", broker.said())), what="the good one is loaded")


def test_a_broker_does_not_start_on_a_bad_policy(tmp_path: Path) -> None:
    made = BrokerProcess(tmp_path)
    file = made.policies.folder / "root.get.yaml"
    file.write_text(file.read_text().replace('"root.read"', '"root read"'))
    try:
        assert made.launch().wait(30) == 3
        assert "root.get.yaml:" in made.said()
        assert "Traceback" not in made.said()
    finally:
        made.remove()


def test_records_are_read_in_pages(wire: Wire, broker: BrokerProcess) -> None:
    held = read_log(broker)
    first = wire.admin("GET", "/records?start=0&limit=3").json()["records"]
    assert [record["index"] for record in first] == [0, 1, 2]
    assert [record["id"] for record in first] == [record["id"] for record in held[:3]]
    assert wire.admin("GET", "/records?start=1000000").json() == {"log": 0, "logs": [0], "records": []}
    assert refused(wire.admin("GET", "/records?limit=0"))[2:] == ("command_malformed", "query/limit")
