"""Receipts, as an operator gets them: `--wait`, what stands in one, and that it never comes before its time.

Verifiers are real processes with the real verifier, or driven by hand where they shall be slow, silent or behind.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import jwt
import pytest
from broker.cli.main import cli
from broker.domain.errors import ConfigurationError
from click.testing import CliRunner

from broker_parts import (
    SECRETS,
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

TOOLS = tuple(f"life.t{number}" for number in range(8))
LONGEST_SECONDS = 2.0 * 1.02
"""A lease, and twice a drift of one in a hundred."""
TYPE = "revocation-receipt+jwt"


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
        )
    trust = json.loads((tree.folder / "trust.yaml").read_text())
    for issuer in trust["issuers"].values():
        issuer["ceiling"]["tools"].append("life.*")
    for client in trust["clients"].values():
        client.get("tools", []).append("life.*")
    (tree.folder / "trust.yaml").write_text(json.dumps(trust))
    (folder / "operator.pem").write_bytes(pem_of("operator"))
    made = BrokerProcess(folder, policies=tree)
    try:
        made.start()
        made.wire.serve(*(f"{name}@1" for name in TOOLS))
        yield made
        assert made.stop() == 0
        assert "Traceback" not in made.said(), made.said()
    finally:
        made.remove()


@pytest.fixture
def wire(broker: BrokerProcess) -> Wire:
    return broker.wire


@pytest.fixture
def quiet(wire: Wire) -> None:
    """No verifier of an earlier test can hold a lease any more."""
    wait_until(lambda: waiting_now(wire) == 0, what="the leases of earlier tests run out")


class Operator:
    """Types `broker …`."""

    def __init__(self, broker: BrokerProcess) -> None:
        plain = {name: value for name, value in os.environ.items() if not name.startswith("BROKER_")}
        self.environment = {
            **plain,
            "BROKER_URL": broker.url,
            "BROKER_ADMIN": "operator",
            "BROKER_ADMIN_KEY": str(broker.folder / "operator.pem"),
        }

    def start(self, *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "broker.cli.main", *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=self.environment, stdout=pipe, stderr=pipe, stdin=pipe, text=True)

    def type(self, *words: str, expect: int = 0, given: str = "") -> tuple[str, str]:
        process = self.start(*words)
        said, beside = process.communicate(given, timeout=60)
        assert process.returncode == expect, (said, beside)
        assert "Traceback" not in beside
        return said, beside


@pytest.fixture
def operator(broker: BrokerProcess) -> Operator:
    return Operator(broker)


class Hand:
    """A verifier that is driven by hand: it renews when it is told to, and says what it is told to."""

    def __init__(self, wire: Wire, name: str, client: str = "tools-api") -> None:
        self.wire, self.name, self.client = wire, name.ljust(16, "-"), client
        self.gen, self.seq = 0, 0

    def renew(self, *, applied: bool = True) -> Hand:
        """Ask for a lease. applied: whether it has applied all that its last lease was bound to."""
        told = {"v": 1, "verifier": self.name, "gen": self.gen, "applied": self.seq}
        headers = {"authorization": basic(self.client)}
        answer = self.wire.http.post("/revocations/lease", json=told, headers=headers)
        assert answer.status_code == 200, answer.text
        if applied:
            self.gen, self.seq = answer.json()["gen"], answer.json()["seq"]
        return self

    def renew_until_said(self, process: subprocess.Popen[str]) -> str:
        """A command's first line beside its answer; no lease has run out by then, however slowly the command starts."""
        assert process.stderr is not None
        while not select.select([process.stderr], [], [], 0.1)[0]:
            self.renew(applied=False)
        return process.stderr.readline()


class AcceptingApi:
    """An API behind the real verifier, in a process of its own."""

    def __init__(self, broker: BrokerProcess, folder: Path, client: str = "tools-api") -> None:
        self.port = free_port()
        script = Path(__file__).with_name("accepting_api.py")
        state = str(folder / f"{client}.json")
        words = [str(self.port), broker.url, client, SECRETS[client][1], TOOLS_API, state]
        self.process = subprocess.Popen([sys.executable, str(script), *words])
        self.http = httpx2.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=10.0)

    def status(self, token: str) -> int:
        try:
            return self.http.get("/", headers={"authorization": f"Bearer {token}"}).status_code
        except httpx2.TransportError:
            return 0

    def end(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        self.process.wait(20)
        self.http.close()


@pytest.fixture
def accepting(broker: BrokerProcess, tmp_path: Path) -> Iterator[AcceptingApi]:
    made = AcceptingApi(broker, tmp_path)
    yield made
    made.end()


def mine(holders: list[dict[str, Any]], *names: str) -> list[tuple[str, str]]:
    """Verifier and client of those that are called so; the broker still knows those of earlier tests by name."""
    padded = [name.ljust(16, "-") for name in names]
    return [(each["verifier"].rstrip("-"), each["client"]) for each in holders if each["verifier"] in padded]


def how(said: str) -> dict[str, str]:
    """Verifier → how, as a table on the terminal has it."""
    rows = [
        line.split(maxsplit=2) for line in said.splitlines() if line.endswith("lease ran out") or "  applied " in line
    ]
    return {verifier.rstrip("-"): told for verifier, _, told in rows}


def verify(*words: str, given: str = "") -> tuple[int, str]:
    """`broker receipt verify …` in this process: its exit code and what it says."""
    done = CliRunner().invoke(cli, ["receipt", "verify", *words], input=given)
    if isinstance(done.exception, ConfigurationError):
        raise done.exception
    return done.exit_code, done.output


def a_token(wire: Wire, tool: str) -> str:
    asked = detail(tool, task="read")
    return str(wire.mint(authorization_details=asked)["access_token"])


def waiting_now(wire: Wire) -> int:
    """How many verifiers may hold a lease: those that a revocation waits for."""
    answer = revoke(wire)
    found = wire.admin("GET", answer["receipt_at"].removeprefix("/admin"))
    return len(found.json()["waiting"]) if found.status_code == 202 else 0


def revoke(wire: Wire, *, wait: bool = False, jti: str = "nobody") -> dict[str, Any]:
    """Revoke one credential that there is not."""
    body = {"kind": "credential", "names": {"jti": jti}, "reason": "a test"}
    answer = wire.admin("POST", f"/revocations{'?wait=true' if wait else ''}", body=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def later(act: Callable[[], object], *, seconds: float) -> threading.Timer:
    timer = threading.Timer(seconds, act)
    timer.start()
    return timer


def receipts_of(broker: BrokerProcess, answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The records of receipts for what this answer revoked."""
    point = (answer["gen"], answer["seq"])
    return [
        record
        for record in read_log(broker)
        if record["type"] == "revocation.receipt" and (record["gen"], record["seq"]) == point
    ]


@pytest.mark.usefixtures("quiet")
def test_a_rollback_that_waits_comes_back_when_no_verifier_accepts_any_more(
    broker: BrokerProcess, wire: Wire, operator: Operator, accepting: AcceptingApi
) -> None:
    token = a_token(wire, "life.t0")
    wait_until(lambda: accepting.status(token) == 200, what="the verifier accepts the credential")
    said, beside = operator.type("version", "rollback", "life.t0@1", "--force", "--wait")
    assert accepting.status(token) == 401
    lines = said.splitlines()
    assert lines[0] == "life.t0@1  rolled_back"
    assert lines[1].startswith("revoked version:life.t0@1: every credential with rseq below ")
    assert lines[2].split() == ["verifier", "client", "how"]
    (record,) = [record for record in read_log(broker) if record["type"] == "version.rollback"]
    verifier, client, *how = lines[3].split()
    assert (len(verifier), client, how) == (32, "tools-api", ["applied", f"{record['gen']}:{record['seq']}"])
    assert lines[4:] == ["No verifier can accept a credential of life.t0@1 any more."]
    assert all("of 1 verifiers have applied it" in line for line in beside.splitlines())
    (given,) = receipts_of(broker, record)
    assert (given["acknowledged"], given["expired"], given["change"]) == (1, 0, record["id"])


def test_a_frozen_verifier_is_waited_for_until_its_lease_has_run_out_and_refuses_when_it_wakes(
    broker: BrokerProcess, wire: Wire, accepting: AcceptingApi
) -> None:
    token = a_token(wire, "life.t1")
    wait_until(lambda: accepting.status(token) == 200, what="the verifier accepts the credential")
    accepting.process.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    answer = wire.admin("POST", "/versions/life.t1/1/rollback?wait=true", body={"force": True}).json()
    assert time.monotonic() - began >= LONGEST_SECONDS
    assert answer["receipt"]["acknowledged"] == []
    assert "tools-api" in [each["client"] for each in answer["receipt"]["expired"]]
    assert answer["receipt"]["elapsed_ms"] == 2_040
    accepting.process.send_signal(signal.SIGCONT)
    assert accepting.status(token) in (401, 503)
    wait_until(lambda: accepting.status(token) != 503, what="the verifier holds a lease again")
    assert accepting.status(token) == 401


def test_the_receipt_is_signed_and_its_key_is_in_the_jwks(broker: BrokerProcess, wire: Wire) -> None:
    verifier = Hand(wire, "here").renew().renew()
    later(lambda: verifier.renew().renew(), seconds=0.3)
    answer = revoke(wire, wait=True, jti="j-1")
    receipt = answer["receipt"]
    text = receipt.pop("statement")
    header = jwt.get_unverified_header(text)
    keys = {key.key_id: key for key in jwt.PyJWKSet.from_dict(wire.http.get("/jwks.json").json()).keys}
    assert (header["typ"], header["alg"], header["kid"] in keys) == (TYPE, "ES256", True)
    claims = jwt.decode(text, keys[header["kid"]].key, algorithms=["ES256"])
    assert claims == receipt
    assert (claims["iss"], claims["by"], claims["recorded"]) == (broker.url, "operator", True)
    assert (claims["gen"], claims["seq"], claims["revoked"]) == (answer["gen"], answer["seq"], ["jti:j-1"])
    applied = f"{answer['gen']}:{answer['seq']}"
    assert claims["acknowledged"] == [{"verifier": verifier.name, "client": "tools-api", "applied": applied}]
    (given,) = receipts_of(broker, answer)
    assert (given["id"], given["statement"], given["by"]) == (claims["jti"], text, "operator")
    (revoked,) = [record for record in read_log(broker) if record["id"] == claims["change"]]
    assert (revoked["type"], revoked["seq"]) == ("revoke", answer["seq"])
    assert wire.is_active(text) is False, "a receipt is no credential"


def test_a_verifier_that_renews_and_stays_behind_and_one_that_is_gone_are_both_waited_for(wire: Wire) -> None:
    gone = Hand(wire, "gone").renew().renew()
    behind = Hand(wire, "behind", "db-api").renew().renew()
    renewing = [later(lambda: behind.renew(applied=False), seconds=seconds) for seconds in (0.5, 1.0, 1.5)]
    began = time.monotonic()
    answer = revoke(wire, wait=True)
    assert time.monotonic() - began >= LONGEST_SECONDS
    expired = mine(answer["receipt"]["expired"], "behind", "gone")
    assert expired == [("behind", "db-api"), ("gone", "tools-api")]
    assert (gone.seq, behind.seq) < (answer["seq"], answer["seq"])
    for timer in renewing:
        timer.join()


@pytest.mark.usefixtures("quiet")
def test_progress_comes_line_by_line_and_the_receipt_as_soon_as_the_last_has_applied_it(
    broker: BrokerProcess, wire: Wire
) -> None:
    one, two = (Hand(wire, name).renew().renew() for name in ("one", "two"))
    later(lambda: one.renew().renew(), seconds=0.2)
    later(lambda: two.renew().renew(), seconds=0.6)
    headers = {"authorization": f"Bearer {assertion('operator', broker.url)}", "accept": "application/x-ndjson"}
    body = {"kind": "credential", "names": {"jti": "j"}, "reason": "a test"}
    heard: list[tuple[float, dict[str, Any]]] = []
    began = time.monotonic()
    with wire.http.stream("POST", "/admin/revocations?wait=true", headers=headers, json=body) as response:
        assert response.headers["content-type"] == "application/x-ndjson"
        heard.extend((time.monotonic() - began, json.loads(line)) for line in response.iter_lines())
    events = [told["event"] for _, told in heard]
    assert (events[0], events[-1]) == ("acted", "answer")
    assert set(events[1:-1]) == {"progress"}
    assert heard[0][0] < heard[-1][0] - 0.3, "what has acted is said at once"
    assert heard[0][1]["receipt_at"] == f"/admin/receipts/{heard[0][1]['gen']}/{heard[0][1]['seq']}"
    steps = [told for _, told in heard if told["event"] == "progress"]
    assert (steps[0]["acknowledged"], steps[-1]["acknowledged"]) == (0, 1)
    assert mine(steps[0]["waiting"], "one", "two") == [("one", "tools-api"), ("two", "tools-api")]
    assert [each["verifier"] for each in steps[-1]["waiting"]] == [two.name]
    left = [told["seconds_left"] for told in steps]
    assert left == sorted(left, reverse=True)
    assert 0.6 <= heard[-1][0] < LONGEST_SECONDS
    acknowledged = heard[-1][1]["receipt"]["acknowledged"]
    assert mine(acknowledged, "one", "two") == [("one", "tools-api"), ("two", "tools-api")]


def test_without_waiting_the_answer_says_where_the_receipt_can_be_asked_for(broker: BrokerProcess, wire: Wire) -> None:
    Hand(wire, "silent").renew().renew()
    answer = revoke(wire, jti="j-2")
    assert "receipt" not in answer
    path = answer["receipt_at"].removeprefix("/admin")
    first = wire.admin("GET", path)
    assert (first.status_code, first.json()["verifiers"] >= 1) == (202, True)
    assert mine(first.json()["waiting"], "silent") == [("silent", "tools-api")]
    assert 0 < first.json()["seconds_left"] <= LONGEST_SECONDS
    assert receipts_of(broker, answer) == []
    whole = wire.admin("GET", f"{path}?wait=true")
    assert (whole.status_code, whole.json()["revoked"]) == (200, ["jti:j-2"])
    again = wire.admin("GET", path)
    assert again.json()["receipt"]["statement"] == whole.json()["receipt"]["statement"]
    assert len(receipts_of(broker, answer)) == 1
    assert refused(wire.admin("GET", "/receipts/1/1")) == (404, "not_found", "receipt_unknown", "seq")
    assert refused(wire.admin("GET", path, admin="rollout-bot"))[2] == "admin_not_permitted"


@pytest.mark.parametrize("command", ["publish", "canary", "promote", "deprecate"])
def test_a_command_that_revokes_nothing_has_no_receipt_to_wait_for(wire: Wire, command: str) -> None:
    answer = wire.admin("POST", f"/versions/life.t2/1/{command}?wait=true", body={})
    assert refused(answer) == (400, "invalid_request", "command_malformed", "wait")


def test_an_interrupted_wait_says_that_the_command_has_acted_and_how_to_get_the_receipt(
    wire: Wire, operator: Operator, tmp_path: Path
) -> None:
    hand = Hand(wire, "interrupted").renew().renew()
    process = operator.start("version", "rollback", "life.t3@1", "--force", "--wait")
    assert "interrupted----- (tools-api)" in hand.renew_until_said(process)
    process.send_signal(signal.SIGINT)
    said, beside = process.communicate(timeout=20)
    assert (process.returncode, said) == (130, "")
    *_, last = beside.splitlines()
    assert last.startswith("rollback of life.t3@1 has acted, at ")
    command = last.partition("broker ")[2].split()
    said, _ = operator.type(*command)
    assert how(said)["interrupted"] == "lease ran out"
    assert "UTC no verifier accepts a credential of life.t3@1 that was minted before " in said


def test_a_receipt_is_checked_offline_and_an_edited_or_foreign_one_is_refused(
    broker: BrokerProcess, wire: Wire, operator: Operator, tmp_path: Path
) -> None:
    Hand(wire, "offline").renew().renew()
    whole, _ = operator.type("version", "retire", "life.t4@1", "--emergency", "leaks", "--wait", "--json")
    answer = json.loads(whole)
    keys, file = tmp_path / "jwks.json", tmp_path / "receipt.jws"
    keys.write_text(wire.http.get("/jwks.json").text)
    file.write_text(answer["receipt"]["statement"] + "\n")
    check = (str(file), "--jwks")
    said, _ = operator.type("receipt", "verify", *check, str(keys))
    assert said.startswith(f"signed by {broker.url} with the key ")
    assert f"revoked version:life.t4@1 at {answer['receipt']['at']} by operator, at {answer['gen']}:" in said
    assert how(said)["offline"] == "lease ran out"
    assert "UTC no verifier accepts a credential of life.t4@1 that was minted before " in said
    assert verify(*check, f"{broker.url}/jwks.json", "--issuer", broker.url) == (0, said)
    assert verify("-", "--jwks", str(keys), given=whole) == (0, said)
    assert json.loads(verify(*check, str(keys), "--json")[1]) == answer["receipt"]
    foreign = verify(*check, str(keys), "--issuer", "https://other.example")
    assert foreign == (1, f"broker: a receipt of another broker, {broker.url}\n")
    head, body, tail = answer["receipt"]["statement"].split(".")
    file.write_text(f"{head}.{body[:-8]}{'A' * 8}.{tail}")
    edited = verify(*check, str(keys))
    assert (edited[0], "signature is wrong" in edited[1]) == (1, True)
    file.write_text(a_token(wire, "life.t5"))
    credential = verify(*check, str(keys))
    assert (credential[0], f"expected typ {TYPE}" in credential[1]) == (1, True)
    file.write_text(answer["receipt"]["statement"])
    other = tmp_path / "other.json"
    other.write_text((broker.policies.folder / "keys" / "operator.json").read_text())
    unknown = verify(*check, str(other))
    assert (unknown[0], "no key of the issuer fits" in unknown[1]) == (1, True)
    for text in ('{"changed":true}', '{"receipt":{"statement":7}}', "{", '{"a":1}' * 200_000):
        file.write_text(text)
        with pytest.raises(ConfigurationError):
            verify(*check, str(keys))
    with pytest.raises(ConfigurationError):
        verify(*check, str(tmp_path / "missing.json"))


def test_everything_of_an_account_is_revoked_by_name_and_the_receipt_names_it(wire: Wire, operator: Operator) -> None:
    names = ("issuer=https://idp.example", "account=al|ice")
    said, _ = operator.type("revoke", "account", *names, "--reason", "stolen laptop", "--wait")
    assert "revoked account:https%3A%2F%2Fidp.example|al%7Cice: every credential " in said
    last = said.splitlines()[-1]
    assert last == "No verifier can accept an earlier credential of the account al|ice of https://idp.example any more."
    operator.type("revoke", "account", "account=alice", "--reason", "x", expect=2)
    operator.type("revoke", "nobody", "--reason", "x", expect=2)
    operator.type("revoke", "everything", expect=2)


def test_the_signing_key_is_revoked_and_the_receipt_is_signed_with_its_successor(
    wire: Wire, operator: Operator
) -> None:
    token = a_token(wire, "life.t5")
    old = jwt.get_unverified_header(token)["kid"]
    said, _ = operator.type("key", "revoke", old, "--reason", "leaked", "--wait")
    assert said.startswith(f"{old} is revoked, at gen ")
    assert said.splitlines()[-1] == f"No verifier can accept a credential signed with the key {old} any more."
    answer = revoke(wire, wait=True)
    new = jwt.get_unverified_header(answer["receipt"]["statement"])["kid"]
    assert new != old
    assert [key["kid"] for key in wire.http.get("/jwks.json").json()["keys"] if key["kid"] in (old, new)] == [new]


def test_a_receipt_that_cannot_be_recorded_is_not_handed_out_and_the_rollback_has_acted(
    broker: BrokerProcess, wire: Wire, operator: Operator
) -> None:
    token = a_token(wire, "life.t6")
    away = broker.audit_path.with_name("elsewhere")
    broker.audit_path.rename(away)
    try:
        answer = wire.admin("POST", "/versions/life.t6/1/rollback?wait=true", body={"force": True})
    finally:
        away.rename(broker.audit_path)
    assert (answer.status_code, answer.json()["error"]) == (503, "effective_not_recorded")
    assert not wire.is_active(token)
    where = answer.json()["data"]
    wait_until(broker.is_ready, what="the rollback is recorded")
    said, _ = operator.type("receipt", "show", f"{where['gen']}:{where['seq']}", "--wait", "--json")
    receipt = json.loads(said)["receipt"]
    assert (receipt["revoked"], receipt["recorded"]) == (["version:life.t6@1"], True)
    assert len(receipts_of(broker, where)) == 1


def test_where_only_the_receipt_cannot_be_recorded_the_answer_says_so_and_the_command_is_not_repeated(
    broker: BrokerProcess, wire: Wire, operator: Operator
) -> None:
    hand = Hand(wire, "unrecorded").renew().renew()
    process = operator.start("version", "rollback", "life.t7@1", "--force", "--wait")
    assert "unrecorded------ (tools-api)" in hand.renew_until_said(process)
    away = broker.audit_path.with_name("elsewhere")
    broker.audit_path.rename(away)
    try:
        said, beside = process.communicate(timeout=20)
    finally:
        away.rename(broker.audit_path)
    assert (process.returncode, said) == (5, "")
    assert "the command took effect; its receipt cannot be given now, ask for it later" in beside
    assert "rollback of life.t7@1 has acted, at " in beside
    wait_until(broker.is_ready, what="the log can be written again")
    said, _ = operator.type(*beside.splitlines()[-1].partition("broker ")[2].split())
    assert how(said)["unrecorded"] == "lease ran out"
