"""A policy folder of real tools and all their known changes, for measuring: what an author would write first for each.

For every tool: its contracts in the order of their dates, each a version that replaces the one before; a scope that every call
needs, one that a choice of the first enum needs, and a template over the first required text or number.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from broker.domain.contracts.contract import ContractError, parse_contract
from tests.advisory_parts import TRUST

DATA = Path(__file__).parents[3] / "shared" / "data"
TOOLS = 300
_NAME = re.compile(r"[^A-Za-z0-9_.-]+")
_WORD = re.compile(r"[a-z][A-Za-z0-9_-]*")


def write_tree(folder: Path, *, most_versions: int | None = None) -> tuple[int, int]:
    """Write the folder; how many tools and versions it has. most_versions: only the newest of each tool."""
    (folder / "tests").mkdir(parents=True)
    (folder / "trust.yaml").write_text(TRUST)
    tools = list(_histories())[:TOOLS]
    versions = 0
    for tool, contracts in tools:
        kept = contracts[-most_versions:] if most_versions is not None else contracts
        _write_tool(folder, tool, kept)
        versions += len(kept)
    return len(tools), versions


def _histories() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Tools with changes, each with its contracts, oldest first."""
    changes: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in (DATA / "mcp_contract_pairs.jsonl").read_text().splitlines():
        change = json.loads(line)
        changes[f"{change['server']}.{change['tool']}"].append(change)
    for key in sorted(changes):
        tool = _NAME.sub("-", key).strip("-.")
        made: list[dict[str, Any]] = []
        for change in sorted(changes[key], key=lambda one: str(one["date"])):
            for side in ("old", "new"):
                contract = {**change[side], "name": tool}
                if contract.get("inputSchema") and (not made or made[-1] != contract) and _is_lawful(contract):
                    made.append(contract)
        if made:
            yield tool, made


def _is_lawful(contract: dict[str, Any]) -> bool:
    try:
        parse_contract(contract)
    except ContractError:
        return False
    return True


def _write_tool(folder: Path, tool: str, contracts: list[dict[str, Any]]) -> None:
    (folder / "contracts" / tool).mkdir(parents=True)
    versions: dict[str, Any] = {}
    cases: list[dict[str, Any]] = []
    for number, contract in enumerate(contracts, 1):
        name = f"contracts/{tool}/{number}.json"
        (folder / name).write_text(json.dumps(contract, indent=2, ensure_ascii=False))
        scopes = _scopes(contract["inputSchema"])
        versions[str(number)] = {
            **({"replaces": str(number - 1)} if number > 1 else {}),
            "contract": name,
            "digest": parse_contract(contract).digest,
            "scopes": {scope: {"needed_when": needed} for scope, needed in scopes.items()},
            "tasks": {"work": {"allow": {"claims": {"groups": ["staff"]}}, "scopes": list(scopes)}},
        }
        request = {"version": str(number), "client": "agents", "issuer": "https://idp.example"}
        cases += [
            {"name": "staff", "request": {**request, "claims": {"groups": ["staff"]}}, "permit": ["tool:use"]},
            {"name": "strangers", "request": request, "refuse": "task_missing"},
        ]
    document = {"tool": tool, "audience": "https://api.example", "owners": ["security"], "versions": versions}
    # JSON is YAML, and every string in it is quoted.
    (folder / f"{tool}.yaml").write_text(json.dumps(document, indent=2))
    (folder / "tests" / f"{tool}.yaml").write_text(json.dumps({"tool": tool, "cases": cases}, indent=2))


def _scopes(schema: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {"tool:use": True}
    properties = schema.get("properties")
    named = properties.items() if isinstance(properties, dict) else ()
    plain = {name: child for name, child in named if isinstance(child, dict) and _WORD.fullmatch(name)}
    for name, child in plain.items():
        if isinstance(child.get("enum"), list) and len(child["enum"]) > 1:
            made[f"tool:{name}"] = {"properties": {name: {"const": child["enum"][-1]}}, "required": [name]}
            break
    for name in schema.get("required", ()):
        if name in plain and plain[name].get("type") in ("string", "integer") and "enum" not in plain[name]:
            made[f"tool:on:{{/{name}}}"] = True
            break
    return made
