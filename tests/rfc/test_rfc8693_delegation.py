"""Delegation (RFC 8693 §1.1, §4.1, §4.4): a credential of this broker as subject token, over the real token endpoint.

`tests/vectors/delegation.json` holds chains as steps; what a chain says of itself, and how its refusals are written down, is below.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from broker.domain.tokens.ancestors import MAX_ACTORS
from broker.domain.tokens.claims import read_credential

from broker_parts import (
    ACCESS_TOKEN,
    EXCHANGERS,
    ISSUER,
    TOOLS_API,
    BrokerProcess,
    PolicyTree,
    Wire,
    contract,
    detail,
    read_log,
    refused,
    sign,
    subject_token,
    unverified_claims,
    wait_until,
)

VECTORS: dict[str, Any] = json.loads((Path(__file__).parent.parent / "vectors" / "delegation.json").read_text())
NOTE = contract("ticket.note", {"id": {"type": "string", "maxLength": 64}, "create": {"type": "boolean"}})
DEAD = (400, "invalid_request", "subject_credential_dead", "subject_token")


@pytest.fixture(scope="module")
def chains(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker whose tools lead to one another: `ticket.edit` and two versions of `ticket.note`, all at the same API."""
    folder = tmp_path_factory.mktemp("chains")
    tree = PolicyTree(folder / "policies")
    both = ["ticket.read", "ticket.create"]
    everybody = {"clients": list(EXCHANGERS)}
    tree.add_tool(
        NOTE,
        audience=TOOLS_API,
        scopes={
            "ticket.read": {"needed_when": True},
            "ticket.create": {"needed_when": {"properties": {"create": {"const": True}}, "required": ["create"]}},
        },
        tasks={
            "note": {"allow": everybody, "scopes": both},
            "twice": {"allow": everybody, "scopes": both, "uses": 2},
            "asked": {"allow": everybody, "scopes": both, "online": True},
        },
        versions=2,
    )
    trust = json.loads((tree.folder / "trust.yaml").read_text())
    trust["clients"]["key-mcp"]["resource"] = TOOLS_API
    (tree.folder / "trust.yaml").write_text(json.dumps(trust))
    process = BrokerProcess(folder, policies=tree)
    try:
        process.start()
        process.wire.serve("ticket.edit@1", "ticket.note@1")
        for command in ("publish", "canary", "promote"):
            process.wire.command("ticket.note@2", command)
        yield process
        assert process.stop() == 0
        assert "Traceback" not in process.said(), process.said()
    finally:
        process.remove()


@pytest.fixture
def wire(chains: BrokerProcess) -> Wire:
    return chains.wire


def asked(**members: Any) -> dict[str, Any]:
    """The detail of a step: `ticket.edit` unless it says otherwise."""
    return detail(**{name: value for name, value in members.items() if name in _DETAIL})


_DETAIL = ("tool", "version", "task", "arguments", "txn")


def delegate(wire: Wire, token: str, *, client: str = "vector-mcp", **changes: Any) -> Any:
    return wire.exchange(client=client, subject_token=token, **changes)


class Story:
    """One case: its steps in order, and the credentials that they gave a name."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.held: dict[str, str] = {}

    def play(self, step: dict[str, Any]) -> None:
        getattr(self, step["do"])(step)

    def claims(self, name: str) -> dict[str, Any]:
        return unverified_claims(self.held[name])

    def _keep(self, step: dict[str, Any], answer: Any) -> None:
        if "refused" in step:
            assert list(refused(answer)) == step["refused"], answer.text
            return
        assert answer.status_code == 200, answer.text
        if "as" in step:
            self.held[step["as"]] = answer.json()["access_token"]

    def mint(self, step: dict[str, Any]) -> None:
        claims: dict[str, Any] = {name: step[name] for name in ("groups", "may_act") if name in step}
        if "exp" in step:
            claims["exp"] = int(time.time()) + step["exp"]
        token = subject_token(**claims)
        self._keep(step, self.wire.exchange(client="svc", subject_token=token, authorization_details=asked(**step)))

    def exchange(self, step: dict[str, Any]) -> None:
        client, scope = step.get("client", "vector-mcp"), step.get("scope")
        token = self.held[step["of"]]
        self._keep(step, delegate(self.wire, token, client=client, authorization_details=asked(**step), scope=scope))

    def revoke(self, step: dict[str, Any]) -> None:
        names = dict(step["names"])
        for name, value in names.items():
            if value.startswith("$"):
                of, _, claim = value[1:].partition(".")
                names[name] = self.claims(of)[claim]
        body = {"kind": step["kind"], "names": names, "reason": "a test"}
        assert self.wire.admin("POST", "/revocations", body=body).status_code == 200

    def release(self, step: dict[str, Any]) -> None:
        assert self.wire.revoke(self.held[step["of"]], client=step["client"]).status_code == 200

    def command(self, step: dict[str, Any]) -> None:
        self.wire.command(step["version"], step["command"], **step["body"])

    def introspect(self, step: dict[str, Any]) -> None:
        assert self.wire.is_active(self.held[step["of"]], client="tools-api") is step["active"], step["of"]

    def ends(self, step: dict[str, Any]) -> None:
        assert self.claims(step["of"])["exp"] <= self.claims(step["no_later_than"])["exp"]

    def holds(self, step: dict[str, Any]) -> None:
        assert self.claims(step["of"])["scope"] == step["scope"]

    def actors(self, step: dict[str, Any]) -> None:
        node, count = self.claims(step["of"]).get("act"), 0
        while node is not None:
            node, count = node.get("act"), count + 1
        assert count == step["count"] == MAX_ACTORS


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["name"])
def test_a_chain_goes_as_the_vector_says(wire: Wire, case: dict[str, Any]) -> None:
    story = Story(wire)
    for step in case["steps"]:
        story.play(step)


def test_a_child_says_who_acts_for_whom_and_what_it_came_from(wire: Wire) -> None:
    first = wire.mint(authorization_details=asked(tool="ticket.note", task="note"))["access_token"]
    second = delegate(wire, first).json()["access_token"]
    third = delegate(wire, second, client="key-mcp").json()["access_token"]
    one, two, three = (unverified_claims(token) for token in (first, second, third))
    assert "ancestors" not in one
    assert one["chain"] == two["chain"] == three["chain"] == one["jti"]
    assert (two["sub"], two["sub_id"], two["txn"]) == (one["sub"], one["sub_id"], one["txn"])
    assert (two["client_id"], three["client_id"]) == ("vector-mcp", "key-mcp")
    agent = {"iss": ISSUER, "sub": "agent-7"}
    assert one["act"] == agent
    assert two["act"] == {"iss": wire.url, "sub": "svc", "act": agent}
    assert three["act"] == {"iss": wire.url, "sub": "vector-mcp", "act": two["act"]}
    kid = jwt.get_unverified_header(first)["kid"]
    parent = {
        "jti": one["jti"],
        "kid": kid,
        "client_id": "svc",
        "tool": "ticket.note",
        "version": "1",
        "policy": one["policy"],
        "rseq": one["rseq"],
    }
    assert two["ancestors"] == [parent]
    assert [member["jti"] for member in three["ancestors"]] == [one["jti"], two["jti"]]
    assert three["exp"] <= two["exp"] <= one["exp"]
    read = read_credential(three)
    assert getattr(read, "version_ids", None) == ("ticket.edit@1", "ticket.note@1", "ticket.edit@1")


def test_what_comes_of_a_credential_that_is_asked_about_is_asked_about_too(wire: Wire) -> None:
    """Else a child would be accepted where its parent is not any more: a verifier that does not ask cannot see it given back."""
    first = wire.mint(authorization_details=asked(tool="ticket.note", task="asked"))["access_token"]
    second = delegate(wire, first).json()["access_token"]
    third = delegate(wire, second, client="key-mcp").json()["access_token"]
    for token in (first, second, third):
        assert unverified_claims(token)["authorization_details"][0]["online"] is True


def test_an_actor_token_names_who_acts_instead_of_the_parents_client(wire: Wire) -> None:
    first = wire.mint()["access_token"]
    actor = subject_token(sub="agent-9", aud=TOOLS_API)
    given = delegate(wire, first, actor_token=actor, actor_token_type=ACCESS_TOKEN)
    assert given.status_code == 200, given.text
    claims = unverified_claims(given.json()["access_token"])
    assert claims["act"] == {"iss": ISSUER, "sub": "agent-9", "act": {"iss": ISSUER, "sub": "agent-7"}}
    assert claims["ancestors"][0]["client_id"] == "svc"


def test_a_credential_of_ours_is_no_actor_token(wire: Wire) -> None:
    first = wire.mint()["access_token"]
    answer = delegate(wire, first, actor_token=first, actor_token_type=ACCESS_TOKEN)
    assert refused(answer) == (400, "invalid_request", "token_issuer_unknown", "actor_token/iss")


def test_a_token_in_our_name_that_we_did_not_sign_is_refused(wire: Wire) -> None:
    claims = {**unverified_claims(wire.mint()["access_token"]), "scope": "ticket.read ticket.create"}
    forged = sign(claims, "idp", typ="at+jwt")
    assert refused(delegate(wire, forged)) == (400, "invalid_request", "token_key_unknown", "subject_token/kid")


def test_what_is_left_of_the_parent_is_all_there_is(wire: Wire) -> None:
    end = int(time.time()) + 2
    first = wire.mint(subject_token=subject_token(exp=end))["access_token"]
    assert unverified_claims(first)["exp"] == end
    wait_until(lambda: time.time() >= end, what="the parent has ended")
    assert refused(delegate(wire, first)) == (400, "invalid_request", "lifetime_exhausted", "subject_token")


def test_actors_and_ancestors_have_eight_kibibytes_together(wire: Wire) -> None:
    earlier = {"iss": "https://elsewhere.example/" + "x" * 7_900, "sub": "older"}
    first = wire.mint(subject_token=subject_token(act={"sub": "agent-7", "act": earlier}))["access_token"]
    assert refused(delegate(wire, first)) == (400, "invalid_request", "token_claim_invalid", "subject_token/act")


def test_a_chain_that_is_kept_alive_ends_with_its_first(wire: Wire) -> None:
    end = int(time.time()) + 30
    token = wire.mint(subject_token=subject_token(exp=end))["access_token"]
    for _ in range(5):
        token = delegate(wire, token).json()["access_token"]
        assert unverified_claims(token)["exp"] == end


def test_a_dead_chain_is_refused_as_such_to_a_client_that_signs_its_requests(wire: Wire) -> None:
    first = wire.mint()["access_token"]
    wire.revoke(first)
    headers, members = wire.proof("key-mcp")
    form = {"subject_token": first, "authorization_details": detail()}
    answer = wire.exchange(client=None, **form, **members)
    assert refused(answer) == DEAD
    assert not headers
    again = wire.exchange(client=None, **form, **members)
    assert refused(again)[2] == "client_assertion_replayed"


def test_nothing_is_remembered_of_a_refused_child(wire: Wire, chains: BrokerProcess) -> None:
    first = wire.mint()["access_token"]
    wire.revoke(first)
    answer = delegate(wire, first)
    assert refused(answer) == DEAD
    records = [record for record in read_log(chains) if record["id"] == answer.json()["request_id"]]
    assert [(record["type"], record["reason"]) for record in records] == [("mint.deny", "subject_credential_dead")]
    assert (records[0]["account"], records[0]["agent"], records[0]["agent_issuer"]) == ("alice", "svc", wire.url)
    assert records[0]["parent"] == records[0]["chain"] == unverified_claims(first)["jti"]


def test_the_record_of_a_child_names_its_parent_its_chain_and_who_acted(wire: Wire, chains: BrokerProcess) -> None:
    first = wire.mint()["access_token"]
    second = delegate(wire, first).json()["access_token"]
    third = delegate(wire, second, client="key-mcp").json()["access_token"]
    one, two, three = (unverified_claims(token) for token in (first, second, third))
    records = {record["jti"]: record for record in read_log(chains) if record["type"] == "mint"}
    assert {"parent", "chain", "act"}.isdisjoint(records[one["jti"]])
    named = [(records[made["jti"]]["parent"], records[made["jti"]]["chain"]) for made in (two, three)]
    assert named == [(one["jti"], one["jti"]), (two["jti"], one["jti"])]
    assert records[three["jti"]]["act"] == three["act"]
    assert {records[made["jti"]]["txn"] for made in (one, two, three)} == {one["txn"]}


def test_a_revoked_key_ends_every_chain_that_hangs_on_it_whatever_key_signed_the_child(wire: Wire) -> None:
    first = wire.mint()["access_token"]
    kid = jwt.get_unverified_header(first)["kid"]
    assert wire.admin("POST", "/keys/rotate", body={}).status_code == 200
    second = delegate(wire, first).json()["access_token"]
    assert jwt.get_unverified_header(second)["kid"] != kid
    assert wire.is_active(second, client="vector-mcp")
    body = {"kind": "key", "names": {"kid": kid}, "reason": "a test"}
    assert wire.admin("POST", "/revocations", body=body).status_code == 200
    assert not wire.is_active(second, client="vector-mcp")
    assert refused(delegate(wire, second)) == DEAD
    assert refused(delegate(wire, first))[1] == "invalid_request"
