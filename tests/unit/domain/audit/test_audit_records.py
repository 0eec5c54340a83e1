"""Audit records are a wire format: pinned byte for byte, and never holding what they must not."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, get_args

import pytest
from broker.domain.audit import records
from broker.domain.audit.arguments import MAX_LEAVES, MAX_POINTER_CHARACTERS, DigestKey, digest_arguments
from broker.domain.audit.records import CONTROL, Call, Record, record_json

CALL = Call(
    tool="db.query",
    version="3",
    contract="sha256:c",
    protocol_version="2026-07-28",
    agent="agent-7",
    agent_issuer="https://idp.example",
    account="alice",
    account_issuer="https://idp.example",
    client="svc",
    task="report",
    txn="t-1",
    jti="j-1",
    application="build-9",
    arguments={"/query": "hk1:00"},
    absent={},
)
SPELLED_CALL = (
    '"tool":"db.query","version":"3","contract":"sha256:c","protocol_version":"2026-07-28","agent":"agent-7",'
    '"agent_issuer":"https://idp.example","account":"alice","account_issuer":"https://idp.example","client":"svc",'
    '"task":"report","txn":"t-1","jti":"j-1","application":"build-9","arguments":{"/query":"hk1:00"},"absent":{}'
)
ACT = {"iss": "https://broker.example", "sub": "svc", "act": {"iss": "https://idp.example", "sub": "agent-7"}}
SPELLED_ACT = '"act":{"iss":"https://broker.example","sub":"svc","act":{"iss":"https://idp.example","sub":"agent-7"}}'
PINNED: list[tuple[Record, str]] = [
    (
        records.Minted(
            id="r",
            ts="t",
            call=replace(CALL, act=ACT),
            gen=1,
            gseq=2,
            rseq=3,
            scopes=("db:read",),
            audience="https://db.internal",
            expires_at=9,
            kid="k",
            policy="sha256:p",
            rule="db.query@3/tasks/report",
            parent="j-0",
            chain="j-00",
        ),
        '{"v":1,"type":"mint",CALL,ACT,"id":"r","ts":"t","gen":1,"gseq":2,"rseq":3,"scopes":["db:read"],'
        '"audience":"https://db.internal","expires_at":9,"kid":"k","policy":"sha256:p","rule":"db.query@3/tasks/report",'
        '"decision":"permit","parent":"j-0","chain":"j-00"}',
    ),
    (
        records.MintDenied(
            id="r", ts="t", call=CALL, reason="task_unknown", where="w", why="because", parent="j-0", chain="j-00"
        ),
        '{"v":1,"type":"mint.deny",CALL,"id":"r","ts":"t","reason":"task_unknown","where":"w","why":"because",'
        '"decision":"refuse","parent":"j-0","chain":"j-00"}',
    ),
    (
        records.Minted(
            id="r",
            ts="t",
            call=CALL,
            gen=1,
            gseq=2,
            rseq=3,
            scopes=("db:read",),
            audience="https://db.internal",
            expires_at=9,
            kid="k",
            policy="sha256:p",
            rule="db.query@3/tasks/report",
        ),
        '{"v":1,"type":"mint",CALL,"id":"r","ts":"t","gen":1,"gseq":2,"rseq":3,"scopes":["db:read"],'
        '"audience":"https://db.internal","expires_at":9,"kid":"k","policy":"sha256:p","rule":"db.query@3/tasks/report",'
        '"decision":"permit"}',
    ),
    (
        records.MintDenied(id="r", ts="t", call=CALL, reason="task_unknown", where="w", why="because"),
        '{"v":1,"type":"mint.deny",CALL,"id":"r","ts":"t","reason":"task_unknown","where":"w","why":"because",'
        '"decision":"refuse"}',
    ),
    (
        records.ToolCallStarted(id="r", ts="t", call=CALL),
        '{"v":1,"type":"tool.call.start",CALL,"id":"r","ts":"t","decision":"permit"}',
    ),
    (
        records.ToolCallEnded(id="r", ts="t", call=CALL, status="ok", duration_us=12),
        '{"v":1,"type":"tool.call.end",CALL,"id":"r","ts":"t","status":"ok","duration_us":12}',
    ),
    (
        records.ToolCallDenied(id="r", ts="t", call=CALL, reason="contract_drift", where=None, declared="4"),
        '{"v":1,"type":"tool.call.deny",CALL,"id":"r","ts":"t","reason":"contract_drift","where":null,"declared":"4",'
        '"decision":"refuse"}',
    ),
    (
        records.RequestDenied(
            id="r",
            ts="t",
            endpoint="POST /admin/versions/{tool}/{version}/{command}",
            by="rollout-bot",
            tool="db.query",
            version="4",
            command="retire",
            reason="admin_not_permitted",
            where="may",
            why="w",
        ),
        '{"v":1,"type":"request.deny","id":"r","ts":"t","endpoint":"POST /admin/versions/{tool}/{version}/{command}",'
        '"by":"rollout-bot","tool":"db.query","version":"4","command":"retire","reason":"admin_not_permitted",'
        '"where":"may","why":"w","decision":"refuse"}',
    ),
    (
        records.Released(id="r", ts="t", client="svc", jti="j-1"),
        '{"v":1,"type":"release","id":"r","ts":"t","client":"svc","jti":"j-1"}',
    ),
    (
        records.VersionChanged(
            id="r",
            ts="t",
            command="rollback",
            tool="db.query",
            version="4",
            gen=1,
            gseq=2,
            seq=3,
            by="operator",
            records=({"tool": "db.query"},),
            revoked=("version:db.query@4",),
        ),
        '{"v":1,"type":"version.rollback","id":"r","ts":"t","command":"rollback","tool":"db.query","version":"4","gen":1,'
        '"gseq":2,"seq":3,"by":"operator","records":[{"tool":"db.query"}],"revoked":["version:db.query@4"],"reason":null,'
        '"contract_members":null}',
    ),
    (
        records.Revoked(id="r", ts="t", gen=1, gseq=2, seq=3, revoked=("all",), by="operator", reason="a leak"),
        '{"v":1,"type":"revoke","id":"r","ts":"t","gen":1,"gseq":2,"seq":3,"revoked":["all"],"by":"operator",'
        '"reason":"a leak"}',
    ),
    (
        records.ReceiptGiven(
            id="r",
            ts="t",
            gen=1,
            seq=3,
            revoked=("version:db.query@4",),
            change="c",
            by="operator",
            acknowledged=2,
            expired=1,
            statement="a.b.c",
        ),
        '{"v":1,"type":"revocation.receipt","id":"r","ts":"t","gen":1,"seq":3,"revoked":["version:db.query@4"],'
        '"change":"c","by":"operator","acknowledged":2,"expired":1,"statement":"a.b.c"}',
    ),
    (
        records.PolicyChanged(id="r", ts="t", policy="sha256:p", previous=None, tools=("db.query",)),
        '{"v":1,"type":"policy.change","id":"r","ts":"t","policy":"sha256:p","previous":null,"tools":["db.query"]}',
    ),
    (
        records.PolicyNarrowed(
            id="r",
            ts="t",
            policy="sha256:p",
            gen=1,
            gseq=2,
            seq=3,
            by="operator",
            records=({"tool": "db.query"},),
            revoked=("policy:sha256:o",),
        ),
        '{"v":1,"type":"policy.narrow","id":"r","ts":"t","policy":"sha256:p","gen":1,"gseq":2,"seq":3,"by":"operator",'
        '"records":[{"tool":"db.query"}],"revoked":["policy:sha256:o"]}',
    ),
    (
        records.ExceptionUsed(
            id="r",
            ts="t",
            policy="sha256:p",
            when="publish",
            rule="scope.widened",
            tool="db.query",
            version="5",
            key=None,
            reason="moves",
            approved_by=("ada", "bo"),
            expires="2026-12-31",
            by="operator",
        ),
        '{"v":1,"type":"policy.exception","id":"r","ts":"t","policy":"sha256:p","when":"publish","rule":"scope.widened",'
        '"tool":"db.query","version":"5","key":null,"reason":"moves","approved_by":["ada","bo"],"expires":"2026-12-31",'
        '"by":"operator"}',
    ),
    (
        records.KeyCreated(id="r", ts="t", kid="k", algorithm="ES256", use="sign"),
        '{"v":1,"type":"key.create","id":"r","ts":"t","kid":"k","algorithm":"ES256","use":"sign","by":null}',
    ),
    (
        records.MarksCompacted(id="r", ts="t", gen=1, gseq=2, seq=3, covered=1, by="broker"),
        '{"v":1,"type":"marks.compact","id":"r","ts":"t","gen":1,"gseq":2,"seq":3,"covered":1,"by":"broker"}',
    ),
    (
        records.KeyRetired(id="r", ts="t", kid="k", why="revoked", successor="k2"),
        '{"v":1,"type":"key.retire","id":"r","ts":"t","kid":"k","why":"revoked","successor":"k2"}',
    ),
    (
        records.Heard(id="r", ts="t", gen=1, seq=3, records=({"tool": "db.query"},), marks={"all": 2}),
        '{"v":1,"type":"heard","id":"r","ts":"t","gen":1,"seq":3,"records":[{"tool":"db.query"}],"marks":{"all":2}}',
    ),
    (
        records.Claimed(id="r", ts="t", gen=2, seq=1_000, previous_gen=1, run_id="f0", reason="restarted"),
        '{"v":1,"type":"gen.claim","id":"r","ts":"t","gen":2,"seq":1000,"previous_gen":1,"run_id":"f0","reason":"restarted"}',
    ),
    (
        records.Recovered(id="r", ts="t", gen=1, gseq=2, seq=3, intent={"type": "mint"}),
        '{"v":1,"type":"recover","id":"r","ts":"t","gen":1,"gseq":2,"seq":3,"intent":{"type":"mint"}}',
    ),
    (
        records.LogOpened(id="r", ts="t", broker="https://broker.example", records=5),
        '{"v":1,"type":"log.open","id":"r","ts":"t","broker":"https://broker.example","records":5}',
    ),
    (records.LogClosed(id="r", ts="t"), '{"v":1,"type":"log.close","id":"r","ts":"t"}'),
]


@pytest.mark.parametrize(("record", "spelled"), PINNED, ids=[type(record).__name__ for record, _ in PINNED])
def test_a_record_is_pinned(record: Record, spelled: str) -> None:
    made = json.dumps(record_json(record), separators=(",", ":"))
    assert made == spelled.replace("CALL", SPELLED_CALL).replace("ACT", SPELLED_ACT)


def test_every_kind_of_record_is_pinned() -> None:
    assert {type(record) for record, _ in PINNED} == set(get_args(Record))


def test_what_a_replay_reads_is_what_says_what_the_store_must_hold() -> None:
    pinned = {record.type for record, _ in PINNED}
    assert {
        "version.rollback",
        "policy.narrow",
        "revoke",
        "gen.claim",
        "heard",
        "recover",
        "marks.compact",
    } == pinned & CONTROL
    commands = {"publish", "canary", "promote", "rollback", "deprecate", "retire"}
    assert {f"version.{command}" for command in commands} == {name for name in CONTROL if name.startswith("version.")}


KEY = DigestKey(1, b"secret")


def test_the_digest_of_an_argument_is_pinned() -> None:
    # printf '/a\0"x"' | openssl dgst -sha256 -hmac secret, the first 32 hex digits
    assert digest_arguments({"a": "x"}, key=KEY) == {"/a": "hk1:a1f5c200433b8a6fe390980eb81bc741"}


def test_every_leaf_is_named_by_its_pointer_and_no_value_is_there() -> None:
    arguments: dict[str, Any] = {"a/b": {"~c": [1, {"d": None}, []]}, "e": {}, "f": True, "g": "kanarie", "": "x"}
    made = digest_arguments(arguments, key=KEY)
    assert set(made) == {"/a~1b/~0c/0", "/a~1b/~0c/1/d", "/a~1b/~0c/2", "/e", "/f", "/g", "/"}
    assert "kanarie" not in json.dumps(made)
    assert all(value.startswith("hk1:") and len(value) == 36 for value in made.values())


def test_equal_values_look_equal_at_one_place_and_nowhere_else() -> None:
    one, other = digest_arguments({"a": 1, "b": 1}, key=KEY), digest_arguments({"a": 1, "b": "1"}, key=KEY)
    assert one["/a"] == other["/a"]
    assert len({one["/a"], one["/b"], other["/b"]}) == 3
    assert digest_arguments({"a": 1}, key=DigestKey(2, b"secret"))["/a"] == one["/a"].replace("hk1", "hk2")
    assert digest_arguments({"a": 1}, key=DigestKey(1, b"another"))["/a"] != one["/a"]
    assert digest_arguments({"a": 1.0}, key=KEY)["/a"] == one["/a"]  # one number, one spelling


def test_beyond_so_many_leaves_the_rest_is_one_digest() -> None:
    many = {f"k{n:03}": n for n in range(MAX_LEAVES + 6)}
    made = digest_arguments(many, key=KEY)
    assert len(made) == MAX_LEAVES + 1
    assert made["…"] != digest_arguments({**many, f"k{MAX_LEAVES + 5:03}": "other"}, key=KEY)["…"]
    assert len(digest_arguments({f"k{n}": n for n in range(MAX_LEAVES)}, key=KEY)) == MAX_LEAVES


def test_arguments_that_are_empty_have_one_digest() -> None:
    assert set(digest_arguments({}, key=KEY)) == {""}


def test_a_key_does_not_show_its_secret() -> None:
    assert "secret'" not in repr(KEY)


@pytest.mark.parametrize("name", ["k" * 60_000, "k" * MAX_POINTER_CHARACTERS, "é", "a\x00", "\ud800", "a\n"])
def test_a_name_that_a_caller_made_up_does_not_stand_in_a_record(name):
    made = digest_arguments({"map": {name: 1}}, key=KEY)
    assert [len(pointer) for pointer in made] == [37]
    assert made != digest_arguments({"map": {name + "x": 1}}, key=KEY)
    assert made.keys().isdisjoint(digest_arguments({"map": {name: 1}}, key=DigestKey(1, b"another")))


def test_a_plain_name_stands_in_a_record():
    name = "k" * (MAX_POINTER_CHARACTERS - 1)
    assert digest_arguments({name: 1}, key=KEY).keys() == {f"/{name}"}
