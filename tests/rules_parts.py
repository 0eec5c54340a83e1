"""Small policy folders for the rules: versions of one tool as plain values, written as files and checked by the real parts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from broker.adapters.policyfile.folder import load_tree
from broker.domain.contracts.contract import parse_contract
from broker.domain.policy.findings import Finding, Report, Severity
from broker.domain.policy.tree import PolicyTree
from broker.services.checking import PolicyChecker

TOOL = "files.read"
TODAY = "2026-12-01"
TRUST = """tenant: default
lockstep: {lockstep}
issuers:
  https://idp.example:
    jwks: {{file: keys/idp.json}}
    algorithms: [ES256]
    claims: {{groups: groups, region: region}}
    ceiling: {{tools: ["*"], scopes: ["*"]}}
clients:
  agents:
    auth: private_key_jwt
    jwks: {{file: keys/agents.json}}
    resource: https://agents.example/mcp
    tools: ["*"]
    may: [exchange]
  robots:
    auth: private_key_jwt
    jwks: {{file: keys/robots.json}}
    resource: https://robots.example/mcp
    tools: ["*"]
    may: [exchange]
"""

SAFE = {"type": "string", "pattern": "^[A-Za-z0-9_-]+$", "maxLength": 40}
STAFF = {"claims": {"groups": ["staff"]}}


def inputs(required: Sequence[str] = (), **properties: object) -> dict[str, Any]:
    """An input schema; `mode=["read", "write"]` is an enum."""
    made = {name: {"enum": value} if isinstance(value, list) else value for name, value in properties.items()}
    return {"type": "object", "properties": made, "required": list(required), "additionalProperties": False}


def needs(name: str, *values: object) -> dict[str, Any]:
    """A condition: the argument is one of these, or just there."""
    said = {"properties": {name: {"enum": list(values)}}} if values else {}
    return {**said, "required": [name]}


def task(*scopes: str, **more: object) -> dict[str, Any]:
    """A task that staff may have."""
    return {"allow": STAFF, "scopes": list(scopes), **more}


def version(schema: dict[str, Any] | None = None, *, words: str = "", **said: Any) -> dict[str, Any]:
    """A version as its file says it. scopes: by name, the condition; tasks: by name, else one that grants all scopes."""
    made = dict(said)
    if schema is not None:
        made["schema"] = {"name": TOOL, "description": words or "Reads what is asked for.", "inputSchema": schema}
    scopes = made.get("scopes")
    if scopes is not None:
        made["scopes"] = {name: rule if rule is None else {"needed_when": rule} for name, rule in scopes.items()}
        made.setdefault("tasks", {"work": task(*(name for name, rule in scopes.items() if rule is not None))})
    return made


def write_folder(
    folder: Path,
    versions: Mapping[str, dict[str, Any]],
    *,
    lockstep: str = "strict",
    audience: str = "https://files.example",
    exceptions: Sequence[dict[str, Any]] = (),
    cases: Sequence[dict[str, Any]] | None = None,
) -> Path:
    """Write the folder. Each version is tested both ways unless `cases` says what is there."""
    (folder / "contracts" / TOOL).mkdir(parents=True)
    (folder / "tests").mkdir()
    (folder / "trust.yaml").write_text(TRUST.format(lockstep=lockstep))
    written: dict[str, dict[str, Any]] = {}
    for number, said in versions.items():
        made = dict(said)
        contract = made.pop("schema", None)
        if contract is not None:
            name = f"contracts/{TOOL}/{number}.json"
            (folder / name).write_text(json.dumps(contract, indent=2))
            made = {"contract": name, "digest": parse_contract(contract).digest, **made}
        written[number] = made
    document = {"tool": TOOL, "audience": audience, "owners": ["security"], "versions": written}
    # JSON is YAML, and every string in it is quoted.
    (folder / f"{TOOL}.yaml").write_text(json.dumps(document, indent=2))
    if cases is None:
        cases = [case for number in versions for case in both_ways(number)]
    (folder / "tests" / f"{TOOL}.yaml").write_text(json.dumps({"tool": TOOL, "cases": list(cases)}, indent=2))
    if exceptions:
        (folder / "exceptions.yaml").write_text(json.dumps({"exceptions": list(exceptions)}, indent=2))
    return folder


def both_ways(number: str) -> list[dict[str, Any]]:
    """A case that is permitted and one that is refused."""
    request = {"version": number, "client": "agents", "issuer": "https://idp.example"}
    return [
        {"name": f"staff may, {number}", "request": {**request, "claims": {"groups": ["staff"]}}, "permit": ["x"]},
        {"name": f"strangers may not, {number}", "request": request, "refuse": "task_missing"},
    ]


def excepted(rule: str, number: str, *approved_by: str, **more: str) -> dict[str, Any]:
    """An exception that holds today."""
    made = {"rule": rule, "tool": TOOL, "version": number, "reason": "worked out by hand"}
    return {**made, "approved_by": list(approved_by or ("ann",)), "expires": "2027-01-31", **more}


class Rules:
    """Checks versions of one tool, each question in folders of its own."""

    def __init__(self, checker: PolicyChecker, folder: Path) -> None:
        self._checker = checker
        self._folder = folder
        self._asked = 0

    def tree(self, versions: Mapping[str, dict[str, Any]], *, label: str = "", **more: Any) -> PolicyTree:
        self._asked += 1
        return load_tree(write_folder(self._folder / str(self._asked), versions, **more), with_keys=False, label=label)

    def report(
        self, versions: Mapping[str, dict[str, Any]], base: Mapping[str, dict[str, Any]] | None = None, **more: Any
    ) -> Report:
        old = self.tree(base, label="base") if base is not None else None
        return self._checker.check(self.tree(versions, **more), base=old, today=TODAY)

    def step(self, old: dict[str, Any], new: dict[str, Any], **more: Any) -> Report:
        """What is said of a version "2" that follows "1"."""
        return self.report({"1": old, "2": new}, {"1": old}, **more)


def said(report: Report, *severities: Severity) -> set[tuple[str, str]]:
    """Rule and key of each finding of these severities; of those that stop a policy where none is named."""
    wanted = severities or (Severity.REFUSED, Severity.UNDECIDED)
    return {(finding.rule.value, finding.key) for finding in report.findings if finding.severity in wanted}


def the(report: Report, rule: str, key: str | None = None) -> Finding:
    """The one finding of a rule."""
    found = [one for one in report.findings if one.rule == rule and key in (None, one.key)]
    assert len(found) == 1, [(one.rule.value, one.key, one.severity.value, one.what) for one in report.findings]
    return found[0]
