"""A fastmcp tool that is served exactly as its contract was published.

    mcp.add_tool(contract_tool(query, load_contract("policies/contracts/db.query/3.json"), version="3"))

The framework derives a schema from a function's signature, which changes with the framework. Here the contract is given, and
the function only has to take what the contract accepts: a parameter for each property, with a default where it is optional.
The gate checks arguments against the contract; the framework still checks them against the signature.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastmcp.tools.base import Tool
from mcp_types import ToolAnnotations

from broker.domain.canonical import JsonError, parse_json_object
from broker.domain.contracts.contract import ContractError, ToolContract, parse_contract
from broker.gate.served import digest_as_listed


def load_contract(path: str | Path) -> ToolContract:
    """The contract in a JSON file. Raises `ContractError`, `OSError`."""
    try:
        return parse_contract(parse_json_object(Path(path).read_bytes()))
    except JsonError as error:
        raise ContractError(f"{path}: {error}") from None


def contract_tool(function: Callable[..., Any], contract: ToolContract, *, version: str) -> Tool:
    """A tool that runs `function` and is listed as the contract says. Raises `ContractError` where it cannot be."""
    members = contract.members
    annotations = members.get("annotations")
    tool = Tool.from_function(
        function,
        name=contract.name,
        version=version,
        title=_text(members.get("title")),
        description=_text(members.get("description")),
        annotations=ToolAnnotations.model_validate(annotations) if annotations is not None else None,
        output_schema=None,
    ).model_copy(update={"parameters": contract.input_schema, "output_schema": members.get("outputSchema")})
    if digest_as_listed(tool) != contract.digest:
        missing = ", ".join(name for name in ("title", "description") if name not in members)
        raise ContractError(
            f"{contract.name}: fastmcp cannot list it as published; it adds what a contract leaves out"
            + (f": {missing}" if missing else "")
        )
    return tool


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
