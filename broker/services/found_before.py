"""What the rules found about a tool before, where nothing that they look at has changed since.

1. The key covers all text that a finding can show or rest on: the tool's file, its tests, its contracts, in both trees, what
   its versions grant (defaults of `trust.yaml` are part of it), and the mode of lockstep.
2. A tool of which an answer stayed unknown is not remembered: another time the answer may be found.
3. Exceptions are applied afterwards: they change with the day.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Protocol

from broker.domain.canonical import JsonObject, JsonValue
from broker.domain.ids import ToolName
from broker.domain.policy.findings import Finding, Report
from broker.domain.policy.report_wire import read_report, report_json
from broker.domain.policy.tree import PolicyTree
from broker.domain.schema.answers import Answer, Related, Unknown
from broker.ports.schemas import SchemaArithmetic


class FoundBefore(Protocol):
    """Remembers a value by a key; may forget."""

    def get(self, key: str) -> JsonValue:
        """The value; None where there is none."""
        ...

    def put(self, key: str, answer: JsonValue) -> None:
        """Remember it, quietly not where that cannot be done."""
        ...


class Noting:
    """Arithmetic that notes whether an answer stayed unknown."""

    def __init__(self, arithmetic: SchemaArithmetic) -> None:
        self._arithmetic = arithmetic
        self.unknown = False

    def relate(self, old: JsonObject, new: JsonObject) -> Related:
        related = self._arithmetic.relate(old, new)
        self.unknown |= isinstance(related.lost, Unknown) or isinstance(related.gained, Unknown)
        return related

    def common(self, schemas: Sequence[JsonObject]) -> Answer:
        answer = self._arithmetic.common(schemas)
        self.unknown |= isinstance(answer, Unknown)
        return answer

    def accepts(self, schema: JsonObject, value: JsonValue) -> bool:
        return self._arithmetic.accepts(schema, value)


def tool_key(tree: PolicyTree, base: PolicyTree | None, tool: ToolName) -> str:
    """What the findings about a tool rest on, as a key of 32 characters."""
    digest = sha256(json.dumps([1, tree.policy.lockstep, base is not None]).encode())
    for side in (tree, base):
        for part in _texts(side, tool) if side is not None else ():
            body = part.encode("utf-8", "surrogatepass")
            digest.update(f"{len(body)} ".encode() + body)
        digest.update(b"|")
    return digest.hexdigest()[:32]


def written(findings: Sequence[Finding]) -> JsonValue:
    """Findings to be remembered."""
    return report_json(Report(tuple(findings)))


def read(value: JsonValue) -> tuple[Finding, ...] | None:
    """Findings that were remembered; None where they cannot be read."""
    found = read_report(value)
    return found.findings if found is not None else None


def _texts(tree: PolicyTree, tool: ToolName) -> Iterator[str]:
    policy = tree.policy.tools.get(tool)
    if policy is None:
        return
    yield tree.label
    files = {f"{tool}.yaml"} | {case.node.file for case in tree.cases.get(tool, ())}
    for name in sorted(files):
        yield name
        yield "\n".join(tree.lines.get(name, ()))
    for number, version in policy.versions.items():
        yield number
        yield version.digest
        # The digest of a contract passes over what its text looks like; places of findings do not.
        name = tree.contract_name(tool, number) or ""
        yield name
        yield tree.contracts.get(name, "")
