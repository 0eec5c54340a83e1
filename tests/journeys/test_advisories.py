"""Public advisories of MCP servers: an argument that nobody had bounded, and its bounded successor.

For each: the vulnerable version is flagged with an attack that its contract takes and the fixed one refuses; tightening the
schema alone is refused; cutting the scope alone is refused; both together pass. `pytest -s` prints the table.
"""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from broker.adapters.policyfile.folder import load_tree
from broker.adapters.schemas.arithmetic import open_arithmetic
from broker.domain.policy.findings import Finding, Report, RuleId, Severity
from broker.domain.schema.closure import accepted_inputs
from broker.services.checking import PolicyChecker
from tests.advisory_parts import Version, write_policy

FIXTURES = Path(__file__).parents[3] / "shared" / "data" / "schema" / "advisory_fixtures.json"
TODAY = "2026-12-01"
PATH = {"type": "string", "pattern": "^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$", "maxLength": 300}


@dataclass(frozen=True, slots=True)
class Case:
    """An advisory as a policy: kind of the argument, the wide scope and the bound one, arguments that both versions take."""

    tool: str
    argument: str
    kind: str
    vulnerable: dict
    fixed: dict
    wide: str
    bound: str
    permitted: dict
    more_arguments: tuple[tuple[str, str], ...] = ()


def put(schema: dict, pointer: str, value: object) -> dict:
    """The schema with another one for an argument, which is required then; a scope cannot name what is not there."""
    made = deepcopy(schema)
    steps = [step for step in pointer.split("/")[1:] if step != "[]"]
    node = made
    for step in steps[:-1]:
        node = node["properties"][step]
    node["properties"][steps[-1]] = value
    node["required"] = sorted({*node.get("required", ()), steps[-1]})
    return made


# What the fixtures do not say: the kind, our scopes, arguments that are lawful before and after.
SHARED = {
    "filesystem-read_file": ("path", "fs:read", "fs:read:{/path}", {"path": "docs/a.txt"}),
    "filesystem-write_file": ("path", "fs:write", "fs:write:{/path}", {"path": "docs/a.txt", "content": "x"}),
    "git-repo-path": ("path", "repo:read", "repo:read:{/repo_path}", {"repo_path": "/srv/repo"}),
    "git-diff-target": ("ref", "repo:diff", "repo:diff:{/repo_path}", {"repo_path": "/srv/repo", "target": "main"}),
    "git-checkout-branch": (
        "ref",
        "repo:write",
        "repo:write:{/repo_path}",
        {"repo_path": "/srv/repo", "branch_name": "main"},
    ),
    "git-add-files": ("path", "repo:add", "repo:add:{/repo_path}", {"repo_path": "/srv/repo", "files": ["a.txt"]}),
    "git-show-revision": ("ref", "repo:show", "repo:show:{/repo_path}", {"repo_path": "/srv/repo", "revision": "main"}),
    "cloudflare-radar-botSlug": ("identifier", "api", "api:{/botSlug}", {"botSlug": "abc"}),
    "cloudflare-radar-caSlug": ("identifier", "api", "api:{/caSlug}", {"caSlug": "A" * 64}),
    "cloudflare-radar-logSlug": ("identifier", "api", "api:{/logSlug}", {"logSlug": "abc"}),
    "cloudflare-radar-geoId": ("identifier", "api", "api:{/geoId}", {"geoId": "12"}),
    "k8s-exec-in-pod": (
        "command",
        "k8s:exec",
        "k8s:exec:{/namespace}:{/name}",
        {"namespace": "shop", "name": "web", "command": ["ls"]},
    ),
}
REPO_PATH = {"enum": ["/srv/repo"]}
LABEL = {"type": "string", "pattern": "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", "maxLength": 63}


def shared_cases() -> list[object]:
    if not FIXTURES.is_file():
        return [pytest.param(None, id="shared", marks=pytest.mark.shared)]
    made: list[object] = []
    for fixture in json.loads(FIXTURES.read_text()):
        known = SHARED.get(fixture["id"])
        if known is None:
            assert (
                fixture["required_migration"]["argument_schema"] is False
            )  # the tool was taken away: retired, no successor
            continue
        kind, wide, bound, permitted = known
        vulnerable = fixture["vulnerable"]["inputSchema"]
        fixed = put(vulnerable, fixture["argument"], fixture["required_migration"]["argument_schema"])
        others: tuple[tuple[str, str], ...] = ()
        if "repo_path" in permitted and fixture["argument"] != "/repo_path":
            fixed, others = put(fixed, "/repo_path", REPO_PATH), (("/repo_path", "path"),)
        if "namespace" in permitted:
            fixed = put(put(fixed, "/namespace", LABEL), "/name", LABEL)
            fixed["properties"].pop("shell", None)  # which shell reads the command: the fixed tool asks none
        argument = fixture["argument"].removesuffix("/[]")
        case = Case(fixture["tool"], argument, kind, vulnerable, fixed, wide, bound, permitted, others)
        made.append(pytest.param(case, id=fixture["id"], marks=pytest.mark.shared))
    return made


def text(**properties: object) -> dict:
    return {"type": "object", "properties": properties, "required": sorted(properties), "additionalProperties": False}


OWN = [
    pytest.param(
        Case(
            "archive.extract",
            "/entry",
            "path",
            text(entry={"type": "string"}),
            text(entry=PATH),
            "archive:extract",
            "archive:extract:{/entry}",
            {"entry": "a/b.txt"},
        ),
        id="own-path",
    ),
    pytest.param(
        Case(
            "pages.fetch",
            "/host",
            "host",
            text(host={"type": "string", "maxLength": 200}),
            text(host={"type": "string", "pattern": "^[a-z0-9-]+[.]example[.]org$", "maxLength": 200}),
            "pages:fetch",
            "pages:fetch:{/host}",
            {"host": "docs.example.org"},
        ),
        id="own-host",
    ),
    pytest.param(
        Case(
            "builds.start",
            "/ref",
            "ref",
            text(ref={"type": "string", "pattern": "^.*$"}),
            text(ref={"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]*$", "maxLength": 80}),
            "builds:start",
            "builds:start:{/ref}",
            {"ref": "main"},
        ),
        id="own-ref",
    ),
]


@pytest.fixture(scope="module")
def arithmetic():
    made = open_arithmetic(None)
    yield made
    made.close()


def check(folder: Path, case: Case, versions: list[Version], arithmetic, *, with_base: bool) -> Report:
    kinds = dict((*case.more_arguments, (case.argument, case.kind)))
    placed = [replace(version, arguments={**kinds, **version.arguments}) for version in versions]
    tree = load_tree(write_policy(folder / "head", case.tool, placed), with_keys=False)
    base = load_tree(write_policy(folder / "base", case.tool, placed[:1]), with_keys=False) if with_base else None
    return PolicyChecker(arithmetic).check(tree, base=base, today=TODAY)


def said(report: Report) -> set[str]:
    return {finding.rule for finding in report.findings if finding.severity is Severity.REFUSED}


def explain(findings: tuple[Finding, ...]) -> list[str]:
    return [f"{one.severity} {one.rule}: {one.what} {one.witness}" for one in findings]


@pytest.mark.parametrize("case", [*OWN, *shared_cases()])
def test_an_advisory_is_flagged_and_mended_by_both_sides_together(
    tmp_path: Path, case: Case | None, arithmetic
) -> None:
    if case is None:
        pytest.skip("shared/data is not here, and the public advisories with it")
    vulnerable = Version(case.vulnerable, {case.wide: None}, {}, case.permitted)
    both = Version(case.fixed, {case.bound: None}, {}, case.permitted)
    if case.kind == "command":
        # A list of words still runs any program: only what is behind the scope can bound it.
        both = replace(both, arguments={case.argument: {"kind": case.kind, "enforced_by": [case.bound]}})

    alone = check(tmp_path / "flagged", case, [vulnerable], arithmetic, with_base=False)
    flagged = [one for one in alone.findings if one.rule is RuleId.ARGUMENT_UNDECLARED and one.key == case.argument]
    assert len(flagged) == 1, explain(alone.findings)
    witness = flagged[0].witness
    assert arithmetic.accepts(accepted_inputs(case.vulnerable), witness)
    assert not arithmetic.accepts(accepted_inputs(case.fixed), witness)

    tightened = replace(vulnerable, schema=case.fixed)
    schema_alone = check(tmp_path / "schema", case, [vulnerable, tightened], arithmetic, with_base=True)
    assert RuleId.LOCKSTEP_ALONE in said(schema_alone), explain(schema_alone.findings)

    scope_alone = check(
        tmp_path / "scope", case, [vulnerable, replace(both, schema=case.vulnerable)], arithmetic, with_base=True
    )
    assert said(scope_alone) & {RuleId.LOCKSTEP_ALONE, RuleId.LOCKSTEP_SCHEMA_KEPT}, explain(scope_alone.findings)

    together = check(tmp_path / "both", case, [vulnerable, both], arithmetic, with_base=True)
    assert together.exit_code == 0, explain(together.findings)
    print(f"\n{case.tool}: flagged by {json.dumps(witness)[:80]}; schema alone: {sorted(said(schema_alone))}; ", end="")
    print(f"scope alone: {sorted(said(scope_alone))}; both: lawful")
