"""The reference pages name everything that is there: claims, endpoints, functions, records, codes, keys of policy files."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest
from broker.adapters.redis.library import NAME, library_text
from broker.domain.audit import records
from broker.domain.dispatch import Code
from broker.domain.lifecycle.states import Command, State
from broker.domain.policy import form
from broker.domain.policy.document import ADMIN_POWERS, CLIENT_POWERS, KINDS
from broker.domain.tokens.exchange_request import DETAIL_TYPE
from broker.http import admin, keys, public, receipts, replicas
from broker.http.openapi import PATHS

DOCS = Path(__file__).parents[2] / "broker" / "docs"


def page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text()


def words(name: str) -> set[str]:
    """Every word that a page sets in code."""
    return {word for span in re.findall(r"`([^`]+)`", page(name)) for word in re.split(r"[\s,]+", span)}


def missing(name: str, expected: set[str]) -> set[str]:
    return expected - words(name)


def test_wire_names_every_claim_of_a_credential() -> None:
    claims = {"iss", "sub", "sub_id", "aud", "client_id", "act", "scope", "authorization_details"}
    claims |= {"iat", "exp", "jti", "txn", "chain", "policy", "gen", "rseq"}
    assert missing("wire", claims | {DETAIL_TYPE, "arguments_digest", "uses"}) == set()


def test_wire_names_every_endpoint() -> None:
    routes = {
        route.path
        for router in (public.router, admin.router, receipts.router, keys.router, replicas.router)
        for route in router.routes
    }
    text = page("wire")
    assert {path for path in set(PATHS) | routes if path not in text} == set()


def test_wire_names_every_command_and_state_of_a_version() -> None:
    assert missing("wire", {command.value for command in Command}) == set()
    assert {state.value for state in State if state.value not in page("wire")} == set()


def test_store_names_the_library_and_every_function_in_it() -> None:
    functions = set(re.findall(r"function_name = '(\w+)'", library_text().decode()))
    assert len(functions) >= 9
    assert missing("store", functions) == set()
    assert {word for word in words("store") if re.fullmatch(r"\w+_1", word)} == functions | {NAME}


@pytest.mark.parametrize("kind", get_args(records.Record), ids=lambda kind: kind.__name__)
def test_audit_names_every_record_type_and_field(kind: type) -> None:
    names = {field.name for field in fields(kind)} - {"call"}
    if kind is records.VersionChanged:
        names |= {f"version.{command.value}" for command in Command}
    else:
        names.add(kind.type)
    assert missing("audit", names) == set()


def test_audit_names_every_fact_of_a_call() -> None:
    assert missing("audit", {field.name for field in fields(records.Call)}) == set()


def test_gate_names_every_code() -> None:
    assert {code.name for code in Code if str(int(code)) not in page("gate")} == set()


def test_policy_names_every_key_of_a_tool_file_and_of_the_trust_file() -> None:
    keys = set(form.TOOL_FILE.fields) | set(form.VERSION_RECORD.fields) | set(form.TRUST_FILE.fields)
    for record in (
        form.ISSUER,
        form.CLIENT_RECORD,
        form.ADMIN,
        form.CEILING,
        form.ARGUMENT,
        form.SCOPE_RULE,
        form.TASK_RULE,
    ):
        keys |= set(record.fields)
    assert missing("policy", keys | set(KINDS) | set(CLIENT_POWERS) | set(ADMIN_POWERS)) == set()


@pytest.mark.parametrize("file", sorted(DOCS.glob("*.md")), ids=lambda file: file.stem)
def test_a_page_can_be_served_and_its_links_lead_somewhere(file: Path) -> None:
    assert re.fullmatch(r"[a-z]+([.-][a-z]+)*", file.stem)
    for target in re.findall(r"\]\(([^)]+)\)", file.read_text()):
        name, _, anchor = target.partition("#")
        assert (DOCS / name).is_file()
        slugs = {
            heading.lower().replace(" ", "-") for heading in re.findall(r"^#+ (.+)$", (DOCS / name).read_text(), re.M)
        }
        assert not anchor or anchor in slugs
