"""The version gate as arithmetic: every rule of `domain.dispatch`, by its number."""

from __future__ import annotations

from typing import Any

import pytest
from broker.domain.contracts.contract import META_VERSION
from broker.domain.dispatch import (
    BARE_VERSION,
    Code,
    Declaration,
    InvalidArguments,
    Refuse,
    Run,
    Target,
    judge,
    malformed,
    read_declaration,
    refused_exchange,
    resolve,
    retired,
    unavailable,
    unknown_tool,
)
from broker.domain.errors import Reason
from broker.domain.ids import Digest, ToolName, Version
from broker.domain.lifecycle.states import Cohort, State, VersionRecord

TOOL = ToolName("db.query")
DIGEST = Digest("sha256:" + "a" * 64)
OTHER = Digest("sha256:" + "b" * 64)


def record(version: str, state: State, *, since: int = 1, cohort: Cohort | None = None) -> VersionRecord:
    return VersionRecord(
        tool=TOOL,
        version=Version(version),
        state=state,
        contract=DIGEST,
        policy=DIGEST,
        since=since,
        cohort=cohort or Cohort(),
    )


STABLE = record("3", State.STABLE)


def decide(declared: str | None, *records: VersionRecord, account: str = "alice") -> Target | Refuse:
    version = Version(declared) if declared is not None else None
    return resolve(TOOL, records, Declaration(version), agent="agent-7", account=account)


@pytest.mark.parametrize(
    ("meta", "framework", "version"),
    [
        (None, None, None),
        ({}, None, None),
        ({"other": "4"}, None, None),
        ({META_VERSION: "4"}, None, "4"),
        ({BARE_VERSION: "4"}, None, "4"),
        ({META_VERSION: "4", BARE_VERSION: "4"}, None, "4"),
        ({META_VERSION: "4"}, "4", "4"),
    ],
)
def test_1_a_declaration_is_read(meta: dict[str, Any] | None, framework: object, version: str | None) -> None:
    assert read_declaration(TOOL, meta, framework=framework) == Declaration(
        Version(version) if version is not None else None
    )


@pytest.mark.parametrize(
    ("meta", "framework"),
    [
        ({META_VERSION: "4", BARE_VERSION: "3"}, None),
        ({META_VERSION: 4}, None),
        ({META_VERSION: None}, None),
        ({BARE_VERSION: ["4"]}, None),
        ({META_VERSION: ""}, None),
        ({META_VERSION: "4@5"}, None),
        ({META_VERSION: "4" * 65}, None),
        ({META_VERSION: "4"}, "3"),
        ({META_VERSION: "4"}, "4.0"),
        ({}, "4"),
        ({META_VERSION: "4"}, {"eq": "4"}),
    ],
)
def test_1_a_declaration_with_two_readings_or_none_is_hard(meta: dict[str, Any], framework: object) -> None:
    found = read_declaration(TOOL, meta, framework=framework)
    assert isinstance(found, Refuse)
    assert found.code is Code.SCHEMA_VERSION_UNKNOWN
    assert "retry" not in found.data


@pytest.mark.parametrize("known", [(), (STABLE,), (STABLE, record("4", State.PUBLISHED))])
def test_2_what_was_never_served_is_hard(known: tuple[VersionRecord, ...]) -> None:
    found = decide("4", *known)
    assert isinstance(found, Refuse)
    assert found.code is Code.SCHEMA_VERSION_UNKNOWN
    assert found.data == {"tool": "db.query", "declared": "4"}


@pytest.mark.parametrize(("state", "was"), [(State.RETIRED, "retired"), (State.ROLLED_BACK, "rolled back")])
def test_3_what_is_no_longer_served_sends_back_to_the_listing(state: State, was: str) -> None:
    found = decide("2", STABLE, record("2", state))
    assert isinstance(found, Refuse)
    assert found.code is Code.SCHEMA_VERSION_RETIRED
    assert found.data == {"tool": "db.query", "declared": "2", "current": "3", "action": "relist", "retry": "once"}
    for part in ("schema_version_retired", was, "2", "3", "tools/list", "once"):
        assert part in found.message  # some clients drop data


def test_3_without_a_version_left_there_is_no_current_one() -> None:
    found = decide("2", record("2", State.RETIRED))
    assert isinstance(found, Refuse)
    assert found.data["current"] is None


def test_4_a_canary_is_for_its_cohort() -> None:
    canary = record("4", State.CANARY, since=2, cohort=Cohort(principals=("carol",)))
    assert decide("4", STABLE, canary, account="carol") == Target(canary, declared=True)
    found = decide("4", STABLE, canary)
    assert isinstance(found, Refuse)
    assert (found.code, found.data["reason"]) == (Code.CREDENTIAL_REFUSED, "version_not_routed")


def test_4_a_principal_of_the_canary_may_declare_the_stable_one() -> None:
    canary = record("4", State.CANARY, since=2, cohort=Cohort(principals=("carol",)))
    assert decide("3", STABLE, canary, account="carol") == Target(STABLE, declared=True)


def test_4_a_deprecated_version_may_be_declared() -> None:
    old = record("2", State.DEPRECATED)
    assert decide("2", STABLE, old) == Target(old, declared=True)


def test_5_an_undeclared_call_is_for_the_version_it_is_routed_to() -> None:
    canary = record("4", State.CANARY, since=2, cohort=Cohort(principals=("agent-7",)))
    assert decide(None, STABLE) == Target(STABLE, declared=False)
    assert decide(None, STABLE, canary) == Target(canary, declared=False)


def test_5_an_undeclared_call_of_a_tool_without_a_served_version_is_hard() -> None:
    found = decide(None, record("3", State.ROLLED_BACK))
    assert isinstance(found, Refuse)
    assert found.code is Code.SCHEMA_VERSION_UNKNOWN


DECLARED, UNDECLARED = Target(STABLE, declared=True), Target(STABLE, declared=False)


def test_6_a_declared_call_with_wrong_arguments_is_for_the_model_to_mend() -> None:
    found = judge(DECLARED, problem="/query: required", omitted=(), served=DIGEST)
    assert found == InvalidArguments("Invalid arguments for db.query@3: /query: required")


@pytest.mark.parametrize(("problem", "omitted"), [("/x: unknown", ()), (None, ("/timeout_ms",))])
def test_6_an_undeclared_call_that_does_not_fit_exactly_lists_anew(
    problem: str | None, omitted: tuple[str, ...]
) -> None:
    found = judge(UNDECLARED, problem=problem, omitted=omitted, served=DIGEST)
    assert isinstance(found, Refuse)
    assert found.code is Code.STRICT_VALIDATION_FAILED
    assert (found.data["action"], found.data["retry"], found.data["current"]) == ("relist", "once", "3")
    assert (problem or omitted[0]) in found.message


def test_6_a_declared_call_may_leave_defaults_out() -> None:
    assert judge(DECLARED, problem=None, omitted=("/timeout_ms",), served=DIGEST) == Run(STABLE, undeclared=False)


def test_6_an_undeclared_call_that_fits_runs_and_is_marked() -> None:
    assert judge(UNDECLARED, problem=None, omitted=(), served=DIGEST) == Run(STABLE, undeclared=True)


@pytest.mark.parametrize("served", [None, OTHER])
@pytest.mark.parametrize("target", [DECLARED, UNDECLARED])
def test_7_what_is_not_served_as_published_does_not_run(target: Target, served: Digest | None) -> None:
    found = judge(target, problem=None, omitted=(), served=served)
    assert isinstance(found, Refuse)
    assert found.code is Code.CONTRACT_DRIFT
    assert (found.data["published"], found.data["served"]) == (DIGEST, served)


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (Reason.VERSION_RETIRED, Code.SCHEMA_VERSION_RETIRED),
        (Reason.VERSION_ROLLED_BACK, Code.SCHEMA_VERSION_RETIRED),
        (Reason.VERSION_UNKNOWN, Code.SCHEMA_VERSION_UNKNOWN),
        (Reason.VERSION_NOT_SERVED, Code.SCHEMA_VERSION_UNKNOWN),
        (Reason.CONTRACT_MISMATCH, Code.CONTRACT_DRIFT),
        (Reason.TASK_NOT_ALLOWED, Code.CREDENTIAL_REFUSED),
        (Reason.TOKEN_EXPIRED, Code.CREDENTIAL_REFUSED),
        (Reason.CLIENT_ASSERTION_INVALID, Code.CREDENTIAL_REFUSED),
    ],
)
def test_8_the_broker_has_the_last_word(reason: Reason, code: Code) -> None:
    found = refused_exchange(STABLE, reason.value, "the broker's words", current="4")
    assert found.code is code
    if code is Code.SCHEMA_VERSION_RETIRED:
        assert found == retired("db.query", "3", State(reason.value.removeprefix("version_")), "4")
    if code is Code.CREDENTIAL_REFUSED:
        assert found.data["reason"] == reason.value
        # what is wrong between this server and its broker is not the caller's to read
        assert ("the broker's words" in found.message) is not reason.value.startswith("client_")


def test_a_reason_nobody_knows_yet_is_still_a_refusal() -> None:
    assert refused_exchange(STABLE, "made_up_later", "words", current=None).code is Code.CREDENTIAL_REFUSED


def test_the_codes_are_as_documented_and_outside_what_the_protocols_reserve() -> None:
    assert {code.name: int(code) for code in Code} == {
        "INVALID_PARAMS": -32602,
        "SCHEMA_VERSION_RETIRED": -31001,
        "SCHEMA_VERSION_UNKNOWN": -31002,
        "STRICT_VALIDATION_FAILED": -31003,
        "CONTRACT_DRIFT": -31004,
        "CREDENTIAL_REFUSED": -31005,
        "BROKER_UNAVAILABLE": -31006,
    }
    assert all(not -32768 <= code <= -32000 for code in Code if code is not Code.INVALID_PARAMS)


def test_an_outage_says_when_to_come_back() -> None:
    found = unavailable("db.query", 3)
    assert (found.code, found.data["retry_after"]) == (Code.BROKER_UNAVAILABLE, 3)


def test_what_is_no_tool_or_has_no_one_reading_is_the_protocols_own_error() -> None:
    assert unknown_tool("x").message == "Unknown tool: x"
    assert unknown_tool("x").code is malformed("x", "why").code is Code.INVALID_PARAMS
