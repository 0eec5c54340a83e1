"""What of a published version may change in the files: access may be taken away, nothing may be added, the rest stays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from broker.domain.canonical import JsonObject
from broker.domain.contracts.contract import ToolContract, parse_contract
from broker.domain.ids import ClientId, Digest, TaskName, ToolName, Version
from broker.domain.policy.document import ArgumentRule, ScopeRule, TaskRule, VersionPolicy
from broker.domain.policy.frozen import MAX_GRANT_BYTES, Standing, as_published, read_grant, spell_grant, standing
from broker.domain.policy.grant import grant_digest


def contract(description: str = "Asks.") -> ToolContract:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "additionalProperties": False}
    return parse_contract({"name": "db.query", "description": description, "inputSchema": schema})


def task(name: str = "report", **members: Any) -> TaskRule:
    made = TaskRule(
        TaskName(name), (ClientId("a"), ClientId("b")), {"groups": ("dba", "analysts")}, ("db:read", "db:write"), 60, 3
    )
    return replace(made, **members)


def version(*tasks: TaskRule, **members: Any) -> VersionPolicy:
    held: dict[str, Any] = {
        "audience": "https://db.internal",
        "contract": contract(),
        "arguments": {"/path": ArgumentRule("/path", "path", ("/srv",))},
        "scopes": {name: ScopeRule(name, (), True) for name in ("db:read", "db:write")},
        "tasks": {rule.task: rule for rule in tasks or (task(), task("migrate"))},
        **members,
    }
    digest = grant_digest(held["audience"], held["contract"].digest, held["arguments"], held["scopes"], held["tasks"])
    return VersionPolicy(tool=ToolName("db.query"), version=Version("3"), digest=digest, **held)


PUBLISHED = version()
GRANT = spell_grant(PUBLISHED)


def standing_of(loaded: VersionPolicy | None, *, grant: JsonObject | None = GRANT) -> Standing:
    return standing(loaded, contract=PUBLISHED.contract.digest, policy=PUBLISHED.digest, grant=grant)


LESS = {
    "a client": version(task(clients=(ClientId("a"),)), task("migrate")),
    "a value of a claim": version(task(claims={"groups": ("dba",)}), task("migrate")),
    "a claim more is asked for": version(task(claims={"groups": ("dba",), "site": ("x",)}), task("migrate")),
    "everybody": version(task(clients=(), claims={}), task("migrate")),
    "seconds": version(task(ttl_seconds=59), task("migrate")),
    "uses": version(task(uses=2), task("migrate")),
    "asked about": version(task(online=True), task("migrate")),
    "a task": version(task()),
    "every task": replace(version(), tasks={}, digest=Digest("sha256:none")),
}
MORE = {
    "a client": version(task(clients=(ClientId("a"), ClientId("b"), ClientId("c"))), task("migrate")),
    "clients are no longer asked for": version(task(clients=()), task("migrate")),
    "a value of a claim": version(task(claims={"groups": ("dba", "analysts", "all")}), task("migrate")),
    "a claim is no longer asked for": version(task(claims={}), task("migrate")),
    "one client for another": version(task(clients=(ClientId("c"),)), task("migrate")),
    "seconds": version(task(ttl_seconds=61), task("migrate")),
    "uses": version(task(uses=4), task("migrate")),
    "uncounted": version(task(uses=None), task("migrate")),
    "a task": version(task(), task("migrate"), task("another")),
    "less of one, more of another": version(task(ttl_seconds=1), task("migrate", ttl_seconds=61)),
}
OTHER = {
    "another audience": version(audience="https://other.internal"),
    "another root": version(arguments={"/path": ArgumentRule("/path", "path", ("/",))}),
    "a root less": version(arguments={}),
    "another condition": version(
        scopes={
            "db:read": ScopeRule("db:read", (), True),
            "db:write": ScopeRule("db:write", (), {"required": ["path"]}),
        }
    ),
    "a scope that a task grants less": version(task(scopes=("db:read",)), task("migrate")),
    "another contract": version(contract=contract("Asks otherwise.")),
}


def test_what_was_published_is_served() -> None:
    assert standing_of(version()) is Standing.AS_PUBLISHED


def test_a_version_that_is_not_loaded_is_missing() -> None:
    assert standing_of(None) is Standing.MISSING


@pytest.mark.parametrize("loaded", LESS.values(), ids=list(LESS))
def test_access_may_be_taken_away(loaded: VersionPolicy) -> None:
    assert standing_of(loaded) is Standing.NARROWED


@pytest.mark.parametrize("loaded", MORE.values(), ids=list(MORE))
def test_access_may_not_grow(loaded: VersionPolicy) -> None:
    assert standing_of(loaded) is Standing.EDITED


@pytest.mark.parametrize("loaded", OTHER.values(), ids=list(OTHER))
def test_the_rest_may_not_change(loaded: VersionPolicy) -> None:
    assert standing_of(loaded) is Standing.EDITED


@pytest.mark.parametrize("loaded", LESS.values(), ids=list(LESS))
def test_what_was_taken_away_does_not_come_back(loaded: VersionPolicy) -> None:
    narrowed = standing(PUBLISHED, contract=loaded.contract.digest, policy=loaded.digest, grant=spell_grant(loaded))
    assert narrowed is Standing.EDITED


@pytest.mark.parametrize("grant", [None, {}, {"v": 2}, {"v": 1, "frozen": "x"}, {"v": 1, "frozen": "x", "tasks": []}])
def test_without_a_grant_that_can_be_read_only_the_very_policy_is_served(grant: JsonObject | None) -> None:
    assert standing_of(version(), grant=grant) is Standing.AS_PUBLISHED
    assert standing_of(LESS["seconds"], grant=grant) is Standing.EDITED


def test_a_grant_is_pinned_and_read_back() -> None:
    grant = spell_grant(version(task()))
    assert grant == {
        "v": 1,
        "frozen": "sha256:d256e78694c9cff43a188ac34f95c5edf7005300da026e46c37bb3cd35617e34",
        "tasks": {
            "report": {
                "clients": ["a", "b"],
                "claims": {"groups": ["analysts", "dba"]},
                "scopes": ["db:read", "db:write"],
                "ttl": 60,
                "uses": 3,
            }
        },
    }
    read = read_grant(grant)
    assert read is not None
    assert read.tasks["report"] == task(claims={"groups": ("analysts", "dba")})


def test_a_grant_too_long_for_a_record_is_not_kept() -> None:
    clients = tuple(ClientId(f"client-{number}") for number in range(MAX_GRANT_BYTES // 10))
    assert spell_grant(version(task(clients=clients))) is None


@pytest.mark.parametrize("loaded", LESS.values(), ids=list(LESS))
def test_the_published_version_can_be_told_from_a_narrower_text(loaded: VersionPolicy) -> None:
    told = as_published(loaded, policy=PUBLISHED.digest, grant=spell_grant(PUBLISHED))
    assert told is not None
    assert (
        grant_digest(told.audience, told.contract.digest, told.arguments, told.scopes, told.tasks) == PUBLISHED.digest
    )
    assert told.digest == PUBLISHED.digest


@pytest.mark.parametrize("loaded", [one for name, one in OTHER.items() if "task" not in name])
def test_nothing_can_be_told_from_another_text(loaded: VersionPolicy) -> None:
    assert as_published(loaded, policy=PUBLISHED.digest, grant=spell_grant(PUBLISHED)) is None
