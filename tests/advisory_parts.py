"""Small policies for one tool with one argument, as it was when an advisory was written about it and as it should be."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from broker.domain.contracts.contract import parse_contract

TRUST = """tenant: default
lockstep: strict
issuers:
  https://idp.example:
    jwks: {file: keys/idp.json}
    algorithms: [ES256]
    claims: {groups: groups}
    ceiling: {tools: ["*"], scopes: ["*"]}
clients:
  agents:
    auth: private_key_jwt
    jwks: {file: keys/agents.json}
    resource: https://agents.example/mcp
    tools: ["*"]
    may: [exchange]
"""


@dataclass(frozen=True, slots=True)
class Version:
    """One version of the tool. scopes: by template, what needs it (None: every input); permitted: arguments that fit."""

    schema: dict
    scopes: dict[str, dict | None]
    arguments: dict[str, str | dict]
    permitted: dict


def write_policy(folder: Path, tool: str, versions: list[Version]) -> Path:
    """A policy folder whose second version, where there is one, replaces the first."""
    contracts = folder / "contracts" / tool
    contracts.mkdir(parents=True)
    (folder / "tests").mkdir()
    (folder / "trust.yaml").write_text(TRUST)
    made: dict[str, object] = {}
    cases: list[object] = []
    for index, version in enumerate(versions):
        number = str(index + 1)
        contract = {"name": tool, "description": f"Does what {tool} does.", "inputSchema": version.schema}
        (contracts / f"{number}.json").write_text(json.dumps(contract, indent=2))
        made[number] = {
            **({"replaces": str(index)} if index else {}),
            "contract": f"contracts/{tool}/{number}.json",
            "digest": parse_contract(contract).digest,
            "arguments": {
                pointer: said if isinstance(said, dict) else {"kind": said}
                for pointer, said in version.arguments.items()
            },
            "scopes": {name: {"needed_when": needed or True} for name, needed in version.scopes.items()},
            "tasks": {"work": {"allow": {"claims": {"groups": ["staff"]}}, "scopes": list(version.scopes)}},
        }
        request = {"version": number, "task": "work", "client": "agents", "issuer": "https://idp.example"}
        staff = {**request, "claims": {"groups": ["staff"]}, "arguments": version.permitted}
        cases.append({"name": f"staff work with {number}", "request": staff, "permit": ["checked:elsewhere"]})
        stranger = {**request, "arguments": version.permitted}
        cases.append({"name": f"strangers do not with {number}", "request": stranger, "refuse": "task_not_allowed"})
    document = {"tool": tool, "audience": "https://api.example", "owners": ["security"], "versions": made}
    # JSON is YAML, and every string in it is quoted.
    (folder / f"{tool}.yaml").write_text(json.dumps(document, indent=2))
    (folder / "tests" / f"{tool}.yaml").write_text(json.dumps({"tool": tool, "cases": cases}, indent=2))
    return folder
